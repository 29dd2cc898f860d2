"""Sessions: contexts, streams, data of variables, memory-mapped variables, failures."""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.utils import _to_device_info


class Counter:
    """A program that adds its input to a variable and stores the sum."""

    def __init__(self, transfers: int = 1, dtype: popxl.dtype = popxl.float32, shape=(2,), data=None):
        self.ir = popxl.Ir()
        self.ir.num_host_transfers = transfers
        with self.ir.main_graph, popxl.in_sequence():
            self.total = popxl.variable(
                np.zeros(shape, dtype.as_numpy()) if data is None else data, name="total"
            )
            self.source = popxl.h2d_stream(shape, dtype, "source")
            self.sink = popxl.d2h_stream(shape, dtype, "sink")

            def body(total: popxl.TensorByRef):
                total += ops.host_load(self.source)
                ops.host_store(self.sink, total)

            graph = self.ir.create_graph(body, self.total)
            ops.repeat(graph, transfers, self.total)

    def session(self, **options) -> popxl.Session:
        return popxl.Session(self.ir, **options)


def test_runs_add_up():
    counter = Counter()
    session = counter.session()
    assert (
        not session.is_attached and session.ir is counter.ir and session.expected_inputs() == [counter.source]
    )
    with session:
        first = session.run({counter.source: np.array([1, 2], np.float32)})[counter.sink]
        with session:
            second = session.run({counter.source: [10.0, 20.0]})[counter.sink]
        assert session.is_attached
    np.testing.assert_array_equal(first, [1, 2])
    np.testing.assert_array_equal(second, [11, 22])
    np.testing.assert_array_equal(session.get_tensor_data(counter.total), [11, 22])
    with session:
        np.testing.assert_array_equal(session.run({counter.source: [1, 1]})[counter.sink], [12, 23])


def test_needs_a_context():
    session = Counter().session()
    for call in (session.run, session.run_with_outputs, session.weights_to_host, session.weights_from_host):
        with pytest.raises(ValueError, match="with session:"):
            call()


def test_each_transfer_takes_the_next_entry():
    counter = Counter(transfers=3)
    data = np.arange(8, dtype=np.float32).reshape(4, 2)
    out = np.full((5, 2), -1, np.float32)
    with counter.session() as session:
        session.run_with_outputs({counter.source: data}, {counter.sink: out})
    np.testing.assert_array_equal(out[:3], np.cumsum(data[:3], axis=0))
    np.testing.assert_array_equal(out[3:], -1)


def test_outputs_may_be_any_writable_array():
    counter = Counter(transfers=2)
    buffer = np.zeros((2, 4), np.float32)
    with counter.session() as session:
        session.run_with_outputs(
            {counter.source: np.ones((2, 2), np.float32)}, {counter.sink: buffer[:, ::2]}
        )
    np.testing.assert_array_equal(buffer, [[1, 0, 1, 0], [2, 0, 2, 0]])


@pytest.mark.parametrize(
    "given, error",
    [
        (np.zeros(3, np.float32), ValueError),
        (np.zeros((1, 2), np.float32), ValueError),
        (np.zeros(2, np.complex64), TypeError),
        (None, ValueError),
    ],
)
def test_bad_inputs_change_nothing(given, error):
    counter = Counter()
    out = np.full(2, 5, np.float32)
    with counter.session() as session:
        with pytest.raises(error, match="source"):
            session.run_with_outputs({} if given is None else {counter.source: given}, {counter.sink: out})
        np.testing.assert_array_equal(out, 5)
        assert not counter.session()._host_is_behind
        np.testing.assert_array_equal(session.get_tensor_data(counter.total), 0)


def test_bad_outputs():
    counter = Counter()
    data = {counter.source: np.zeros(2, np.float32)}
    read_only = np.zeros(2, np.float32)
    read_only.flags.writeable = False
    with counter.session() as session:
        for out, error in (
            (np.zeros(2, np.float64), TypeError),
            ([0.0, 0.0], (TypeError, AttributeError)),
            (read_only, ValueError),
            (np.zeros(3, np.float32), ValueError),
        ):
            with pytest.raises(error):
                session.run_with_outputs(data, {counter.sink: out})
        with pytest.raises(ValueError, match="Unexpected"):
            session.run({**data, counter.sink: np.zeros(2, np.float32)})


def test_inputs_that_are_no_dictionary():
    counter = Counter()
    with counter.session() as session:
        for inputs in ([np.ones(2)], np.ones(2), counter.source):
            with pytest.raises(TypeError, match="`inputs` must be a dictionary of arrays by stream"):
                session.run(inputs)
        with pytest.raises(ValueError, match="'source'.*The keys are streams"):
            session.run({"source": np.ones(2)})


