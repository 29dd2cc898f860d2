"""What can go wrong around replicas, groups and remote variables: refused where it is made, or as it should be."""

import numpy as np
import pytest

import popxl
from popart import popart_exception
from popxl import checkpoint, ops
from popxl.ops import collectives


def test_number_of_replicas_is_set_first():
    ir = popxl.Ir(8)
    ir.replication_factor = 4
    with ir.main_graph:
        popxl.variable(np.zeros(3, np.float32))
        ir.replication_factor = 2
        collectives.replicated_reduce_scatter(popxl.variable(np.ones(8, np.float32)))
    with pytest.raises(RuntimeError, match="can't change from 2 to 1 once there are collectives"):
        ir.replication_factor = 1
    ir.replication_factor = 2
    ir = popxl.Ir(4)
    with ir.main_graph:
        popxl.variable(np.zeros(2), replica_grouping=ir.replica_grouping(group_size=2))
    with pytest.raises(RuntimeError, match="variables of several groups"):
        ir.replication_factor = 2


@pytest.mark.parametrize("reference", [False, True], ids=["compiled", "reference"])
@pytest.mark.parametrize("what", ["replicated_reduce_scatter", "w"])
def test_number_of_replicas_changed_in_the_options(what, reference):
    ir = popxl.Ir(8)
    with ir.main_graph, popxl.in_sequence():
        if what == "w":
            popxl.variable(np.zeros(8), name="w", replica_grouping=ir.replica_grouping(group_size=1))
        else:
            ops.print_tensor(collectives.replicated_reduce_scatter(popxl.variable(np.ones(8000, np.float32))))
    ir._pb_ir.getSessionOptions().replicatedGraphCount = 1
    with pytest.raises(popart_exception, match=f"`{what}` at .*test_replica_mistakes.py:.* another number of replicas"):
        popxl.Session(ir, reference=reference)


def test_checkpoint_restores_the_values_of_all_replicas(tmp_path):
    ir = popxl.Ir(2)
    with ir.main_graph, popxl.in_sequence():
        own = popxl.variable(np.float32([0, 1]), replica_grouping=ir.replica_grouping(group_size=1))
        v = popxl.variable(np.float32(0), retrieval_mode="all_replicas")
        ops.var_updates.accumulate_(v, own)
    with popxl.Session(ir) as session:
        checkpoint.save(session, tmp_path)
        session.run()
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(v), [0, 2])
        checkpoint.load(session, tmp_path)
        np.testing.assert_array_equal(session.get_tensor_data(v), [0, 0])
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(v), [0, 1])


def test_values_of_all_replicas_over_a_memmap(tmp_path):
    data = np.memmap(tmp_path / "w", np.float32, "w+", shape=(3,))
    ir = popxl.Ir(2)
    with ir.main_graph, popxl.in_sequence():
        own = popxl.variable(np.float32([[1], [5]]), replica_grouping=ir.replica_grouping(group_size=1))
        v = popxl.variable(data, retrieval_mode="all_replicas")
        v += own
    with popxl.Session(ir) as session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(v), [[1] * 3, [5] * 3])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: popxl.remote_variable(np.arange(5.0), popxl.remote_buffer((2,), popxl.float32)), "holds tensors of float32 .2,."),
        (lambda: popxl.remote_variable(np.zeros(3), popxl.remote_buffer((3,), popxl.int32)), "holds tensors of int32"),
        (
            lambda: popxl.remote_replica_sharded_variable(np.arange(10.0), popxl.remote_buffer((1,), popxl.float32)),
            r"float32 \(10,\); remote buffer 1, .* holds float32 \(1,\) on each replica.* enough for 4 shards",
        ),
        (
            lambda: popxl.remote_replica_sharded_variable(np.arange(8.0), popxl.remote_buffer((2,), popxl.int32)),
            "holds int32 .2,. on each replica",
        ),
    ],
)
def test_remote_variable_that_does_not_fit(make, message):
    ir = popxl.Ir(4)
    with ir.main_graph:
        make()
    with pytest.raises(ValueError, match=message):
        popxl.Session(ir)


def test_two_variables_in_one_entry():
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.remote_buffer((2,), popxl.float32, 2)
        for name in ("a", "b"):
            popxl.remote_variable(np.zeros(2), buffer, 1, name=name)
    with pytest.raises(ValueError, match=r"`a` at .*\.py:\d+ and `b` at .* are both in entry 1 of remote buffer 1"):
        popxl.Session(ir)


