"""One table: popxl beside PyTorch and JAX on the same work, threads and machine, in one run.

Steps of all three are timed in turn, so that a drift of the machine's speed meets everyone; the table gives medians.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "examples")]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=4.0, help="of measuring, for each row and framework")
    parser.add_argument("--only", choices=["machine", "steps", "ops", "memory", "session", "building", "replicas", "remote", "mnist"], action="append")
    parser.add_argument("--json", type=pathlib.Path, help="file for the figures")
    parser.add_argument("--rows", nargs="+", help="only these rows: of steps by their names in work.py, of ops by their names")
    parser.add_argument("--seeds", type=int, default=5, help="trainings of the MNIST demo")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    options = parser.parse_args()
    if options.threads < 1:
        parser.error("--threads must be at least 1")
    return options


def prepare(threads: int, cache: str) -> None:
    """Before anything is imported: every framework gets the same number of threads, and cores to put them on.

    torch.compile finds nothing from runs before in `cache`.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["OMP_NUM_THREADS"] = os.environ["POPXL_NUM_THREADS"] = str(threads)
    os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    # Set for old OpenBLAS on some machines; NumPy and the peers are slower with it.
    os.environ.pop("OPENBLAS_CORETYPE", None)


def find_program(build: pathlib.Path, name: str) -> pathlib.Path:
    found = next((p for p in build.rglob(name) if p.is_file()), None)
    if found is None:
        sys.exit(f"{name} is not built in {build}; run `make build` first")
    return found


def machine(options: argparse.Namespace) -> dict:
    done = subprocess.run([find_program(options.build, "bench_machine"), str(options.threads)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    limits = json.loads(done.stdout)
    model = next((x.split(":")[1].strip() for x in open("/proc/cpuinfo") if x.startswith("model name")), "unknown processor")
    print(f"machine: {model}, {options.threads} threads: {limits['gflops']:.0f} GFLOP/s fused multiply-add (float32),", end=" ")
    print(f"{limits['gbytes_per_s']:.1f} GB/s triad")
    return limits


def session_figures(options: argparse.Namespace, report: "Report") -> None:
    import building

    program = find_program(options.build, "bench_session_run")
    for language, us, aim in (("Python", building.run_us(), 10), ("C++", building.cpp_run_us(program), 2)):
        line = f"session.run of one add on a scalar, from {language}: {us:.2f} us (aim: under {aim})"
        report.add(line, work=f"session.run from {language}", us=us, aim=aim)


def building_figures(options: argparse.Namespace, report: "Report") -> None:
    import building

    for count in (100_000, 1_000_000):
        rate = building.adds_per_second(count)
        report.add(f"IR building from Python: {rate:,.0f} ops/s over {count:,} adds", adds=count, python_rate=rate)
    program = find_program(options.build, "bench_ir_build")
    for count, rate in building.cpp_adds_per_second(program.parent).items():
        report.add(f"IR building from C++: {rate:,.0f} ops/s over {count:,} adds", adds=count, cpp_rate=rate)
    for gradients in (False, True):
        what = "forward and backward" if gradients else "forward"
        for fresh in (True, False):
            small, large = (building.compile_ms(layers, gradients, fresh) for layers in (2, 24))
            when = "the first of a process" if fresh else "later ones"
            line = f"compile, {what}, {when}: 2 called layers {small:.2f} ms, 24 {large:.2f} ms, {large / small:.2f} x"
            report.add(line, compile=what, fresh=fresh, ms_2=small, ms_24=large, ratio=large / small)
    print()


def mnist_accuracy(options: argparse.Namespace, report: "Report") -> None:
    import numpy as np

    import mnist_data
    import mnist_demo

    train_set, test_set = mnist_data.load()
    rows = []
    for seed in range(options.seeds):
        weights, _, seconds, _ = mnist_demo.train(train_set, seed, 16, 0.004, quiet=True)
        right = mnist_demo.classify(weights, test_set.images).argmax(axis=1) == test_set.labels
        rows.append(float(np.mean(right)))
        print(f"MNIST demo, seed {seed}: {rows[-1]:.2%} in {seconds:.1f} s", flush=True)
    median = statistics.median(rows)
    report.add(f"MNIST demo over {len(rows)} seeds: median {median:.2%}, lowest {min(rows):.2%}", mnist_accuracy=rows)


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory() as cache:
        prepare(options.threads, cache)
        measure(options)


def measure(options: argparse.Namespace) -> None:
    from report import Report

    report = Report()
    wanted = options.only or ["machine", "steps", "ops", "memory", "session", "building", "replicas", "remote", "mnist"]
    limits = machine(options) if {"machine", "steps", "ops", "replicas"} & set(wanted) else {}
    if "steps" in wanted:
        import steps

        steps.table(options, limits, report)
    if "ops" in wanted:
        import op_table

        op_table.table(options, limits, report)
    if "memory" in wanted:
        import memory

        memory.table(report, options.rows)
    if "session" in wanted:
        session_figures(options, report)
    if "building" in wanted:
        building_figures(options, report)
    if "replicas" in wanted:
        import replicas

        replicas.table(report, limits["gbytes_per_s"])
    if "remote" in wanted:
        import remote

        remote.table(report)
    if "mnist" in wanted:
        mnist_accuracy(options, report)
    if options.json is not None:
        report.write(options.json)


if __name__ == "__main__":
    main()