def test_variables_of_another_program():
    counter, other = Counter(), Counter()
    with counter.session() as session:
        with pytest.raises(ValueError, match="^Tensor total belongs to another Ir"):
            session.get_tensor_data(other.total)
        with pytest.raises(ValueError, match="^Tensor total belongs to another Ir"):
            session.write_variable_data(other.total, np.ones(2, np.float32))
    assert not other.session().get_tensor_data(other.total).any()


def test_session_of_no_program():
    with pytest.raises(TypeError, match="A session is made of a popxl.Ir"):
        popxl.Session(Counter().ir.main_graph)


def test_input_of_the_main_graph():
    ir = popxl.Ir()
    with ir.main_graph:
        popxl.graph_input((2,), popxl.float32, "x")
    for reference in (False, True):
        with pytest.raises(popart.popart_exception, match=r"an input, `x` made at .*test_session.py:\d+.*host_load"):
            popxl.Session(ir, reference=reference)


@pytest.mark.parametrize("given", [np.ones(2, np.float64), np.ones(2, np.int64), [1, 1], (1.0, 1.0)])
def test_inputs_are_converted(given):
    counter = Counter()
    with counter.session() as session:
        np.testing.assert_array_equal(session.run({counter.source: given})[counter.sink], [1, 1])


def test_fractions_do_not_become_integers():
    counter = Counter(dtype=popxl.int32)
    with counter.session() as session:
        with pytest.raises(TypeError):
            session.run({counter.source: np.array([1.5, 2.5])})
        np.testing.assert_array_equal(
            session.run({counter.source: np.array([1, 2], np.uint8)})[counter.sink], [1, 2]
        )


def test_without_streams():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(1.0)
        ops.add_(v, popxl.constant(1.0))
    with popxl.Session(ir) as session:
        assert session.run() == session.run({}) == {}
        session.run_with_outputs({}, {})
    assert session.get_tensor_data(v) == 4.0


def test_values_can_be_written():
    counter = Counter()
    session = counter.session()
    session.write_variable_data(counter.total, np.array([5, 6], np.float32))
    with session:
        session.run({counter.source: [1, 1]})
        np.testing.assert_array_equal(session.get_tensor_data(counter.total), [6, 7])
        session.write_variables_data({counter.total: np.array([1, 2], np.float32)})
        np.testing.assert_array_equal(session.run({counter.source: [1, 1]})[counter.sink], [2, 3])
    np.testing.assert_array_equal(session.get_tensor_data(counter.total), [2, 3])


def test_writing_one_variable_keeps_the_others():
    ir = popxl.Ir()
    with ir.main_graph:
        a, b = popxl.variable(1.0), popxl.variable(1.0)
        ops.add_(a, popxl.constant(1.0))
    with popxl.Session(ir) as session:
        session.run()
        session.write_variable_data(b, 9.0)
        session.run()
        assert session.get_tensor_data(a) == 3.0 and session.get_tensor_data(b) == 9.0


@pytest.mark.parametrize(
    "data, error",
    [
        (np.zeros(2), TypeError),
        (np.zeros(3, np.float32), ValueError),
        (np.zeros((1, 2), np.float32), ValueError),
    ],
)
def test_bad_values_change_nothing(data, error):
    counter = Counter()
    session = counter.session()
    good = np.ones(2, np.float32)
    with pytest.raises(error, match="total"):
        session.write_variables_data({counter.total: good, counter.ir.main_graph.get_tensor("total"): data})
    np.testing.assert_array_equal(session.get_tensor_data(counter.total), 0)


def test_only_variables_and_constants_have_data():
    ir = popxl.Ir()
    with ir.main_graph:
        c = popxl.constant([1, 2])
        v = popxl.variable(1)
        activation = v + 1
    session = popxl.Session(ir)
    np.testing.assert_array_equal(session.get_tensors_data([c, v])[c], [1, 2])
    with pytest.raises(TypeError, match="is not of type Constant or Variable"):
        session.get_tensor_data(activation)
    with pytest.raises(TypeError, match="^Tensor .* is not of type"):
        session.write_variable_data(c, np.array([1, 2], np.int32))


def test_weights_stay_on_the_device_on_request():
    counter = Counter()
    session = counter.session(weights_to_host_on_exit=False)
    with session:
        session.run({counter.source: [1, 1]})
    np.testing.assert_array_equal(session.get_tensor_data(counter.total), 0)


