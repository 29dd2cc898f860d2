"""Runs every test: C++ (ctest), IR text (lit) and Python (pytest); ends with the line 'N passed, N failed'.

Exits with 1 when a test failed, when a runner broke, or when nothing ran.
"""

import argparse
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass
class Totals:
    """How many tests passed and failed, and the names of those that failed."""

    passed: int = 0
    failed: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)

    def add(self, name: str, failed: bool) -> None:
        if failed:
            self.failed += 1
            self.failures.append(name)
        else:
            self.passed += 1

    def merge(self, other: "Totals") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.failures += other.failures


def read_junit(path: pathlib.Path) -> Totals:
    """Counts the cases of a JUnit file. A skipped or disabled case is neither passed nor failed."""
    totals = Totals()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status", "run")
        if case.find("skipped") is not None or status in ("notrun", "disabled"):
            continue
        failed = case.find("failure") is not None or case.find("error") is not None or status == "fail"
        totals.add(f"{case.get('classname', '')}.{case.get('name', '')}", failed)
    return totals


def run(title: str, command: list[str], environment: dict[str, str] | None = None) -> int:
    """Runs one of the three; what it prints goes straight through."""
    print(f"== {title}", flush=True)
    start = time.monotonic()
    code = subprocess.run(command, cwd=ROOT, env={**os.environ, **(environment or {})}, check=False).returncode
    print(f"== {title}: {time.monotonic() - start:.1f} s", flush=True)
    return code


def run_cpp(build: pathlib.Path, jobs: int, reports: pathlib.Path) -> Totals:
    """Runs ctest. GoogleTest programs report each of their cases; any other program counts as one."""
    junit = reports / "ctest.xml"
    command = ["ctest", "--test-dir", str(build), "--output-on-failure", "--output-junit", str(junit)]
    command += ["--parallel", str(jobs), "--no-tests=error"]
    code = run("C++", command, {"GTEST_OUTPUT": f"xml:{reports}/gtest/"})
    totals = Totals()
    if junit.exists():
        for case in ElementTree.parse(junit).getroot().iter("testcase"):
            name = case.get("name", "")
            failed = case.get("status") != "run"
            report = reports / "gtest" / f"{name}.xml"
            cases = read_junit(report) if report.exists() else Totals()
            totals.merge(cases)
            # A program that crashed or never started has no case of its own to show for it.
            if not report.exists() or (failed and not cases.failed):
                totals.add(name, failed)
    if code and not totals.failed:
        totals.add("ctest", True)
    return totals


def run_reported(title: str, command: list[str], junit: pathlib.Path, nothing_found: int) -> Totals:
    """Runs lit or pytest, which write `junit`. `nothing_found` is the exit code for an empty selection."""
    code = run(title, command)
    if code == nothing_found and not junit.exists():
        return Totals()
    totals = read_junit(junit) if junit.exists() else Totals()
    if code not in (0, nothing_found) and not totals.failed:
        totals.add(f"{title} (exit code {code})", True)
    return totals


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="build folder")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="tests to run at once")
    parser.add_argument("--only", choices=["cpp", "ir", "python"], action="append", help="run only this kind")
    parser.add_argument("filters", nargs="*", help="passed to pytest and lit")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    reports = build / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    os.environ["POPXL_BUILD"] = str(build)

    kinds = arguments.only or ["cpp", "ir", "python"]
    totals = Totals()
    if "cpp" in kinds:
        totals.merge(run_cpp(build, arguments.jobs, reports))
    if "ir" in kinds:
        junit = reports / "lit.xml"
        lit = str(pathlib.Path(sys.executable).parent / "lit")
        command = [lit, "-v", "-j", str(arguments.jobs), f"-Dbuild={build}"]
        # lit exits with 2 when it finds nothing, but also when its configuration is wrong.
        nothing_found = -1 if any(ROOT.glob("tests/**/*.ir")) else 2
        command += ["--xunit-xml-output", str(junit), "tests"]
        totals.merge(run_reported("IR text", command, junit, nothing_found))
    if "python" in kinds:
        junit = reports / "pytest.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={junit}", *arguments.filters]
        totals.merge(run_reported("Python", command, junit, 5))

    if totals.failures:
        print("\nFailed:")
        for name in totals.failures:
            print(f"  {name}")
    print(f"{totals.passed} passed, {totals.failed} failed")
    return 1 if totals.failed or not totals.passed else 0


if __name__ == "__main__":
    sys.exit(main())
