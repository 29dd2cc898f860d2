"""The table of steps: each row's work by popxl and its peers, compared, then timed in turn."""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import ours
import peers
import work
from report import Report


def differs(a: Any, b: Any, tolerance: float = 1e-3) -> str | None:
    """Names the first result whose distance, relative to its length, is more than float32 rounding explains."""
    if isinstance(a, float):
        return None if abs(a - b) <= tolerance * max(1, abs(b)) else f"loss {a} against {b}"
    for name in a.keys() & b.keys():
        distance = float(np.linalg.norm(a[name] - b[name])) / (float(np.linalg.norm(b[name])) or 1.0)
        if not distance < tolerance:
            return f"{name} by {distance:.1e} of its length"
    return None


def changed(item: work.Work, step: Callable) -> work.Arrays:
    """What the step so far did to tensors: gradients, by their rate. Empty where it changes none."""
    if not isinstance(step, work.TrainingStep):
        return {}
    return {name: value - item.weights.get(name, 0) for name, value in step.weights().items()}


def time_in_turn(steps: dict[str, Callable], seconds: float) -> dict[str, float]:
    """Median seconds of a step, the candidates one after the other in each round."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        warm = time.perf_counter() + 1
        for _ in range(3):
            step()
            if time.perf_counter() > warm:
                break
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


def use_memory(size: int) -> None:
    """Writes once to `size` bytes, or to half of what is free.

    A virtual machine gets a page from its host when it is used for the first time, which takes 30 times as long as
    clearing it: later owners of the pages, and so first runs, do not pay for that.
    """
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    np.empty(min(size, free // 2), np.uint8).fill(1)


class Candidates:
    """The steps of a row by name, popxl's first; how long the first run of each took; what they differ in."""

    def __init__(self, key: str, item: work.Work, others: list) -> None:
        self.steps: dict[str, Callable] = {}
        self.first: dict[str, float] = {}
        self.differences: list[str] = []
        wanted = None
        for name, source in (("popxl", ours), *((peer.name, peer) for peer in others)):
            step = getattr(source, key)(item)
            started = time.perf_counter()
            result = step()
            self.first[name] = time.perf_counter() - started
            self.steps[name] = step
            change = changed(item, step)
            if wanted is None:
                wanted = (result, change)
                continue
            # A gradient through 50 layers in float32 is 0.8% from the one in float64, in PyTorch as here.
            what = differs(wanted[0], result) or differs(wanted[1], change, 2e-2)
            if what is not None:
                self.differences.append(f"{item.name}: popxl and {name} differ: {what}")


def table(options: argparse.Namespace, limits: dict, report: Report) -> None:
    torch = peers.Torch(options.threads)
    others = [torch, peers.TorchCompiled(options.threads), peers.Jax(options.threads)]
    print("peers: " + ", ".join(f"{p.name} {p.version}" for p in others) + "\n")
    head = (
        f"{'work':58} {'popxl':>10} " + " ".join(f"{p.name:>10}" for p in others) + "   ratio  aim   share of the bound"
    )
    print(head + "\n" + "-" * len(head))
    for key in options.rows or work.ALL:
        row = work.ALL[key]
        item = row.make()
        if key == "gpt2_step":
            use_memory(8 << 30)
        candidates = Candidates(key, item, [torch] if row.eager else others)
        medians = time_in_turn(candidates.steps, options.seconds)
        ours_s = medians["popxl"]
        fastest = min(t for name, t in medians.items() if name != "popxl")
        cells = " ".join(
            f"{medians[n] * 1e3:8.3f}ms" if n in medians else " " * 10 for n in ("popxl", *(p.name for p in others))
        )
        share = shares(item, ours_s, limits)
        line = f"{item.name:58} {cells}   {fastest / ours_s:5.2f}  {row.ratio:.2f}   {share}"
        report.add(line, work=item.name, seconds=medians, ratio=fastest / ours_s, aim=row.ratio, share=share)
        for text in candidates.differences:
            report.add(text, work=item.name, difference=text)
        if key == "gpt2_step":
            gpt2_figures(item, torch, candidates, medians, report)
    print("ratio: fastest peer's time over ours\n")


def shares(item: work.Work, seconds: float, limits: dict) -> str:
    """How much of what the machine can do a step makes use of."""
    texts = []
    if item.flops:
        texts.append(f"{item.flops / seconds / limits['gflops'] / 1e9:.1%} of FMA peak")
    if item.bytes:
        texts.append(f"{item.bytes / seconds / limits['gbytes_per_s'] / 1e9:.1%} of bandwidth")
    return ", ".join(texts)


def gpt2_figures(
    item: work.Work, torch: peers.Torch, candidates: Candidates, medians: dict[str, float], report: Report
) -> None:
    """Memory of the training step, and what its first run takes beyond a later one.

    Peers compile when they run first. popxl is built and compiled once more, on weights that take no memory.
    """
    empty = {name: np.broadcast_to(np.float32(0), value.shape) for name, value in item.weights.items()}
    started = time.perf_counter()
    planned = ours.gpt2_training(item._replace(weights=empty)).session.memory().total
    built = {"popxl": time.perf_counter() - started}
    state = 3 * sum(value.nbytes for value in item.weights.values())  # with the moments
    peak = torch.peak_bytes(candidates.steps["PyTorch"], state)
    share = planned / peak
    line = f"  memory: {planned / 1e6:.0f} MB planned, PyTorch's peak {peak / 1e6:.0f} MB: {share:.2f} of it (aim 0.80)"
    report.add(line, work=item.name, planned_bytes=planned, peer_bytes=peak, ratio=share, aim=0.8)
    first = {name: built.get(name, 0) + max(t - medians[name], 0) for name, t in candidates.first.items()}
    fastest = min(first[name] for name in ("compiled", "JAX"))
    cells = ", ".join(f"{name} {t:.2f} s" for name, t in first.items())
    line = f"  first run, build and compile: {cells}: {fastest / first['popxl']:.1f} times as fast (aim 10)"
    report.add(line, work=f"{item.name}, first run", seconds=first, ratio=fastest / first["popxl"], aim=10)