def test_an_exception_ends_the_context():
    counter = Counter()
    session = counter.session()
    with pytest.raises(KeyError):
        with session:
            session.run({counter.source: [1, 1]})
            raise KeyError
    assert not session.is_attached
    np.testing.assert_array_equal(session.get_tensor_data(counter.total), 0)


def test_weights_are_transferred_when_needed(capfd):
    popart.getLogger().setLevel("DEBUG")
    try:
        counter = Counter()
        with counter.session() as session:
            session.get_tensor_data(counter.total)
            session.run({counter.source: [1, 1]})
            session.get_tensor_data(counter.total)
            session.get_tensor_data(counter.total)
    finally:
        popart.getLogger().setLevel("WARN")
    log = capfd.readouterr().err
    assert log.count("Writing weights to host complete.") == 2
    assert log.count("Writing weights from host, ") == 1


def test_a_device_that_is_attached():
    counter = Counter()
    device = popart.DeviceManager().createCpuDevice()
    device.attach()
    session = popxl.Session(counter.ir, device)
    assert session.is_attached
    np.testing.assert_array_equal(session.run({counter.source: [1, 2]})[counter.sink], [1, 2])
    with session:
        pass
    assert session.is_attached


def test_devices_of_another_kind():
    session = popxl.Session(Counter().ir, "ipu_model")
    session._set_device(_to_device_info("ipu_hw"))
    with pytest.raises(popart.popart_runtime_error, match="ipu_model"):
        session.__enter__()
    assert not session.is_attached
    with pytest.raises(ValueError, match="ipu_hw"):
        popxl.Session(Counter().ir, "gpu")


def test_ambiguity_is_found():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable([1.0, 2.0], name="x")
        ops.print_tensor(ops.relu_(x) + ops.gelu_(x))
    with pytest.raises(popart.popart_exception, match="^Inplacing ambiguity detected."):
        popxl.Session(ir)
    ir._pb_ir.getSessionOptions().enableInplaceAmbiguityChecking = False
    popxl.Session(ir)


def test_a_second_session_of_an_ir_that_grew():
    counter = Counter()
    counter.session()
    with counter.ir.main_graph:
        extra = popxl.d2h_stream((2,), popxl.float32, "extra")
        ops.host_store(extra, popxl.constant([1.0, 2.0]))
    with counter.session() as session:
        outputs = session.run({counter.source: [1, 1]})
    np.testing.assert_array_equal(outputs[extra], [1, 2])
    assert session.ir_.id != counter.ir.id
    with pytest.raises(RuntimeError):
        counter.ir.replication_factor = 2


def test_memory_is_known_before_running():
    session = Counter(shape=(1000,)).session()
    report = session.memory()
    assert report.variable_bytes >= 4000 and report.total >= report.variable_bytes + report.frame_bytes


def memmap(path, data):
    np.asarray(data).tofile(path)
    return np.memmap(path, dtype=np.asarray(data).dtype, mode="r+", shape=np.asarray(data).shape)


def test_memory_mapped_variables(tmp_path):
    mapped = memmap(tmp_path / "weights", np.array([3, 4], np.float32))
    counter = Counter(data=mapped)
    flushed = []
    mapped.flush = lambda: flushed.append(True)
    with counter.session() as session:
        session.run({counter.source: [1, 1]})
        assert session.get_tensor_data(counter.total) is mapped
    assert flushed
    np.testing.assert_array_equal(mapped, [4, 5])
    np.testing.assert_array_equal(np.fromfile(tmp_path / "weights", np.float32), [4, 5])


def test_read_only_memory_mapped_variables(tmp_path):
    np.array([3, 4], np.float32).tofile(tmp_path / "weights")
    mapped = np.memmap(tmp_path / "weights", dtype=np.float32, mode="r", shape=(2,))
    counter = Counter(data=mapped)
    with counter.session() as session:
        np.testing.assert_array_equal(session.run({counter.source: [1, 1]})[counter.sink], [4, 5])
        with pytest.raises(RuntimeError, match="read-only"):
            session.weights_to_host()
        with pytest.raises(ValueError, match="read-only"):
            session.write_variable_data(counter.total, np.zeros(2, np.float32))
    np.testing.assert_array_equal(mapped, [3, 4])


