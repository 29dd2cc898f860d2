"""How fast programs are built and compiled: no peer, plain figures."""

import json
import pathlib
import statistics
import subprocess
import time

import numpy as np

import popxl
import popxl.ops as ops


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
    command = [folder / "bench_ir_build", "--benchmark_format=json", "--benchmark_min_time=0.2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)["benchmarks"]
    return {int(r["name"].split("/")[1]): r["items_per_second"] for r in rows if "items_per_second" in r}


def _layers(count: int) -> popxl.Ir:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = ops.host_load(popxl.h2d_stream((32, 256), popxl.float32, "x"))

        def layer(x: popxl.Tensor, w: popxl.Tensor, b: popxl.Tensor) -> popxl.Tensor:
            h = ops.gelu(x @ w + b)
            return ops.softmax(h @ w + b, axis=-1) + x

        w = popxl.variable(np.zeros((256, 256), np.float32))
        b = popxl.variable(np.zeros(256, np.float32))
        graph = ir.create_graph(layer, x, w, b)
        for _ in range(count):
            (x,) = ops.call(graph, x, w, b)
        out = popxl.d2h_stream(x.shape, x.dtype, "y")
        ops.host_store(out, x)
    return ir


def compile_ratio(repeats: int = 15) -> float:
    """Compile time of 24 layers over that of 2, all through one called graph."""
    times: dict[int, list[float]] = {2: [], 24: []}
    for _ in range(repeats):
        for count, row in times.items():
            ir = _layers(count)
            started = time.perf_counter()
            popxl.Session(ir, "cpu")
            row.append(time.perf_counter() - started)
    return statistics.median(times[24]) / statistics.median(times[2])
