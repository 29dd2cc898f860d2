"""Tensors, how they are made, and what operators and indices give."""

import numpy as np
import pytest

import popxl
from popxl import ops
from popxl.tensor import Constant, Variable


def run(build, *args):
    """Builds in a new Ir with variables of the arrays, runs, and returns the result."""
    ir = popxl.Ir()
    with ir.main_graph:
        out = build(*[popxl.variable(a) for a in args])
        stream = popxl.d2h_stream(out.shape, out.dtype)
        ops.host_store(stream, out)
    with popxl.Session(ir) as session:
        return session.run()[stream]


@pytest.fixture
def main():
    with popxl.Ir().main_graph as graph:
        yield graph


@pytest.mark.parametrize(
    "data, dtype, shape",
    [
        (1, popxl.int32, ()),
        (1.5, popxl.float32, ()),
        (True, popxl.bool, ()),
        ([1, 2.5], popxl.float32, (2,)),
        (((1, 2, 3),), popxl.int32, (1, 3)),
        (np.zeros((2, 1), np.float64), popxl.float32, (2, 1)),
        (np.zeros(2, np.uint64), popxl.uint32, (2,)),
        (np.zeros(2, np.float16), popxl.float16, (2,)),
        (np.zeros((0, 3), np.int8), popxl.int8, (0, 3)),
    ],
)
def test_dtype_and_shape_of_data(main, data, dtype, shape):
    for make, cls in ((popxl.variable, Variable), (popxl.constant, Constant)):
        t = make(data)
        assert type(t) is cls and t.dtype == dtype and t.shape == shape
        assert t.rank == len(shape) and t.nelms == int(np.prod(shape))
        assert type(popxl.Tensor._from_pb_tensor(t._pb_tensor)) is cls


def test_data_is_copied(main):
    data = np.arange(3, dtype=np.float32)
    t = popxl.constant(data)
    data[:] = 7
    np.testing.assert_array_equal(t._pb_tensor.data().view(np.float32), [0, 1, 2])


def test_identity_of_tensors(main):
    a, b = popxl.variable(1), popxl.variable(1)
    assert a != b and len({a, b}) == 2 and a == main.get_tensor(a.id)
    other = popxl.Ir().main_graph
    assert repr(a) == "Variable[t popxl.dtypes.int32 ()]"
    assert a in main and a not in other
    with pytest.raises(TypeError):
        1 in main
    with pytest.raises(KeyError):
        main.get_tensor("nothing")


def test_tensors_are_no_sequences(main):
    t = popxl.variable([1, 2])
    assert len(t) == 2
    for misuse in (lambda: iter(t), lambda: 1 in t):
        with pytest.raises(TypeError):
            misuse()
    with pytest.raises(ValueError):
        len(popxl.variable(1))
    with pytest.raises(ValueError, match="0 elements"):
        [] + t
    with pytest.raises(RuntimeError):
        popxl.Tensor()


def test_variables_live_in_the_main_graph(main):
    with popxl.gir().create_empty_graph():
        with pytest.raises(ValueError, match="graph_input"):
            popxl.variable(1)


def test_float8_constants_need_a_dtype(main):
    data = popxl.fp8_utils.host_pow2scale_cast_to_fp8(np.ones(2, np.float32), popxl.float8_143)
    with pytest.raises(TypeError):
        popxl.constant(data)
    assert popxl.constant(data, popxl.float8_143).dtype == popxl.float8_143
    assert popxl.variable(data).dtype == popxl.float8_143
    assert popxl.constant(2.0, popxl.float8_152, log2_scale=1).dtype == popxl.float8_152


A = np.array([[1.5, -2.0, 3.0], [0.25, 5.0, -6.0]], np.float32)
B = np.array([[2.0, 4.0, 0.5], [1.0, 2.0, 3.0]], np.float32)


@pytest.mark.parametrize(
    "build",
    [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: b**2.0,
        lambda a, b: a @ b.T,
        lambda a, b: -a,
        lambda a, b: a + 1,
        lambda a, b: 1 + a,
        lambda a, b: 1 - a,
        lambda a, b: 2 * a,
        lambda a, b: 2 / b,
        lambda a, b: 2.0**b,
        lambda a, b: np.ones((3, 2), np.float32) @ a,
        lambda a, b: np.ones((2, 3), np.float32) + a,
        lambda a, b: a.reshape((3, 2)),
        lambda a, b: a.flatten(),
        lambda a, b: a.transpose(),
        lambda a, b: a.transpose((1, 0)),
        lambda a, b: a[0],
        lambda a, b: a[-1],
        lambda a, b: a[1, 2],
        lambda a, b: a[:, 1:],
        lambda a, b: a[:, ::2],
        lambda a, b: a[:, ::-1],
        lambda a, b: a[::-1, ::-2],
        lambda a, b: a[[1, 0, 1]],
        lambda a, b: a[np.array([[0, 1]])],
    ],
)
def test_operators_are_numpys(build):
    np.testing.assert_allclose(run(build, A, B), build(A, B), rtol=1e-6)


