"""Programs of several replicas, compared with NumPy replica by replica."""

import numpy as np
import pytest

import popxl
from popart import popart_exception
from popxl import ops, transforms
from popxl.ops import collectives

#: Compiled programs and the reference engine are both compared with NumPy.
both_engines = pytest.mark.parametrize("reference", [False, True], ids=["compiled", "reference"])


def each(ir):
    """The grouping in which every replica has a value of its own."""
    return ir.replica_grouping(group_size=1)


def store(t, name="out"):
    stream = popxl.d2h_stream(t.shape, t.dtype, name)
    ops.host_store(stream, t)
    return stream


@both_engines
@pytest.mark.parametrize("replicas", [2, 3, 8])
def test_host_data_of_every_replica_and_transfer(replicas, reference):
    ir = popxl.Ir(replicas)
    ir.num_host_transfers = 3
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((4,), popxl.float32, "in")
        sink = popxl.d2h_stream((4,), popxl.float32, "out")

        def body():
            x = ops.host_load(source)
            ops.host_store(sink, collectives.replicated_all_reduce(x) - x)

        ops.repeat(ir.create_graph(body), 3)
    x = np.random.default_rng(0).integers(-9, 9, (3, replicas, 4)).astype(np.float32)
    with popxl.Session(ir, reference=reference) as session:
        got = session.run({source: x})[sink]
    np.testing.assert_array_equal(got, x.sum(1, keepdims=True) - x)


@both_engines
@pytest.mark.parametrize("stride, size", [(1, 8), (1, 4), (2, 4), (4, 2), (2, 2), (1, 1)])
def test_variables_of_groups(stride, size, reference):
    ir = popxl.Ir(8)
    group = ir.replica_grouping(stride, size)
    data = np.arange(group.num_groups * 3, dtype=np.float32).reshape(group.num_groups, 3)
    host = data if group.num_groups > 1 else data[0]
    with ir.main_graph, popxl.in_sequence():
        variable = popxl.variable(host, replica_grouping=group)
        modes = popxl.variable(host, replica_grouping=group, retrieval_mode="all_replicas")
        out = store(variable)
        for v in (variable, modes):
            ops.var_updates.accumulate_(v, v)
    assert variable.shape == (3,) and variable.shape_on_host == host.shape
    with popxl.Session(ir, reference=reference) as session:
        np.testing.assert_array_equal(session.run()[out], data[group.assignment])
        np.testing.assert_array_equal(session.get_tensor_data(variable), 2 * host)
        read = session.get_tensor_data(modes)
        np.testing.assert_array_equal(read, 2 * (data[group.assignment] if size > 1 else host))
        session.write_variable_data(variable, host + 1)
        np.testing.assert_array_equal(session.run()[out], data[group.assignment] + 1)


@both_engines
def test_collectives_inside_calls_repeats_and_conditionals(reference):
    ir = popxl.Ir(4)
    groups = ir.replica_grouping(stride=2)
    with ir.main_graph, popxl.in_sequence():
        own = popxl.variable(np.arange(8, dtype=np.float32).reshape(4, 2), replica_grouping=each(ir))

        def step(x: popxl.Tensor):
            y = x * 0.5
            return collectives.replicated_all_reduce(y, group=groups) - y

        def other(x: popxl.Tensor):
            return collectives.replicated_all_reduce(ops.exp(x * 0.1), "max")

        def same(x: popxl.Tensor):
            return x + 1

        once = ir.create_graph(step, own)
        (a,) = ops.call(once, own)
        (b,) = ops.repeat(once, 5, a)
        yes, no = popxl.variable(True, popxl.bool), popxl.variable(False, popxl.bool)
        graphs = ir.create_graph(other, own), ir.create_graph(same, own)
        (c,) = ops.conditional(yes, *graphs, [b], [b])
        (d,) = ops.conditional(no, *graphs, [c], [c])
        mine = ops.greater(popxl.constant(3.0), own)
        (e,) = ops.conditional(mine[0], graphs[1], once_more(ir, own), [d], [d])  # differs between replicas
        outs = [store(t) for t in (a, b, c, d, e)]
    with popxl.Session(ir, reference=reference) as session:
        got = session.run()
    x = np.arange(8, dtype=np.float32).reshape(4, 2)

    def stepped(x):
        return (x * 0.5)[[2, 3, 0, 1]]

    want = [stepped(x)]
    b = want[0]
    for _ in range(5):
        b = stepped(b)
    c = np.broadcast_to(np.exp(b * np.float32(0.1)).max(0), (4, 2))
    d = c + 1
    e = np.where(x[:, :1] < 3, d + 1, d * 3)
    for stream, value in zip(outs, [*want, b, c, d, e]):
        np.testing.assert_allclose(got[stream], value, 1e-6, 1e-6)


