"""Profiles: what runs, where it was written, its cost, beside what the machine can do; as a table and as a trace."""

import json

import numpy as np
import pytest

import popxl
from popxl import ops
from popxl.profile import MachinePeaks

PEAKS = MachinePeaks(
    flops_per_second=100e9, memory_bytes_per_second=10e9, cache_bytes_per_second=50e9, cache_bytes=1e6, threads=2
)


class Layers:
    """Two calls of one layer: a product, and a fused bias and gelu."""

    def __init__(self) -> None:
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            self.source = popxl.h2d_stream((32, 64), popxl.float32, "source")
            self.sink = popxl.d2h_stream((32, 64), popxl.float32, "sink")

            def layer(x: popxl.Tensor, w: popxl.Tensor, b: popxl.Tensor):
                return ops.gelu(x @ w + b)

            w = popxl.variable(np.full((64, 64), 0.1, np.float32), name="w")
            b = popxl.variable(np.zeros(64, np.float32), name="b")
            x = ops.host_load(self.source)
            graph = self.ir.create_graph(layer, x, w, b)
            for _ in range(2):
                (x,) = ops.call(graph, x, w, b)
            ops.host_store(self.sink, x)
        self.session = popxl.Session(self.ir)

    def run(self) -> None:
        self.session.run({self.source: np.ones((32, 64), np.float32)})


@pytest.fixture(name="layers")
def make_layers() -> Layers:
    return Layers()


def taken(layers: Layers, runs: int = 3):
    with layers.session, layers.session.profile(PEAKS) as profile:
        for _ in range(runs):
            layers.run()
    return profile


def entry(profile, op: str):
    (found,) = (e for e in profile.entries if op in e.ops)
    return found


def test_entries_say_what_ran_where_and_at_which_cost(layers):
    profile = taken(layers)
    assert profile.runs == 3
    product = entry(profile, "matmul")
    assert product.calls == 6 and "layer" in product.graph and product.kernel.startswith("matmul")
    assert product.flops == 6 * 2 * 32 * 64 * 64
    assert product.bytes == 6 * 4 * (32 * 64 + 64 * 64 + 32 * 64)
    assert "test_profile.py:" in product.locations[0]
    fused = entry(profile, "gelu")
    assert fused.ops == ["add", "gelu"] and fused.calls == 6 and not fused.bound_by_bytes
    assert fused.bytes == 6 * 4 * (2 * 32 * 64 + 64) and fused.flops > 6 * 32 * 64 * 10
    loads = entry(profile, "host_load")
    assert loads.bound_by_bytes and loads.calls == 3 and loads.bytes == 3 * 2 * 4 * 32 * 64 and loads.flops == 0


def test_times_add_up(layers):
    profile = taken(layers)
    assert 0 < sum(e.seconds for e in profile.entries) <= profile.seconds
    seconds = [e.seconds for e in profile.entries]
    assert seconds == sorted(seconds, reverse=True)
    calls = [e for e in profile.entries if e.ops == ["call"]]
    inside = entry(profile, "matmul").seconds + entry(profile, "gelu").seconds
    assert len(calls) == 2 and sum(e.inclusive_seconds - e.seconds for e in calls) == pytest.approx(inside)
    assert all(e.flops == e.bytes == e.predicted_seconds == 0 for e in calls)


def test_predictions_come_from_the_peaks(layers):
    profile = taken(layers)
    product, fused = entry(profile, "matmul"), entry(profile, "gelu")
    assert product.predicted_seconds == pytest.approx(max(product.flops / 100e9, product.bytes / 50e9))
    assert fused.predicted_seconds == pytest.approx(max(fused.flops / 100e9, fused.bytes / 50e9))
    assert fused.share_of_peak == pytest.approx(fused.predicted_seconds / fused.seconds)
    assert PEAKS.seconds_for(1e9, 2e6) == pytest.approx(0.01)
    assert PEAKS.seconds_for(1, 2e6) == pytest.approx(2e-4)


def test_table(layers):
    profile = taken(layers)
    lines = str(profile).splitlines()
    assert lines[0].startswith("3 run(s) of ") and "100 GFLOP/s" in lines[0] and "2 thread(s)" in lines[0]
    (gelu,) = (line for line in lines if "add gelu" in line)
    assert "flops" in gelu and "test_profile.py:" in gelu and "layer" in gelu
    assert len(lines) == 2 + len(profile.entries)
    short = profile.table(limit=1).splitlines()
    assert len(short) == 4 and short[3].endswith(f"in {len(profile.entries) - 1} more")


def test_trace_nests_calls(layers, tmp_path):
    profile = taken(layers, runs=1)
    profile.save_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert sum(e["name"] == "matmul" for e in slices) == 2
    calls = [e for e in slices if e["name"] == "call"]
    for product in (e for e in slices if e["name"] == "matmul"):
        assert any(c["ts"] <= product["ts"] and product["ts"] + product["dur"] <= c["ts"] + c["dur"] for c in calls)
        assert product["args"]["flops"] == 2 * 32 * 64 * 64 and "test_profile.py:" in product["args"]["at"][0]


def test_measured_peaks(layers):
    with layers.session, layers.session.profile() as profile:
        layers.run()
    peaks = MachinePeaks.measure()
    assert profile.peaks.flops_per_second == peaks.flops_per_second > 1e9  # measured once
    assert peaks.cache_bytes_per_second > 0 and peaks.memory_bytes_per_second > 1e8 and peaks.cache_bytes > 0


def test_profiles_one_after_the_other(layers):
    first, second = taken(layers, 1), taken(layers, 2)
    assert (first.runs, second.runs) == (1, 2)
    with layers.session:
        layers.run()
    assert second.runs == 2


def test_errors(layers):
    profile = layers.session.profile(PEAKS)
    for use in (lambda: profile.entries, lambda: profile.runs, lambda: str(profile), profile.chrome_trace):
        with pytest.raises(RuntimeError, match="not complete"):
            use()
    with profile:
        with pytest.raises(RuntimeError, match="not complete"):
            profile.table()
        with pytest.raises(ValueError, match="a profile of this session is being taken"):
            with layers.session.profile(PEAKS):
                pass
    assert profile.runs == 0 and profile.entries == []


def test_a_run_that_fails_leaves_the_profile_usable():
    ir = popxl.Ir()
    ir.num_host_transfers = 1
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((), popxl.float32, "source")
        total = popxl.variable(0.0, name="total")

        def body(total: popxl.TensorByRef):
            total += ops.host_load(source)

        ops.repeat(ir.create_graph(body, total), 2, total)  # asks for one entry more than a run has
    session = popxl.Session(ir)
    with session, session.profile(PEAKS) as profile:
        with pytest.raises(ValueError, match="asks for one more"):
            session.run({source: 1.0})
    assert profile.runs == 0 and entry(profile, "host_load").calls == 1