def test_bad_memory_mapped_variables(tmp_path):
    wide = memmap(tmp_path / "wide", np.zeros((2, 3)))
    narrow = memmap(tmp_path / "narrow", np.zeros((2, 3), np.float32))
    start = "^When passing a memory-mapped NumPy array, "
    with popxl.Ir().main_graph:
        with pytest.raises(ValueError, match=start + "the `dtype` parameter"):
            popxl.variable(narrow, popxl.float16)
        with pytest.raises(ValueError, match=start + "it must already be in C-ordered"):
            popxl.variable(narrow.T)
        with pytest.raises(
            ValueError, match=start + "the dtype None is not supported, as it requires downcasting"
        ):
            popxl.variable(wide)
        with pytest.raises(ValueError, match="the dtype popxl.dtypes.float64 is not supported"):
            popxl.variable(wide, popxl.float64)


def test_float8_goes_through_unchanged():
    dtype = popxl.float8_143
    data = np.arange(256, dtype=np.uint8).view(dtype.as_numpy())
    ir = popxl.Ir()
    with ir.main_graph:
        source, sink = popxl.h2d_stream((256,), dtype), popxl.d2h_stream((256,), dtype)
        ops.host_store(sink, ops.host_load(source))
        v = popxl.variable(data)
    with popxl.Session(ir) as session:
        out = session.run({source: data})[sink]
        assert out.dtype == data.dtype
        np.testing.assert_array_equal(out.view(np.uint8), data.view(np.uint8))
        np.testing.assert_array_equal(session.get_tensor_data(v).view(np.uint8), data.view(np.uint8))
        with pytest.raises(TypeError):
            session.run({source: np.zeros(256, np.float32)})


def test_lower_level_session():
    counter = Counter(transfers=3)
    flow = popart.DataFlow(
        batchesPerStep=3, anchorTensors={counter.sink.tensor_id: popart.AnchorReturnType("All")}
    )
    counter.ir._pb_ir.setDataFlow(flow)
    session = popart.InferenceSession.fromIr(
        ir=counter.ir._pb_ir, deviceInfo=popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.weightsFromHost()
    session.run(popart.PyStepIO({counter.source.tensor_id: np.ones((3, 2), np.float32)}, anchors))
    np.testing.assert_array_equal(anchors[counter.sink.tensor_id], [[1, 1], [2, 2], [3, 3]])


def test_reference_engine_runs_the_same_programs():
    counter = Counter(transfers=3)
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    results = []
    for reference in (False, True):
        with counter.session(reference=reference) as session:
            session.write_variable_data(counter.total, np.full(2, 0.5, np.float32))
            stored = session.run({counter.source: data})[counter.sink]
            results.append((stored, session.get_tensor_data(counter.total)))
            assert (session.memory().frame_bytes == 0) == reference
    for compiled, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(compiled, expected)
    np.testing.assert_array_equal(results[1][0], 0.5 + np.cumsum(data, axis=0))


@pytest.mark.parametrize("reference", [False, True], ids=["compiled", "reference"])
def test_a_constant_that_is_changed_in_place_is_the_same_in_every_run(reference):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        total = popxl.constant([1.0, 2.0])
        ops.add_(total, popxl.variable([3.0, 4.0]))
        out = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(out, total)
    with popxl.Session(ir, reference=reference) as session:
        for _ in range(3):
            np.testing.assert_array_equal(session.run()[out], [4, 6])


def test_the_reference_engine_has_no_profile():
    ir = popxl.Ir()
    with popxl.Session(ir, reference=True) as session:
        with pytest.raises(ValueError, match="reference engine has no instructions"), session.profile():
            pass


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("rows", [33, 128])  # the rest of the program alone, and with the product
def test_weights_that_no_run_changes_are_packed_anew_when_the_host_writes_them(replicas: int, rows: int):
    ir = popxl.Ir(replicas)
    rng = np.random.default_rng(5)
    x, first, second = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, 300), (300, 513), (300, 513)))
    bias = rng.normal(size=513).astype(np.float32)
    with ir.main_graph, popxl.in_sequence():
        source = popxl.h2d_stream(x.shape, popxl.float32, "x")
        sink = popxl.d2h_stream((rows, 513), popxl.float32, "y")
        w = popxl.variable(first, name="w")
        ops.host_store(sink, ops.relu(ops.host_load(source) @ w + popxl.variable(bias)))
    feed = {source: x if replicas == 1 else np.stack([x] * replicas)}
    with popxl.Session(ir) as session:
        assert session.memory().variable_bytes > 1.9 * first.nbytes  # and what is packed
        for weights in (first, second):
            session.write_variable_data(w, weights)
            expected = np.maximum(x.astype(np.float64) @ weights + bias, 0)
            for result in session.run(feed)[sink].reshape(replicas, rows, 513):
                np.testing.assert_allclose(result, expected, atol=1e-4)
            np.testing.assert_array_equal(session.get_tensor_data(w), weights)
