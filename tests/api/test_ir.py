"""Irs and graphs: identity, names, create_graph, contexts, hooks, order of ops."""

import gc
import json
import pathlib
from typing import List

import numpy as np
import pytest

import popart
import popart._internal.ir as lower
import popxl
from popxl import ops
from popxl.context import _execution_context


def types_in_order(graph: popxl.Graph) -> List[str]:
    return [op.opType() for op in graph._pb_graph.getOpSchedule()]


def test_irs_are_compared_by_number_and_disappear():
    gc.collect()
    before = len(popxl.Ir._ir_cache)
    ir, other = popxl.Ir(), popxl.Ir()
    assert ir != other and ir == popxl.Ir._from_pb(ir._pb_ir) and popxl.Ir._from_pb(ir._pb_ir) is ir
    assert repr(ir) == f"Ir[id={ir.id}]"
    with pytest.raises(TypeError, match="int"):
        ir == 3
    assert ir.main_graph is ir.main_graph
    del ir, other
    gc.collect()
    assert len(popxl.Ir._ir_cache) == before


def test_a_tensor_keeps_its_ir():
    def make() -> popxl.Tensor:
        with popxl.Ir().main_graph:
            return popxl.variable(1) + 1

    t = make()
    gc.collect()
    assert t.ir.main_graph.get_tensor(t.id) == t


def test_hooks_keep_no_ir_alive():
    gc.collect()
    before = len(popxl.Ir._ir_cache)
    ir = popxl.Ir()
    seen = []
    ir.main_graph.register_op_created_hook(lambda op: seen.append((op.opType(), ir.id)))
    with ir.main_graph:
        popxl.variable(1) * 2
    assert seen == [("Mul", ir.id)]
    del ir
    gc.collect()
    assert len(popxl.Ir._ir_cache) == before


def test_names_are_unique():
    ir = popxl.Ir()
    with ir.main_graph, popxl.name_scope("outer"):
        first = popxl.variable(1, name="w")
        with popxl.name_scope("inner"):
            second = popxl.variable(1, name="w")
        third = popxl.variable(1, name="w")
    assert (first.id, second.id) == ("outer/w", "outer/inner/w")
    assert third.id.startswith("outer/w__t")


def test_create_graph_binds_the_signature():
    def body(x, ys, scale: float, *rest: popxl.TensorByRef, flag=True, **named):
        assert scale == 2.0 and flag and isinstance(ys, list)
        return [x * scale + ys[0], named["last"], rest[0]]

    ir = popxl.Ir()
    spec = popxl.TensorSpec((2,), popxl.float32)
    graph = ir.create_graph(body, spec, (spec, spec), 2.0, spec, last=spec)
    assert [t.name for t in graph.inputs] == ["x", "ys_0", "ys_1", "rest_0", "last"]
    assert [t.name for t in graph._by_ref_inputs] == ["rest_0"]
    assert len(graph.outputs) == 3
    assert graph.id == "test_create_graph_binds_the_signature.body_subgraph(0)"
    assert graph.inputs[0].id == f"{graph.id}/x"


def test_annotations_that_are_text():
    def body(x: "popxl.TensorByRef", ys: "List[popxl.TensorByRef]"):
        ops.add_(x, ys[0])

    ir = popxl.Ir()
    spec = popxl.TensorSpec((), popxl.float32)
    graph = ir.create_graph(body, spec, [spec])
    assert {t.name for t in graph._by_ref_inputs} == {"x", "ys_0"}


@pytest.mark.parametrize(
    "fn, args, error",
    [
        (3, (), TypeError),
        (lambda x: x, (), ValueError),
        (lambda x: x, ([popxl.TensorSpec((), popxl.int32), 1],), TypeError),
        (lambda x: x, ([1, popxl.TensorSpec((), popxl.int32)],), TypeError),
        (lambda: 1, (), ValueError),
        (lambda: [True], (), ValueError),
        (lambda: "text", (), ValueError),
    ],
)
def test_bad_create_graph_leaves_no_graph(fn, args, error):
    ir = popxl.Ir()
    with pytest.raises(error):
        ir.create_graph(fn, *args)
    assert len(ir._pb_ir.getAllGraphs()) == 1
    with pytest.raises(RuntimeError):
        popxl.gcg()


def test_current_graph():
    ir = popxl.Ir()
    for current in (popxl.gcg, popxl.gmg, popxl.gir):
        with pytest.raises(RuntimeError, match="ir.main_graph"):
            current()
    sub = ir.create_empty_graph("sub")
    with ir.main_graph:
        with sub:
            assert popxl.gcg() is sub and popxl.gmg() is ir.main_graph and popxl.gir() is ir
        with pytest.raises(RuntimeError):
            popxl.Ir().main_graph.__enter__()
        assert popxl.gcg() is ir.main_graph


def small_and_big():
    return popxl.variable(1, name="small"), popxl.variable(np.ones((2, 2), np.float32), name="big")


def test_order_of_ops():
    ir = popxl.Ir()
    with ir.main_graph:
        small, big = small_and_big()
        with popxl.in_sequence():
            big - 1
            with popxl.in_sequence(False):
                big + 1
                small * 1
            small / 1
    assert types_in_order(ir.main_graph) == ["Sub", "Mul", "Add", "Div"]