@pytest.mark.parametrize(
    ("grouping", "error", "message"),
    [
        (lambda ir: popxl.Ir(8).replica_grouping(group_size=1), ValueError, "belongs to another Ir"),
        (lambda ir: 2, TypeError, "must be a popxl.ReplicaGrouping; it is 2"),
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        lambda g: popxl.variable(np.zeros(8), replica_grouping=g),
        lambda g: popxl.replica_sharded_variable(np.zeros(8), replica_grouping=g),
        lambda g: popxl.replica_sharded_buffer((8,), popxl.float32, g),
    ],
)
def test_grouping_that_is_none(make, grouping, error, message):
    ir = popxl.Ir(2)
    with ir.main_graph, pytest.raises(error, match=message):
        make(grouping(ir))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t: collectives.replicated_permute(t, [1.5, 0]), TypeError, r"`sources` .* it is \[1.5, 0\]"),
        (lambda t: collectives.replicated_permute(t, 1), TypeError, "`sources` must be a sequence of integers; it is 1"),
        (lambda t: collectives.all_reduce([t], ["a"]), TypeError, r"`ipus` must be a sequence of integers; it is \['a'\]"),
        (lambda t: collectives.all_reduce([t], 0), TypeError, "`ipus` must be a sequence of integers; it is 0"),
        (lambda t: collectives.all_reduce(t), TypeError, "`ts` must be a list of tensors"),
        (lambda t: collectives.replicated_all_reduce(t, ["add"]), ValueError, r"no reduction \['add'\]"),
    ],
)
def test_arguments_that_are_none(call, error, message):
    with popxl.Ir(2).main_graph, pytest.raises(error, match=message):
        call(popxl.variable(np.zeros(2)))


@pytest.mark.parametrize("reference", [False, True], ids=["compiled", "reference"])
@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (collectives.replicated_all_gather, (0, 3)),
        (lambda t: collectives.replicated_all_gather(t, output_shape="new_axis"), (2, 0, 3)),
        (collectives.replicated_all_to_all, (0, 3)),
        (collectives.replicated_slice, (0, 3)),
        (collectives.replicated_all_reduce, (0, 3)),
        (collectives.replicated_reduce_scatter, (0,)),
        (collectives.replicated_broadcast, (0, 3)),
    ],
)
def test_no_elements(call, shape, reference):
    ir = popxl.Ir(2)
    with ir.main_graph, popxl.in_sequence():
        t = call(popxl.variable(np.zeros((0, 3), np.float32)))
        stream = popxl.d2h_stream(t.shape, t.dtype)
        ops.host_store(stream, t)
    assert t.shape == shape
    with popxl.Session(ir, reference=reference) as session:
        assert session.run()[stream].shape == (2, *shape)


@pytest.mark.parametrize("reference", [False, True], ids=["compiled", "reference"])
def test_float8_is_cut_but_not_reduced(reference):
    data = popxl.utils.host_pow2scale_cast_to_fp8(np.arange(4.0), popxl.float8_143, 0, True)
    ir = popxl.Ir(2)
    with ir.main_graph, popxl.in_sequence():
        t = popxl.variable(data, dtype=popxl.float8_143)
        part = collectives.replica_sharded_slice(t)
        stream = popxl.d2h_stream(part.shape, part.dtype)
        ops.host_store(stream, part)
        with pytest.raises(TypeError, match="has no arithmetic; cast it before it is reduced"):
            collectives.replicated_reduce_scatter(t)
    with popxl.Session(ir, reference=reference) as session:
        np.testing.assert_array_equal(session.run()[stream].view(np.uint8), data.view(np.uint8).reshape(2, 2))


def test_condition_of_large_constants_costs_no_time_to_compile():
    """It is the same on all replicas; nothing is worked out before the run."""
    ir = popxl.Ir(2)
    with ir.main_graph, popxl.in_sequence():
        a = popxl.constant(np.ones((2000, 2000), np.float32))
        x = popxl.variable(1.0)
        positive = ops.greater(ops.sum(a @ a), popxl.constant(0.0))
        branches = ir.create_graph(collectives.replicated_all_reduce, x), ir.create_graph(lambda x: x * 1, x)
        (y,) = ops.conditional(positive, *branches, [x], [x])
        stream = popxl.d2h_stream((), popxl.float32)
        ops.host_store(stream, y)
    with popxl.Session(ir) as session:  # would take minutes
        np.testing.assert_array_equal(session.run()[stream], [2, 2])