def once_more(ir, like):
    return ir.create_graph(lambda y: y * 3, like)


@both_engines
def test_a_condition_that_differs_around_a_collective(reference):
    ir = popxl.Ir(3)
    with ir.main_graph, popxl.in_sequence():
        condition = popxl.variable(np.array([True, False, True]), popxl.bool, replica_grouping=each(ir))
        x = popxl.variable(1.0)
        graph = ir.create_graph(lambda x: collectives.replicated_all_reduce(x), x)
        store(ops.conditional(condition, graph, once_more(ir, x), [x], [x])[0])
    with popxl.Session(ir, reference=reference) as session:
        with pytest.raises(
            ValueError,
            match=r"`conditional` at .*test_replicas.py:\d+: its condition is true on replicas 0, 2 and false on "
            "replicas 1, but all replicas must reach the collective",
        ):
            session.run()
        session.write_variable_data(condition, np.array([True] * 3))
        assert list(session.run().values())[0].tolist() == [3, 3, 3]


@both_engines
def test_a_condition_that_is_known_to_differ_is_an_error_of_the_session(reference):
    ir = popxl.Ir(2)
    with ir.main_graph, popxl.in_sequence():
        numbers = collectives.replicated_slice(popxl.constant(np.array([1, 2], np.int32)))
        condition = ops.equal(numbers, popxl.constant(1, popxl.int32))
        x = popxl.variable(1.0)
        graph = ir.create_graph(lambda x: collectives.replicated_all_reduce(x), x)
        store(ops.conditional(condition, graph, once_more(ir, x), [x], [x])[0])
    with pytest.raises(ValueError, match="`conditional` at .* true on replicas 0 and false on replicas 1, but all"):
        popxl.Session(ir, reference=reference)


@both_engines
def test_loops_around_and_beside_collectives(reference):
    """Trip counts and conditions known when the program runs: the same on all replicas around a collective, any
    beside one."""
    ir = popxl.Ir(3)
    with ir.main_graph, popxl.in_sequence():
        counts = popxl.variable(np.array([2, 2, 2], np.int32), replica_grouping=each(ir))
        x = popxl.variable(np.float32([1, 2, 4]), replica_grouping=each(ir))
        total = ir.create_graph(lambda x: collectives.replicated_all_reduce(x) - x, x)
        double = ir.create_graph(lambda x: x + x, x)
        summed = store(ops.repeat(total, counts, x, max_repeat_count=5)[0])
        doubled = store(ops.repeat(double, counts, x, max_repeat_count=5)[0], "doubled")

        def small(x: popxl.Tensor):
            return ops.greater(popxl.constant(20.0), ops.sum(collectives.replicated_all_gather(x, 0)))

        grown = ops.while_loop(ir.create_graph(small, ops.reshape(x, (1,))), double_of(ir), 9, ops.reshape(x, (1,)))
        looped = store(grown[0], "looped")
    with popxl.Session(ir, reference=reference) as session:
        got = session.run()
        assert got[summed].tolist() == [8, 9, 11] and got[doubled].tolist() == [4, 8, 16]
        assert got[looped].tolist() == [[4], [8], [16]]
        session.write_variable_data(counts, np.array([2, 3, 2], np.int32))
        with pytest.raises(
            ValueError, match="`repeat_up_to` at .*: its trip count is 2 on replicas 0, 2 and 3 on replicas 1, but all"
        ):
            session.run()


def double_of(ir):
    return ir.create_graph(lambda x: x + x, popxl.TensorSpec((1,), popxl.float32))


def test_all_replicas_get_the_bits_of_one_tree():
    """Values whose sum depends on the order."""
    x = np.random.default_rng(1).normal(0, 1e3, (7, 3000)).astype(np.float32)
    ir = popxl.Ir(7)
    with ir.main_graph:
        v = popxl.variable(x, replica_grouping=each(ir))
        out = store(collectives.replicated_all_reduce(v))
    with popxl.Session(ir) as session:
        got = session.run()[out]
    tree = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + x[6])
    np.testing.assert_array_equal(got, np.broadcast_to(tree, got.shape))


