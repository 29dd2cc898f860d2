"""Replicas in one process: training on one batch shared by several, and collectives as a share of memory bandwidth."""

import json
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

import popxl
from popxl import ops, transforms
from popxl.ops import collectives

if TYPE_CHECKING:
    from report import Report

BATCH, WIDTH, LAYERS = 1024, 512, 3
ELEMENTS = 4_000_000  #: of each replica's tensor in a collective
ROUNDS = 15


def training(replicas: int) -> Callable[[], None]:
    """A step of SGD on a multilayer perceptron; each replica has a part of the batch."""
    ir = popxl.Ir(replicas)
    rng = np.random.default_rng(0)
    part = BATCH // replicas
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((part, WIDTH), popxl.float32)
        weights = [
            popxl.variable((rng.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32)) for _ in range(LAYERS)
        ]

        def loss(x: popxl.Tensor, *weights: popxl.Tensor) -> popxl.Tensor:
            for w in weights:
                x = ops.gelu(x @ w)
            return ops.mean(ops.sumsquare(x, 1))

        graph = ir.create_graph(loss, source.spec, *weights)
        grad = transforms.autodiff(graph, grads_required=graph.inputs[1:])
        call = ops.call_with_info(graph, ops.host_load(source), *weights)
        for w, dw in zip(weights, ops.call(grad.graph, popxl.constant(1.0), inputs_dict=grad.inputs_dict(call))):
            if replicas > 1:
                dw = collectives.replicated_all_reduce_(dw, "mean")
            ops.var_updates.accumulate_(w, dw, -1e-4)
    session = popxl.Session(ir)
    session.__enter__()
    lead = (replicas,) if replicas > 1 else ()
    data = {source: rng.normal(size=(*lead, part, WIDTH)).astype(np.float32)}
    return lambda: session.run(data) and None


def collective(call: Callable[[popxl.Tensor], popxl.Tensor], replicas: int) -> Callable[[], None]:
    ir = popxl.Ir(replicas)
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(
            np.ones((replicas, ELEMENTS), np.float32), replica_grouping=ir.replica_grouping(group_size=1)
        )
        sink = popxl.d2h_stream((1,), popxl.float32)
        ops.host_store(sink, call(v)[:1])
    session = popxl.Session(ir)
    session.__enter__()
    return lambda: session.run() and None


def medians(steps: list[Callable[[], None]]) -> list[float]:
    """Seconds of each step, taken in turn."""
    times: list[list[float]] = [[] for _ in steps]
    for round_ in range(ROUNDS + 2):
        for own, step in zip(times, steps):
            begun = time.perf_counter()
            step()
            if round_ >= 2:
                own.append(time.perf_counter() - begun)
    return [statistics.median(own) for own in times]


def table(report: "Report", gbytes: float) -> None:
    """Adds the rows; `gbytes`: what the memory of this machine gives in a second."""
    counts = (1, 2, 4, 8)
    seconds = medians([training(n) for n in counts])
    for n, s in zip(counts, seconds):
        ratio = seconds[0] / s
        line = f"training, batch {BATCH} on {n} replica(s): {s * 1e3:.2f} ms, {ratio:.2f} x of one (aim: 0.95)"
        report.add(line, work="data parallel", replicas=n, ms=s * 1e3, ratio=ratio)
    replicas = 4
    moved = {  # tensors read and written by all replicas
        "all_reduce": (collectives.replicated_all_reduce, 2 * replicas),
        "reduce_scatter": (collectives.replicated_reduce_scatter, replicas + 1),
        "all_gather": (collectives.replicated_all_gather, replicas + replicas * replicas),
    }
    seconds = medians([collective(call, replicas) for call, _ in moved.values()])
    for (name, (_, tensors)), s in zip(moved.items(), seconds):
        rate = tensors * ELEMENTS * 4 / s / 1e9
        line = f"{name} of {replicas} replicas, {ELEMENTS * 4 / 1e6:.0f} MB each: {s * 1e3:.2f} ms, {rate:.1f} GB/s"
        report.add(f"{line}, {rate / gbytes:.0%} of the machine's", work=name, ms=s * 1e3, share=rate / gbytes)
    processes(report)
    streaming(report)


def streaming(report: "Report") -> None:
    """Runs whose inputs an iterator makes: one after the other, and with `Session.feed`."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        source, sink = popxl.h2d_stream((256, 1024), popxl.float32), popxl.d2h_stream((), popxl.float32)
        x = ops.host_load(source)
        for _ in range(2):
            x = ops.tanh(x @ popxl.variable(np.full((1024, 1024), 0.01, np.float32)))
        ops.host_store(sink, ops.sum(x))
    raw = np.random.default_rng(0).integers(0, 255, (256, 1024), dtype=np.uint8)

    def batches() -> Iterator[dict[popxl.HostToDeviceStream, np.ndarray]]:
        for _ in range(40):
            yield {source: np.sqrt(np.log1p(raw.astype(np.float64))) / 3}

    with popxl.Session(ir) as session:
        first = next(batches())
        seconds = []
        for work in (
            lambda: [None for _ in batches()],
            lambda: [session.run(first) for _ in range(40)],
            lambda: [session.run(batch) for batch in batches()],
            lambda: list(session.feed(batches())),
        ):
            work()
            begun = time.perf_counter()
            work()
            seconds.append((time.perf_counter() - begun) / 40)
    making, running, serial, fed = seconds
    hidden = (serial - fed) / min(making, running)
    line = f"a run of {running * 1e3:.2f} ms whose input takes {making * 1e3:.2f} ms to make: {serial * 1e3:.2f} ms"
    report.add(
        f"{line}, {fed * 1e3:.2f} ms with feed, {hidden:.0%} of the shorter hidden",
        work="streaming",
        ms=fed * 1e3,
        serial_ms=serial * 1e3,
        hidden=hidden,
    )


def processes(report: "Report") -> None:
    """All-reduce of two processes with a replica each, beside mpi4py's."""
    poprun = [sys.executable, "-m", "popdist.poprun", "--num-instances=2", "--num-replicas=2"]
    program = pathlib.Path(__file__).with_name("processes.py")
    megabytes = ("0.001", "0.1", "1", "16", "64")
    done = subprocess.run([*poprun, sys.executable, str(program), *megabytes], stdout=subprocess.PIPE, check=True)
    for size, (ours, theirs) in json.loads(done.stdout).items():
        line = f"all_reduce of 2 processes, {float(size):g} MB: {ours * 1e3:.3f} ms, mpi4py {theirs * 1e3:.3f} ms"
        ratio = theirs / ours
        work = "all_reduce of processes"
        report.add(f"{line}, {ratio:.2f} x (aim: 1)", work=work, megabytes=float(size), ms=ours * 1e3, ratio=ratio)