def test_remainder_has_the_sign_of_the_dividend():
    np.testing.assert_allclose(run(lambda a, b: a % b, A, B), np.fmod(A, B), rtol=1e-6)
    np.testing.assert_allclose(run(lambda b: 7 % b, B), np.fmod(7, B), rtol=1e-6)


def test_logical_operators():
    x, y = np.array([True, False, True]), np.array([True, True, False])
    for build in (
        lambda a, b: a & b,
        lambda a, b: a | b,
        lambda a, b: ~a,
        lambda a, b: True & b,
        lambda a, b: False | b,
    ):
        np.testing.assert_array_equal(run(build, x, y), build(x, y))


def test_mask_keeps_the_shape():
    mask = np.array([[True], [False]])
    np.testing.assert_array_equal(run(lambda a: a[mask], A), np.where(mask, A, 0))


def test_diagonal():
    square = np.arange(16, dtype=np.float32).reshape(4, 4)
    np.testing.assert_array_equal(run(lambda a: a.diag(), square), np.diag(square))
    with popxl.Ir().main_graph:
        with pytest.raises(ValueError):
            popxl.variable(A[0]).diag()


def test_addition_in_place_returns_the_same_object(main):
    t = popxl.variable(A)
    before = t
    t += 1
    assert t is before and t._pb_tensor.isAliased()


@pytest.mark.parametrize("key", ["a", True, 1.5, (0, 1.5), None])
def test_bad_index(main, key):
    with pytest.raises(TypeError, match="can be indexed"):
        popxl.variable(A)[key]


def test_spec():
    spec = popxl.TensorSpec((2, 3), popxl.float16)
    assert dict(spec) == {"shape": (2, 3), "dtype": popxl.float16, "meta_shape": ()}
    assert len({spec, popxl.TensorSpec((2, 3), popxl.float16)}) == 1
    with popxl.Ir().main_graph:
        t = popxl.graph_input(**spec, name="x")
        assert t.spec == spec and t.strides() == (6, 2) and t.strides((4, 4)) == (8, 2)


def test_graph_output_of_another_graph(main):
    t = popxl.variable(1)
    with popxl.gir().create_empty_graph():
        with pytest.raises(ValueError, match="belongs to graph"):
            popxl.graph_output(t)


def test_streams(main):
    first, second = popxl.h2d_stream((2,), popxl.float32, "in"), popxl.h2d_stream((2,), popxl.float32, "in")
    assert first != second and first.tensor_id == "in" and second.tensor_id != "in"
    assert (first.shape, first.dtype) == ((2,), popxl.float32)
    assert popxl.gir().get_all_h2d_streams() == set()
    ops.host_load(second)
    assert popxl.gir().get_all_h2d_streams() == {second}


def test_remote_buffers(main):
    first, second = popxl.RemoteBuffer((2, 3), popxl.int8, 4), popxl.remote_buffer((1,), popxl.float16)
    assert (first.remote_buffer_id, second.remote_buffer_id) == (1, 2)
    first.validate_tensor_matches_buffer(popxl.variable(np.zeros((2, 3), np.int8)))
    with pytest.raises(ValueError, match=r"^Tensor t.* does not match buffer\."):
        first.validate_tensor_matches_buffer(popxl.variable(np.zeros((2, 3), np.int16)))
    with pytest.raises(AttributeError, match="^can't set attribute 'tensor_shape'$"):
        first.tensor_shape = (1,)
    for bad in (lambda: popxl.RemoteBuffer((1,), popxl.int8, 0), lambda: setattr(first, "entries", 0)):
        with pytest.raises(ValueError, match="^Entries must be a non-zero, positive integer"):
            bad()
    assert (first.entries, first.tensor_shape, first.tensor_dtype) == (4, (2, 3), popxl.int8)


def test_location_of_remote_variables(main):
    buffer = popxl.remote_buffer((2,), popxl.float32, 3)
    remote = popxl.remote_variable(np.ones(2, np.float32), buffer, 1)
    assert remote.location_info.storage == popxl.TensorStorage.OffChip
    assert popxl.variable(1).location_info.storage == popxl.TensorStorage.OnChip


def test_squeeze_takes_one_axis_or_several():
    with popxl.Ir().main_graph:
        t = popxl.variable(np.ones((1, 2, 1), np.float32))
        assert ops.squeeze(t, -1).shape == (1, 2) and ops.squeeze(t, [0, 2]).shape == ops.squeeze(t).shape == (2,)
