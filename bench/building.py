"""How fast programs are built and compiled, and what a run costs beside its work: no peer, plain figures."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import ours
import work

import popxl
import popxl.ops as ops
import popxl.transforms as transforms


def run_us(runs: int = 200) -> float:
    """Microseconds of a run that adds 1 to a number from the host and stores it there, from Python."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        source, sink = popxl.h2d_stream((), popxl.float32), popxl.d2h_stream((), popxl.float32)
        ops.host_store(sink, ops.host_load(source) + 1.0)
    feed = {source: np.array(41, np.float32)}
    times = []
    with popxl.Session(ir, "cpu") as session:
        assert session.run(feed)[sink] == 42
        for _ in range(50):
            started = time.perf_counter()
            for _ in range(runs):
                session.run(feed)
            times.append((time.perf_counter() - started) / runs)
    return statistics.median(times) * 1e6


def cpp_run_us(program: pathlib.Path) -> float:
    """The same through the C++ API."""
    done = subprocess.run([program, "--benchmark_format=json"], capture_output=True, text=True, check=True)
    (row,) = json.loads(done.stdout)["benchmarks"]
    return row["real_time"]


def adds_per_second(count: int) -> float:
    """`count` additions in a chain, from Python."""
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(1.0)
        y = x
        started = time.perf_counter()
        for _ in range(count):
            y = y + x
        return count / (time.perf_counter() - started)


def cpp_adds_per_second(folder: pathlib.Path) -> dict[int, float]:
    """The same from C++, by the length of the chain."""
    options = ["--benchmark_filter=addChain/", "--benchmark_format=json", "--benchmark_min_time=0.2"]
    command = [folder / "bench_ir_build", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)["benchmarks"]
    return {int(r["name"].split("/")[1]): r["items_per_second"] for r in rows if "items_per_second" in r}


def _layers(count: int, gradients: bool) -> popxl.Ir:
    """`count` calls of one encoder layer; with gradients also as many of its gradient graph."""
    item = work.encoder(batch=2, tokens=16, width=64, heads=4)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        weights: dict[str, popxl.Tensor] = {}

        def build(x: popxl.Tensor) -> popxl.Tensor:
            weights.update(ours.inputs_of(item))
            return ours.encoder_layer(x, weights, 4)

        x = ops.host_load(popxl.h2d_stream(item.data["x"].shape, popxl.float32, "x"))
        graph = ir.create_graph(build, x)
        inputs = {t: popxl.variable(item.weights[name], name=name) for name, t in weights.items()}
        calls = []
        for _ in range(count):
            calls.append(ops.call_with_info(graph, x, inputs_dict=inputs))
            x = calls[-1].outputs[0]
        if gradients:
            backward = transforms.autodiff(graph)
            for call in reversed(calls):
                x, *_ = ops.call(backward.graph, x, inputs_dict=backward.inputs_dict(call))
        ops.host_store(popxl.d2h_stream(x.shape, x.dtype, "result"), x)
    return ir


def compile_ms(layers: int, gradients: bool, fresh: bool, repeats: int = 15) -> float:
    """Median time to compile a model of called layers: the first of a process, or those after its first."""
    if fresh:
        command = [sys.executable, __file__, str(layers), str(int(gradients))]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        runs = (subprocess.run(command, capture_output=True, text=True, check=True, env=env) for _ in range(repeats))
        return statistics.median(float(run.stdout) for run in runs)
    ir = _layers(layers, gradients)
    times = [_session_ms(ir) for _ in range(repeats + 1)]
    return statistics.median(times[1:])


def _session_ms(ir: popxl.Ir) -> float:
    started = time.perf_counter()
    popxl.Session(ir, "cpu")
    return (time.perf_counter() - started) * 1e3


if __name__ == "__main__":
    print(_session_ms(_layers(int(sys.argv[1]), bool(int(sys.argv[2])))))