def test_in_sequence_as_decorator():
    ir = popxl.Ir()

    @popxl.in_sequence()
    def layer(small, big):
        big + 1
        small * 1

    with ir.main_graph:
        layer(*small_and_big())
    assert types_in_order(ir.main_graph) == ["Add", "Mul"]


def test_order_ends_at_execution_contexts():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        _, big = small_and_big()
        big + 1
        with _execution_context(lower.ExecutionContext.WeightsFromHostFragment):
            big - 1
    assert types_in_order(ir.main_graph) == ["Sub", "Add"]


@pytest.mark.parametrize("mode, error", [(None, TypeError), ("often", ValueError)])
def test_bad_in_sequence(mode, error):
    with pytest.raises(error):
        with popxl.in_sequence(mode):
            pass


def test_placement():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(1)
        for read in ("ipu", "tile_set"):
            with pytest.raises(popxl.errors.UndefinedValue, match="t is undefined|of tensor t"):
                getattr(x, read)
        with popxl.ipu(3), popxl.io_tiles():
            y = x + 1
        assert (y.ipu, y.tile_set) == (3, "io")
        assert (x.ipu, x.tile_set) == (3, "io")
    op = y._pb_tensor.producer
    assert op.getVirtualGraphId() == 3 and op.getSettings().tileSet == lower.TileSet.IO


def test_hooks_end():
    ir = popxl.Ir()
    graph = ir.main_graph
    first, second = [], []
    handles = [graph.register_op_created_hook(first.append), graph.register_op_created_hook(second.append)]
    with graph:
        x = popxl.variable(1) + 1
        graph.remove_op_created_hook(handles[0])
        x = x + 1
    ir.create_graph(lambda y: y + 1, x)
    assert (len(first), len(second)) == (1, 2)
    with pytest.raises(ValueError):
        graph.remove_op_created_hook(handles[0])


def test_replication_factor():
    ir = popxl.Ir(4)
    assert ir.replication_factor == ir.instance_replication_factor == 4
    options = ir._pb_ir.getSessionOptions()
    options.enableDistributedReplicatedGraphs = True
    options.globalReplicationFactor = 8
    assert (ir.replication_factor, ir.instance_replication_factor) == (8, 4)
    assert popxl.Ir("popdist").replication_factor == 1
    for bad in (0, -1, 1.5, True, "many"):
        with pytest.raises(ValueError):
            popxl.Ir(bad)


def test_options(monkeypatch):
    monkeypatch.setenv("POPART_CACHE_DIR", "other")
    monkeypatch.setenv("POPXL_CACHE_DIR", "here")
    options = popxl.Ir()._pb_ir.getSessionOptions()
    assert options.enableEngineCaching and options.cachePath == "here"
    assert options.enableInplaceAmbiguityChecking and not options.enableVariablesCaching
    options.engineOptions["k"] = "v"
    assert options.engineOptions["k"] == "v"


@pytest.mark.parametrize(
    "checks, written", [("", []), ("first", ["first.dot"]), ("ALL", ["final.dot", "first.dot"])]
)
def test_dot_checkpoints(monkeypatch, tmp_path, checks, written):
    monkeypatch.setenv("POPART_DOT_CHECKS", checks)
    ir = popxl.Ir()
    with ir.main_graph:
        ops.print_tensor(popxl.variable(1.0, name="w") + 1)
    ir.dot_checkpoint("First", tmp_path / "deep" / "folder")
    popxl.Session(ir)
    folder = tmp_path / "deep" / "folder"
    assert sorted(path.name for path in folder.iterdir()) == written
    for path in folder.iterdir():
        text = path.read_text()
        assert text.startswith("digraph") and "Add" in text and '"w' in text


def test_debug_info(tmp_path):
    file = tmp_path / "debug.json"
    popart.initializePoplarDebugInfo(str(file), "json")
    with popxl.Ir().main_graph:
        a = popxl.variable(1, name="a")
        b = a + a
    popart.closePoplarDebugInfo()
    record = json.loads(file.read_text())
    op = next(c for c in record["contexts"] if c["category"] == "op")
    assert (op["api"], op["inputs"], op["outputs"]) == ("add", [a.id, a.id], [b.id])
    names = record["stringTable"]
    assert names[op["location"]["fileName"]] == str(pathlib.Path(__file__).resolve())
    assert names[op["location"]["functionName"]] == "test_debug_info"
    assert (
        pathlib.Path(__file__).read_text().splitlines()[op["location"]["lineNumber"] - 1].strip()
        == "b = a + a"
    )


def test_errors_name_the_users_line():
    with popxl.Ir().main_graph:
        a, b = popxl.variable(np.ones(2)), popxl.variable(np.ones(3))
        with pytest.raises(popart.popart_exception, match=r"test_ir\.py:\d+") as caught:
            a + b
    assert "(2,)" in str(caught.value) and "(3,)" in str(caught.value)


def test_ops_are_instances_of_their_classes():
    with popxl.Ir().main_graph as graph:
        x = popxl.variable(1.0)
        ops.add_(x, x - 1)
    subtract, add = graph._pb_graph.getOps()
    assert isinstance(subtract, lower.op.SubtractOp) and not isinstance(subtract, lower.op.AddOp)
    assert isinstance(add, lower.op.AddLhsInplaceOp)
    assert not isinstance(add, lower.op.exchange.NoSuchOp)