@both_engines
def test_data_parallel_training_is_training_on_the_whole_batch(reference):
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(4, 8, 3)).astype(np.float32), rng.normal(size=(3, 2)).astype(np.float32)
    ir = popxl.Ir(4)
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream((8, 3), popxl.float32)
        weights = popxl.variable(w)

        def loss(x, w):
            return ops.mean(ops.sumsquare(x @ w, 1))

        graph = ir.create_graph(loss, source.spec, weights)
        grad = transforms.autodiff(graph, grads_required=graph.inputs[1:])
        call = ops.call_with_info(graph, ops.host_load(source), weights)
        (dw,) = ops.call(grad.graph, popxl.constant(1.0), inputs_dict=grad.inputs_dict(call))
        ops.var_updates.accumulate_(weights, collectives.replicated_all_reduce(dw, "mean"), -0.1)
    with popxl.Session(ir, reference=reference) as session:
        for _ in range(3):
            session.run({source: x})
        got = session.get_tensor_data(weights)
    whole = x.reshape(32, 3).astype(np.float64)
    want = w.astype(np.float64)
    for _ in range(3):
        want -= 0.1 * 2 * whole.T @ (whole @ want) / 32
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


def _model(replicas, width=64):
    ir = popxl.Ir(replicas)
    rng = np.random.default_rng(3)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(rng.normal(size=(replicas, 2, width)), replica_grouping=each(ir)) if replicas > 1 else (
            popxl.variable(rng.normal(size=(2, width)))
        )
        y = x
        for _ in range(4):
            y = ops.gelu(y @ popxl.variable(rng.normal(size=(width, width)) / 8))
        out = store(collectives.replicated_all_reduce(y))
    return ir, out


def test_many_replicas_take_the_memory_of_one_and_what_differs():
    one = popxl.Session(_model(1)[0]).memory()
    ir, out = _model(256)
    session = popxl.Session(ir)
    report = session.memory()
    weights = one.variable_bytes - 2 * 64 * 4
    assert weights >= 4 * 64 * 64 * 4
    assert report.variable_bytes <= weights + 256 * 2 * 64 * 4 + 64
    assert report.frame_bytes <= 256 * 2 * (2 * 64 * 4) + 8 * one.frame_bytes
    with session:
        got = session.run()[out]
        assert got.shape == (256, 2, 64)
        page = 4096
        assert session.touched_memory() <= report.total + 4 * page


