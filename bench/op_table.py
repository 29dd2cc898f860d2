"""The table of ops: each op of the test table that names its like in PyTorch, on a representative size.

An op's time is that of the instructions it became; PyTorch runs eagerly, on as many threads. Both are timed in turn, and
of both the result is copied out after each run, which is not timed but leaves the caches alike.
"""

import argparse
import functools
import math
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from report import Report

import popxl
from popxl import ops

#: Ratio to PyTorch's time from which an op counts as slower.
SLOWER = 1.1
#: Elements of an operand of an elementwise op.
ELEMENTS = (1024, 1024)
_TRAFFIC = {"host_store", "host_load", "init"}


def rows() -> list[Any]:
    """Rows of the test table with a peer; of ops that have none, the first with inputs of the table's size.

    Not those of collectives, which have a table of their own.
    """
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
    from ops.cases import CASES

    compared = {case.op for case in CASES if case.peer}
    alone = {}
    for case in CASES:
        if case.replicas == 1 and case.op not in compared and (case.big or case.size or case.elementwise):
            alone.setdefault(case.op, case)
    return [case for case in CASES if case.peer or case is alone.get(case.op)]


def inputs_of(case: Any) -> list[np.ndarray]:
    """The row's inputs at the size of the table, floats as float32."""
    rng = np.random.default_rng(9)
    arrays = [np.asarray(builder(rng)) for builder in case.sized(ELEMENTS)]
    return [a.astype(np.float32) if a.dtype == np.float64 else a for a in arrays]


class Ours:
    """A program of one op on variables."""

    def __init__(self, case: Any, arrays: list[np.ndarray], peaks: popxl.profile.MachinePeaks) -> None:
        self._peaks = peaks
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            made = case.call(*self._operands(case, arrays))
            self.streams = []
            for t in () if made is None else made if isinstance(made, (list, tuple)) else [made]:
                self.streams.append(popxl.d2h_stream(t.shape, t.dtype))
                ops.host_store(self.streams[-1], t)
        self.session = popxl.Session(ir, "cpu")
        self.session.__enter__()
        self.outputs = self.session.run()
        self.flops = self.bytes = 0.0

    @staticmethod
    def _operands(case: Any, arrays: list[np.ndarray]) -> list[popxl.Tensor]:
        make = {True: popxl.constant, False: popxl.variable}
        return [make[i in case.constants](a, popxl.dtype.as_dtype(a.dtype)) for i, a in enumerate(arrays)]

    def results(self) -> list[np.ndarray]:
        return [self.outputs[s] for s in self.streams]

    def seconds(self, count: int) -> float:
        """Of one run, over `count` of them: what the op took, without the traffic with the host."""
        with self.session.profile(self._peaks) as profile:
            for _ in range(count):
                self.session.run({}, self.outputs)
        entries = [e for e in profile.entries if not set(e.ops) <= _TRAFFIC]
        self.flops = sum(e.flops for e in entries) / count
        self.bytes = sum(e.bytes for e in entries) / count
        return sum(e.seconds for e in entries) / count


def function_of(peer: Any, torch: Any) -> Callable[..., Any]:
    """What a row names: a function of PyTorch by its dotted name, or one that takes the module first."""
    if callable(peer):
        return lambda *tensors: peer(torch, *tensors)
    function: Any = torch
    for name in peer.split("."):
        function = getattr(function, name)
    return function


class Theirs:
    """A function of PyTorch on its arguments."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self.copies = [t.clone() for t in self._results()]

    def _results(self) -> list[Any]:
        made = self._function()
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def seconds(self, count: int) -> float:
        """Of one run, over `count` of them."""
        total = 0.0
        for _ in range(count):
            started = time.perf_counter()
            made = self._results()
            total += time.perf_counter() - started
            for copy, t in zip(self.copies, made):
                copy.copy_(t)
            del made, t  # so that the next run may have the same memory
        return total / count


def time_in_turn(ours: Ours, theirs: Theirs | None, seconds: float) -> tuple[float, float]:
    """Median seconds of one run of each; NaN where there is no other."""
    count = int(min(max(0.02 / max(ours.seconds(1), 1e-6), 1), 1000))
    own, other = [], []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(own) < 5:
        own.append(ours.seconds(count))
        if theirs is not None:
            other.append(theirs.seconds(count))
    return statistics.median(own[1:]), statistics.median(other[1:]) if other else math.nan


def difference(ours: list[np.ndarray], theirs: list[Any]) -> str:
    """What to say when the two do not compute the same; nothing when they do."""
    for a, b in zip(ours, map(np.asarray, theirs)):
        b = b.reshape(a.shape) if b.size == a.size else b
        if a.shape != b.shape or not np.allclose(a.astype(np.float64), b.astype(np.float64), 1e-3, 1e-4, True):
            return "  (results differ)"
    return ""


def table(options: argparse.Namespace, limits: dict, report: Report) -> None:
    import torch

    torch.set_num_threads(options.threads)
    peaks = popxl.profile.MachinePeaks.measure()
    print(f"ops, beside PyTorch {torch.__version__} eager")
    print(f"{'op':34} {'popxl':>10} {'PyTorch':>10}   ratio   share of FMA peak, of bandwidth")
    slower = []
    for case in rows():
        if options.rows and not {case.op, case.name} & set(options.rows):
            continue
        arrays = inputs_of(case)
        ours = Ours(case, arrays, peaks)
        theirs, note = None, ""
        with torch.no_grad():
            if case.peer:
                tensors, function = [torch.from_numpy(a) for a in arrays], function_of(case.peer, torch)
                theirs = Theirs(functools.partial(function, *tensors))
                note = "" if case.check else difference(ours.results(), theirs.copies)
            own, other = time_in_turn(ours, theirs, options.seconds / 4)
        ours.session.__exit__(None, None, None)
        own = max(own, 1e-9)  # nothing is left to do where the compiler found that out
        fma = ours.flops / own / limits["gflops"] / 1e9
        bandwidth = ours.bytes / own / limits["gbytes_per_s"] / 1e9
        times = f"{own * 1e3:8.3f}ms " + (f"{other * 1e3:8.3f}ms  {other / own:6.2f}" if case.peer else " " * 18)
        line = f"{case.name:34} {times}   {fma:6.1%}  {bandwidth:6.1%}{note}"
        record = {"op": case.name, "seconds": own, "fma": fma, "bandwidth": bandwidth}
        report.add(line, **record, **({"peer_seconds": other, "ratio": other / own} if case.peer else {}))
        if own > other * SLOWER:
            slower.append(f"{case.name} ({other / own:.2f})")
    names = ", ".join(slower) or "none"
    report.add(f"ratio: PyTorch's time over ours; slower than PyTorch by more than 10%: {names}\n", slower=slower)
