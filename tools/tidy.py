"""Runs clang-tidy over the sources, a file only when something that it includes, the rules or clang-tidy changed.

What a file was when it passed is kept as a hash of its preprocessed text, comments included, in .cache/tidy.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "tidy"


def output_of(command: list[str], folder: pathlib.Path | str = ROOT) -> str:
    """Returns what a command prints; CalledProcessError if it fails."""
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, errors="replace").stdout


def preprocess_command(entry: dict) -> list[str]:
    """Turns a compile command into one that prints the text that the compiler sees."""
    command = shlex.split(entry["command"])
    if pathlib.Path(command[0]).name == "ccache":
        command = command[1:]
    output = command.index("-o")
    return [argument for argument in command[:output] + command[output + 2 :] if argument != "-c"] + ["-E", "-C"]


def check(entry: dict, rules: bytes, options: list[str]) -> str | None:
    """Returns what clang-tidy finds in a file; None if it passes now or did as it is."""
    text = output_of(preprocess_command(entry), entry["directory"])
    stamp = CACHE / hashlib.sha256(rules + text.encode()).hexdigest()
    if stamp.exists():
        return None
    done = subprocess.run(
        ["clang-tidy", "--quiet", *options, entry["file"]], cwd=ROOT, capture_output=True, text=True, errors="replace"
    )
    if done.returncode != 0:
        return done.stdout + done.stderr
    stamp.touch()
    return None


def main() -> None:
    """Exits with 1 and shows every finding unless all files pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release", help="folder with compile_commands.json")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("files", nargs="*", help="only these; all of src and tools if none is named")
    arguments = parser.parse_args()
    files = arguments.files or output_of(["git", "ls-files", "src/*.cpp", "tools/*.cpp"]).split()
    missing = [file for file in files if not (ROOT / file).is_file()]
    if missing:
        parser.error(f"there is no file {', '.join(missing)}")
    wanted = {str(ROOT / file) for file in files}
    entries = json.loads((ROOT / arguments.build / "compile_commands.json").read_text())
    entries = [entry for entry in entries if entry["file"] in wanted]
    if unknown := wanted - {entry["file"] for entry in entries}:
        parser.error(f"{arguments.build} does not compile {', '.join(sorted(unknown))}")
    # omp.h belongs to the compiler that builds; after all of clang's own headers it shadows none of them.
    headers = output_of(["g++", "-print-file-name=include"]).strip()
    options = ["-p", arguments.build, "--extra-arg=-Wno-unknown-warning-option", f"--extra-arg=-idirafter{headers}"]
    rules = (ROOT / ".clang-tidy").read_bytes() + output_of(["clang-tidy", "--version"]).encode()
    CACHE.mkdir(parents=True, exist_ok=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for entry, found in zip(entries, pool.map(lambda e: check(e, rules, options), entries)):
            if found is not None:
                failed += 1
                print(f"{entry['file']}:\n{found}", flush=True)
    print(f"clang-tidy: {failed} of {len(entries)} files fail")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