@pytest.mark.parametrize("replicas", [64, 1024])
def test_up_to_1024_replicas(replicas):
    ir = popxl.Ir(replicas)
    with ir.main_graph:
        rank = popxl.variable(np.arange(replicas, dtype=np.int32), replica_grouping=each(ir))
        total = store(collectives.replicated_all_reduce(rank))
        ranks = store(collectives.replicated_all_gather(rank, output_shape="new_axis"), "ranks")
    with popxl.Session(ir) as session:
        got = session.run()
    assert (got[total] == replicas * (replicas - 1) // 2).all()
    assert (got[ranks] == np.arange(replicas)).all()


def test_prints_come_in_the_order_of_the_replicas(capfd):
    ir = popxl.Ir(5)
    with ir.main_graph:
        rank = popxl.variable(np.arange(5, dtype=np.int32), replica_grouping=each(ir))
        ops.print_tensor(rank, "rank")
    with popxl.Session(ir) as session:
        session.run()
    assert capfd.readouterr().err.split() == [word for r in range(5) for word in ("rank:", str(r))]


def test_the_error_of_the_first_replica_is_raised():
    ir = popxl.Ir(6)
    with ir.main_graph:
        buffer = popxl.remote_buffer((2,), popxl.float32, 2)
        entry = popxl.variable(np.array([0, 1, 7, 0, 5, 9], np.int32), replica_grouping=each(ir))
        store(ops.remote_load(buffer, entry))
    with popxl.Session(ir) as session:
        for _ in range(5):
            with pytest.raises(ValueError, match="asks for entry 7 of remote buffer 1, which has 2 entries"):
                session.run()
            session.weights_from_host()


@both_engines
def test_gradients_of_gathers_and_slices(reference):
    """A gathered tensor's gradient is each replica's part of it, a slice's gradient is gathered."""
    ir = popxl.Ir(2)
    rng = np.random.default_rng(4)
    x, dy = rng.normal(size=(2, 2, 3)).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    with ir.main_graph:
        v = popxl.variable(x, replica_grouping=each(ir))
        graph = ir.create_graph(lambda t: collectives.replicated_all_gather(t), v)
        info = transforms.autodiff(graph)
        (part,) = ops.call(info.graph, popxl.variable(dy))
        graph = ir.create_graph(lambda t: collectives.replicated_slice(t, 1), popxl.TensorSpec((3, 4), popxl.float32))
        info = transforms.autodiff(graph)
        (whole,) = ops.call(info.graph, popxl.variable(x.transpose(0, 2, 1), replica_grouping=each(ir)))
        outs = store(part), store(whole)
    with popxl.Session(ir, reference=reference) as session:
        got = session.run()
    np.testing.assert_array_equal(got[outs[0]], dy.reshape(2, 2, 3))
    np.testing.assert_array_equal(got[outs[1]], [np.concatenate(list(x.transpose(0, 2, 1)), 1)] * 2)


def test_gradients_across_devices():
    x = [np.float32([1, 2]), np.float32([3, 4])]
    dy = [np.float32([0.5, 1]), np.float32([0.25, 2])]
    want = {
        collectives.all_reduce: [dy[0] + dy[1]] * 2,
        collectives.all_reduce_identical_inputs: [dy[0] + dy[1]] * 2,
        collectives.all_reduce_identical_grad_inputs: dy,
    }
    for function, grads in want.items():
        ir = popxl.Ir()
        with ir.main_graph:
            variables = [popxl.variable(v) for v in x]
            graph = ir.create_graph(lambda a, b, f=function: f([a, b], [0, 1]), *variables)
            info = transforms.autodiff(graph)
            outs = [store(t) for t in ops.call(info.graph, *(popxl.variable(d) for d in dy))]
        with popxl.Session(ir) as session:
            got = session.run()
        for stream, value in zip(outs, grads):
            np.testing.assert_array_equal(got[stream], value)


def test_reductions_without_a_gradient():
    ir = popxl.Ir(2)
    with ir.main_graph:
        graph = ir.create_graph(lambda t: collectives.replicated_all_reduce(t, "max"), popxl.variable(1.0))
        with pytest.raises(popart_exception, match="gradient for the reductions add and mean, not for max"):
            transforms.autodiff(graph)


def test_a_grouping_of_another_number_of_replicas():
    ir = popxl.Ir(4)
    group = ir.replica_grouping(stride=2)
    ir.replication_factor = 2
    with ir.main_graph, pytest.raises(ValueError, match="is of 4 replicas; there are 2"):
        collectives.replicated_all_reduce(popxl.variable(1.0), group=group)


@both_engines
def test_values_of_all_replicas_are_read_back_and_kept(reference):
    """Replicas of one group that change their copies apart."""
    ir = popxl.Ir(4)
    pairs = ir.replica_grouping(group_size=2)
    data = np.float32([[1, 2], [3, 4]])
    change = np.arange(8, dtype=np.float32).reshape(4, 2)
    with ir.main_graph, popxl.in_sequence():
        delta = popxl.variable(change, replica_grouping=each(ir))
        every = popxl.variable(data, replica_grouping=pairs, retrieval_mode="all_replicas")
        first = popxl.variable(data, replica_grouping=pairs)
        for v in (every, first):
            ops.var_updates.accumulate_(v, delta)
    session = popxl.Session(ir, reference=reference)
    whole = data[pairs.assignment]
    np.testing.assert_array_equal(session.get_tensor_data(every), whole)
    with session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(every), whole + change)
        np.testing.assert_array_equal(session.get_tensor_data(first), data + change[[0, 2]])
    with session:  # each replica goes on with its own value
        session.run()
    np.testing.assert_array_equal(session.get_tensor_data(every), whole + 2 * change)
    with pytest.raises(NotImplementedError):
        session.write_variable_data(every, data)


@both_engines
@pytest.mark.parametrize("mode", ["one_per_group", "all_replicas"])
@pytest.mark.parametrize("shard_over", [None, 2, 1])
@pytest.mark.parametrize("stride", [1, 2])
def test_sharded_variables(mode, shard_over, stride, reference):
    """Shards of 5 elements, updated by shards of gradients and gathered; padding never shows."""
    ir = popxl.Ir(8)
    group = ir.replica_grouping(stride, 4)
    over = shard_over or 4
    domain = [group.assignment[r] * 4 + group.places[r] // over for r in range(8)]
    names = {d: i for i, d in enumerate(dict.fromkeys(domain))}
    shards = ir.replica_grouping_from_assignments([names[d] for d in domain])
    data = np.arange(10, dtype=np.float32).reshape(2, 5)
    with ir.main_graph, popxl.in_sequence():
        whole, shard = popxl.replica_sharded_variable(
            data, replica_grouping=group, shard_over=shard_over, retrieval_mode=mode
        )
        full = collectives.replicated_all_gather(shard, group=shards)
        out = store(full)
        part = collectives.replicated_reduce_scatter(full, "mean", shards, True)
        ops.var_updates.accumulate_(shard, part, 0.5)
    assert shard.shape == (-(-5 // over),) and full.shape == (5,) and shard.meta_shape == (5,)
    with popxl.Session(ir, reference=reference) as session:
        np.testing.assert_array_equal(session.run()[out], data[group.assignment])
        np.testing.assert_array_equal(session.run()[out], 1.5 * data[group.assignment])
    want = 2.25 * data
    got = session.get_tensor_data(whole)
    np.testing.assert_array_equal(got, want if mode == "one_per_group" else want[group.assignment])
