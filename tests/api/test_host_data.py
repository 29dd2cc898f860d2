"""Data on the host: dtypes, conversions, float8, seeds, replica groups."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

import popxl
from popxl.dtypes import np_dtype_float8_143
from popxl.fp8_utils import host_fp8_mse_scale, host_pow2scale_cast_from_fp8, host_pow2scale_cast_to_fp8
from popxl.random_seed import create_seeds, two_uint32_to_uint64, uint64_to_two_uint32
from popxl.testing import get_all_dtypes
from popxl.utils import table_to_string, to_numpy

FORMATS = [(popxl.float8_143, 4, 3, 8), (popxl.float8_152, 5, 2, 16)]


def test_dtypes():
    with pytest.raises(TypeError):
        popxl.dtype()
    assert popxl.half == popxl.float16 and popxl.float == popxl.float32 and popxl.double == popxl.float64
    for dtype in get_all_dtypes():
        assert popxl.dtype.as_dtype(dtype.name) is popxl.dtype.from_name(dtype.name) is dtype
        assert popxl.dtype.as_dtype(dtype.as_numpy()) is dtype
        assert repr(dtype) == f"popxl.dtypes.{dtype.name}"
    assert popxl.dtype.as_dtype(int) is popxl.int64 and popxl.dtype.as_dtype(float) is popxl.float32
    for bad in (str, "float7", object(), np.dtype("datetime64[s]")):
        with pytest.raises(ValueError):
            popxl.dtype.as_dtype(bad)


def test_the_library_does_not_load_pytorch():
    program = "import sys, popxl; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_to_numpy():
    assert to_numpy([1, 2]).dtype == np.int32 and to_numpy([1, 2.0]).dtype == np.float32
    assert to_numpy(np.zeros(2), downcast=False).dtype == np.float64
    assert to_numpy(np.zeros(2, np.float32), popxl.float64).dtype == np.float64
    data = np.zeros((2, 3), np.float32)
    assert np.shares_memory(to_numpy(data, copy=False), data) and not np.shares_memory(to_numpy(data), data)
    assert to_numpy(data.T, copy=False).flags.c_contiguous
    with pytest.raises(RuntimeError):
        to_numpy(1.0, log2_scale=1)
    with pytest.raises(TypeError):
        to_numpy([1, 2], popxl.float8_143)


def test_table():
    assert table_to_string([["a", "name"], [10, "b"]]) == "a  | name\n----------\n10 | b   \n"


def decoded(bits: int, exponent_bits: int, mantissa_bits: int, bias: int) -> float:
    """The value of a float8, from the definition of the format."""
    if bits == 0x80:
        return float("nan")
    sign = -1.0 if bits & 0x80 else 1.0
    exponent, mantissa = (bits & 0x7F) >> mantissa_bits, bits & ((1 << mantissa_bits) - 1)
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / 2**mantissa_bits) * 2.0 ** (exponent - bias)


@pytest.mark.parametrize("dtype, exponent_bits, mantissa_bits, bias", FORMATS)
def test_every_float8(dtype, exponent_bits, mantissa_bits, bias):
    bits = np.arange(256, dtype=np.uint8)
    expected = np.array([decoded(int(b), exponent_bits, mantissa_bits, bias) for b in bits])
    values = host_pow2scale_cast_from_fp8(bits.view(dtype.as_numpy()), popxl.float64)
    np.testing.assert_array_equal(values, expected)
    again = host_pow2scale_cast_to_fp8(values, dtype).view(np.uint8)
    np.testing.assert_array_equal(again, bits)
    scaled = host_pow2scale_cast_from_fp8(bits.view(dtype.as_numpy()), popxl.float32, log2_scale=3)
    np.testing.assert_array_equal(scaled, (expected * 8).astype(np.float32))


@pytest.mark.parametrize("dtype, exponent_bits, mantissa_bits, bias", FORMATS)
@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("log2_scale", [-2, 0, 5])
def test_float8_is_the_nearest(dtype, exponent_bits, mantissa_bits, bias, source, log2_scale):
    seed = 1234
    generator = np.random.default_rng(seed)
    data = (generator.standard_normal(500) * 2.0 ** generator.uniform(-14, 6, 500)).astype(source)
    grid = np.array([decoded(b, exponent_bits, mantissa_bits, bias) for b in range(128)])
    exact = data.astype(np.float64) * 2.0**log2_scale
    got = host_pow2scale_cast_to_fp8(data, dtype, log2_scale, nan_on_overflow=False).view(np.uint8)
    for value, bits in zip(exact, got):
        distance = np.abs(grid - min(abs(value), grid[-1]))
        nearest = np.flatnonzero(distance == distance.min())
        wanted = nearest[0] if len(nearest) == 1 else nearest[nearest % 2 == 0][0]  # ties to even
        assert bits & 0x7F == wanted, (seed, value, bits)
        assert bits == wanted or value < 0


def test_float8_overflow():
    too_large = np.array([1e6, -1e6, np.inf, np.nan])
    for dtype, *_ in FORMATS:
        np.testing.assert_array_equal(host_pow2scale_cast_to_fp8(too_large, dtype).view(np.uint8), [0x80] * 4)
        kept = host_pow2scale_cast_to_fp8(too_large, dtype, nan_on_overflow=False).view(np.uint8)
        np.testing.assert_array_equal(kept, [0x7F, 0xFF, 0x80, 0x80])
    assert host_pow2scale_cast_to_fp8(np.array(-0.0), popxl.float8_143).view(np.uint8) == 0
    assert host_pow2scale_cast_to_fp8(1.0, popxl.float8_143).shape == ()


def test_double_rounding_does_not_happen():
    # A little above halfway between 1 and 1.125: rounded to float32 first it would be halfway, and then go
    # down.
    value = np.array([1.0625 + 2.0**-40])
    assert host_pow2scale_cast_to_fp8(value, popxl.float8_143).view(np.uint8) == 0x41
    assert host_pow2scale_cast_to_fp8(np.array([1.0625]), popxl.float8_143).view(np.uint8) == 0x40


@pytest.mark.parametrize("source", [np.float16, np.float32])
def test_float8_scale(source):
    for (dtype, *_), ends in zip(FORMATS, ([0.00098, 240], [2.0**-17, 57344])):
        assert host_fp8_mse_scale(np.array(ends, source), dtype)[1] == 0
    assert host_fp8_mse_scale(np.full(9, 40.0, source), popxl.float8_143)[1] < 0
    assert host_fp8_mse_scale(np.full(9, 0.02, source), popxl.float8_143)[1] > 0
    for bad in (
        lambda: host_fp8_mse_scale(np.zeros(2), popxl.float8_143),
        lambda: host_fp8_mse_scale(np.ones(2, source)),
    ):
        with pytest.raises(RuntimeError):
            bad()


def test_float8_needs_float8():
    with pytest.raises(RuntimeError):
        host_pow2scale_cast_to_fp8(np.ones(2, np.float32), popxl.float32)
    with pytest.raises(RuntimeError):
        host_pow2scale_cast_to_fp8(np.ones(2, np.int32), popxl.float8_143)
    with pytest.raises(RuntimeError):
        host_pow2scale_cast_from_fp8(np.ones(2, np.uint8), popxl.float32)
    with pytest.raises(RuntimeError):
        host_pow2scale_cast_from_fp8(np.zeros(2, np_dtype_float8_143), popxl.int32)


def test_seeds():
    assert create_seeds(7).shape == (2,) and create_seeds(7).dtype == np.uint32
    many = create_seeds(7, batches_per_step=3, gradient_accumulation_factor=2, replicas=4)
    assert many.shape == (3, 2, 4, 2) and len(np.unique(many.reshape(-1, 2), axis=0)) == 24
    np.testing.assert_array_equal(create_seeds(7, offset=1), create_seeds(8))
    for number in (0, 5, 2**40 + 3, 2**64 - 1):
        assert two_uint32_to_uint64(*uint64_to_two_uint32(number)) == number
    for bad in (
        lambda: uint64_to_two_uint32(-1),
        lambda: uint64_to_two_uint32(2**64),
        lambda: two_uint32_to_uint64(2**32, 0),
    ):
        with pytest.raises(ValueError):
            bad()


def members(assignment):
    return [[r for r, g in enumerate(assignment) if g == group] for group in range(max(assignment) + 1)]


@pytest.mark.parametrize("replicas", [1, 2, 8, 12])
def test_constant_groupings(replicas):
    ir = popxl.Ir(replicas)
    divisors = [n for n in range(1, replicas + 1) if replicas % n == 0]
    for stride, size in itertools.product(divisors, divisors):
        if replicas % (stride * size) != 0:
            continue
        grouping = ir.replica_grouping(stride, size)
        groups = members(grouping.assignment)
        assert [len(g) for g in groups] == [size] * grouping.num_groups
        assert all(b - a == grouping.stride for g in groups for a, b in zip(g, g[1:]))
        assert [g[0] for g in groups] == sorted(g[0] for g in groups)
        assert grouping.const_rg is grouping and grouping.to_device_map is None
        assert ir.replica_grouping_from_assignments(grouping.assignment) == grouping
        turned = members(grouping.transpose().assignment)
        assert turned == [list(column) for column in zip(*groups)]


def test_other_groupings():
    ir = popxl.Ir(8)
    grouping = ir.replica_grouping_from_assignments([0, 0, 1, 1, 0, 0, 1, 1])
    assert not grouping.is_const and grouping.const_rg.assignment == [0, 0, 1, 1, 2, 2, 3, 3]
    assert (grouping.to_device_map, grouping.to_host_map) == ([0, 1, 0, 1], [0, 1])
    for needs_a_stride in (
        lambda: grouping.stride,
        grouping._to_variable_settings,
        lambda: grouping._pb_replica_grouping,
    ):
        with pytest.raises(NotImplementedError):
            needs_a_stride()
    for bad in ([0], [1] * 8, [0] * 7 + [1], [0, 0, 2, 2, 0, 0, 2, 2]):
        with pytest.raises(ValueError):
            ir.replica_grouping_from_assignments(bad)
    for stride, size in ((3, 2), (0, 1), (1, 3), (4, 4)):
        with pytest.raises(ValueError):
            ir.replica_grouping(stride, size)
    with pytest.raises(RuntimeError):
        popxl.ReplicaGrouping()
    with pytest.raises(TypeError):
        grouping == 1


def test_shapes_of_grouped_variables():
    ir = popxl.Ir(8)
    with ir.main_graph:
        whole = popxl.variable(np.zeros((1, 3)))
        halves = popxl.variable(
            np.zeros((2, 3)), replica_grouping=ir.replica_grouping(2, 4), retrieval_mode="all_replicas"
        )
        assert (whole.shape, whole.shape_on_host) == ((1, 3), (1, 3))
        assert (halves.shape, halves.shape_on_host, halves.retrieval_mode) == ((3,), (2, 3), "all_replicas")
        with pytest.raises(ValueError, match="2 replica groups"):
            popxl.variable(np.zeros((3, 3)), replica_grouping=ir.replica_grouping(2, 4))
        with pytest.raises(ValueError):
            popxl.variable(1, retrieval_mode="some")
        buffer = popxl.replica_sharded_buffer((2, 5), popxl.float32, ir.replica_grouping(2, 4), shard_over=2)
        assert (buffer.tensor_shape, buffer.meta_shape) == ((3,), (5,))
        for shards in (3, 8):
            with pytest.raises(ValueError):
                popxl.replica_sharded_buffer(
                    (5,), popxl.float32, ir.replica_grouping(2, 4), shard_over=shards
                )
