"""One table: popxl beside PyTorch and JAX on the same work, threads and machine, in one run.

Steps of all three are timed in turn, so that a drift of the machine's speed meets everyone; the table gives medians.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "examples")]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=4.0, help="of measuring, for each row and framework")
    parser.add_argument("--only", choices=["machine", "steps", "building", "mnist"], action="append")
    parser.add_argument("--rows", nargs="+", help="only these rows of the table of steps, by their names in work.py")
    parser.add_argument("--seeds", type=int, default=5, help="trainings of the MNIST demo")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    options = parser.parse_args()
    if options.threads < 1:
        parser.error("--threads must be at least 1")
    return options


def limit_threads(threads: int) -> None:
    """Before anything is imported: every framework gets the same number of threads, and cores to put them on."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["OMP_NUM_THREADS"] = os.environ["POPXL_NUM_THREADS"] = str(threads)
    os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}"
    # Set for old OpenBLAS on some machines; NumPy and the peers are slower with it.
    os.environ.pop("OPENBLAS_CORETYPE", None)


def find_program(build: pathlib.Path, name: str) -> pathlib.Path:
    found = next((p for p in build.rglob(name) if p.is_file()), None)
    if found is None:
        sys.exit(f"{name} is not built in {build}; run `make build` first")
    return found


def machine(options: argparse.Namespace) -> dict:
    import json

    done = subprocess.run([find_program(options.build, "bench_machine"), str(options.threads)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    limits = json.loads(done.stdout)
    model = next((x.split(":")[1].strip() for x in open("/proc/cpuinfo") if x.startswith("model name")), "unknown processor")
    print(f"machine: {model}, {options.threads} threads: {limits['gflops']:.0f} GFLOP/s fused multiply-add (float32),", end=" ")
    print(f"{limits['gbytes_per_s']:.1f} GB/s triad")
    return limits


def differs(a, b, tolerance: float = 1e-3) -> str | None:
    """Names the first result whose distance, relative to its length, is more than float32 rounding explains."""
    import numpy as np

    if isinstance(a, float):
        return None if abs(a - b) <= tolerance * max(1, abs(b)) else f"loss {a} against {b}"
    for name, want in b.items():
        distance = float(np.linalg.norm(a[name] - want)) / (float(np.linalg.norm(want)) or 1.0)
        if not distance < tolerance:
            return f"{name} by {distance:.1e} of its length"
    return None


def changed(item, step) -> dict:
    """What the step so far did to the weights: gradients, by their rate. Empty where it changes none."""
    if not hasattr(step, "weights"):
        return {}
    return {name: value - item.weights[name] for name, value in step.weights().items()}


def time_in_turn(steps: dict, seconds: float) -> dict[str, float]:
    """Median seconds of a step, the candidates one after the other in each round."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        for _ in range(3):
            step()
    until = time.perf_counter() + seconds * len(steps)
    while time.perf_counter() < until or min(map(len, times.values())) < 5:
        for name, step in steps.items():
            burst = time.perf_counter()
            while True:  # several in a row, so that caches are as in a training loop
                started = time.perf_counter()
                step()
                times[name].append(time.perf_counter() - started)
                if time.perf_counter() - burst > 0.05:
                    break
    return {name: statistics.median(row) for name, row in times.items()}


def steps_table(options: argparse.Namespace, limits: dict) -> None:
    import ours
    import peers
    import work

    others = [peers.Torch(options.threads), peers.TorchCompiled(options.threads), peers.Jax(options.threads)]
    print("peers: " + ", ".join(f"{p.name} {p.version}" for p in others) + "\n")
    head = f"{'work':58} {'popxl':>10} " + " ".join(f"{p.name:>10}" for p in others) + "   ratio   share of FMA peak"
    print(head + "\n" + "-" * len(head))
    for key in options.rows or work.ALL:
        item = work.ALL[key]()
        steps = {"popxl": getattr(ours, key)(item)}
        for peer in others:
            steps[peer.name] = getattr(peer, key)(item)
        first = {name: step() for name, step in steps.items()}
        changes = {name: changed(item, step) for name, step in steps.items()}
        for peer in others:
            what = differs(first["popxl"], first[peer.name])
            # A gradient through 50 layers in float32 is 0.8% from the one in float64, in PyTorch as here.
            what = what or differs(changes["popxl"], changes[peer.name], 2e-2)
            if what is not None:
                print(f"{item.name}: popxl and {peer.name} differ: {what}")
        medians = time_in_turn(steps, options.seconds)
        fastest = min(t for name, t in medians.items() if name != "popxl")
        cells = " ".join(f"{t * 1e3:8.3f}ms" for t in medians.values())
        share = item.flops / medians["popxl"] / limits["gflops"] / 1e9
        print(f"{item.name:58} {cells}   {fastest / medians['popxl']:5.2f}   {share:6.1%}", flush=True)
    print("ratio: fastest peer's time over ours\n")


def building_figures(options: argparse.Namespace) -> None:
    import building

    for count in (100_000, 1_000_000):
        print(f"IR building from Python: {building.adds_per_second(count):,.0f} ops/s over {count:,} adds", flush=True)
    program = find_program(options.build, "bench_ir_build")
    for count, rate in building.cpp_adds_per_second(program.parent).items():
        print(f"IR building from C++: {rate:,.0f} ops/s over {count:,} adds")
    print(f"compile time of 24 called layers over 2: {building.compile_ratio():.2f}\n", flush=True)


def mnist_accuracy(options: argparse.Namespace) -> None:
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
    print(f"MNIST demo over {len(rows)} seeds: median {statistics.median(rows):.2%}, lowest {min(rows):.2%}")


def main() -> None:
    options = parse()
    limit_threads(options.threads)
    wanted = options.only or ["machine", "steps", "building", "mnist"]
    limits = machine(options) if {"machine", "steps"} & set(wanted) else {}
    if "steps" in wanted:
        steps_table(options, limits)
    if "building" in wanted:
        building_figures(options)
    if "mnist" in wanted:
        mnist_accuracy(options)


if __name__ == "__main__":
    main()
