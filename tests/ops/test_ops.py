"""Every op against its row: types, values, gradients, in-place use, text, threads, messages."""

import os
import pathlib
import re
import subprocess
import sys
import zlib

import numpy as np
import pytest

import popxl
from ops import harness
from ops.case import converted, limits
from ops.cases import CASES
from popxl import _core

ROOT = pathlib.Path(__file__).resolve().parents[2]


def by_name(case):
    return case.name


def samples(case, builders=None):
    """Inputs of a row: the same in every run."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    return [np.asarray(builder(rng)) for builder in (case.inputs if builders is None else builders)]


def expected(case, arrays, dtype):
    """Values of the reference, each with the dtype that the op has to give."""
    wide = [
        a.astype("float64") if np.issubdtype(a.dtype, np.number) and w.dtype == np.float64 else a
        for a, w in zip(arrays, samples(case))
    ]
    with np.errstate(all="ignore"):
        results = harness.as_list(case.reference(*wide))
    out = []
    for value in map(np.asarray, results):
        own = value.dtype if value.dtype != np.float64 else np.dtype(case.result_dtype or dtype)
        out.append((value, own))
    return out


def compare(case, got, wanted, dtype):
    assert len(got) >= len(wanted)
    for have, (value, own) in zip(got, wanted):
        assert have.dtype == own and have.shape == value.shape
        if np.issubdtype(own, np.floating):
            narrow = min(
                (dtype, own.name), key=lambda d: np.dtype(d).itemsize if d.startswith("float") else 8
            )
            rtol, atol = (case.tolerance * limit for limit in limits(narrow))
            np.testing.assert_allclose(
                have.astype("float64"), value.astype(own).astype("float64"), rtol, atol
            )
        else:
            np.testing.assert_array_equal(have, np.asarray(value).astype(own))


def test_every_op_has_a_row_and_a_place_in_the_reference():
    page = (ROOT / "docs" / "ops.md").read_text()
    public = re.findall(r"^### (\w+)$", page[: page.index("## Ops made by other ops")], re.M)
    assert set(public) <= {case.op for case in CASES}, "a public op without a row in tests/ops"
    assert {case.op for case in CASES} <= set(public)
    assert set(re.findall(r"^### (\w+)$", page, re.M)) == set(_core.op_names()), "docs/ops.md is out of date"


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_types_and_values(case):
    for dtype in case.dtypes:
        arrays = converted(samples(case), dtype)
        ir, outputs, streams = harness.build(case, arrays)
        got = harness.run(ir, streams)
        for tensor, array in zip(outputs, got):
            assert tensor.shape == array.shape and tensor.dtype.as_numpy() == array.dtype
        if case.check is not None:
            case.check(arrays, got)
            np.testing.assert_array_equal(got[0], harness.evaluate(case, arrays)[0])
        else:
            compare(case, got, expected(case, arrays, dtype), dtype)


@pytest.mark.parametrize("case", [c for c in CASES if c.strided and c.reference], ids=by_name)
def test_operands_in_another_layout(case):
    dtype = case.dtypes[0]
    arrays = converted(samples(case), dtype)
    compare(case, harness.evaluate(case, arrays, transposed=True), expected(case, arrays, dtype), dtype)


@pytest.mark.parametrize("case", [c for c in CASES if c.inplace], ids=by_name)
def test_in_place_is_out_of_place(case):
    for dtype in case.dtypes:
        arrays = converted(samples(case), dtype)
        plain = harness.evaluate(case, arrays)
        got, after = harness.evaluate_inplace(case, arrays)
        for have, want in zip(got, plain, strict=True):
            np.testing.assert_array_equal(have, want)
        np.testing.assert_array_equal(after, plain[0] if case.modifies else arrays[0])


@pytest.mark.parametrize("case", [c for c in CASES if c.updates], ids=by_name)
def test_updated_variable(case):
    arrays = converted(samples(case), case.dtypes[0])
    ir = popxl.Ir()
    with ir.main_graph:
        inputs = harness.make_inputs(case, arrays)
        case.call(*inputs)
    with popxl.Session(ir, "cpu") as session:
        session.run()
        got = session.get_tensor_data(inputs[0])
    compare(case, [got], expected(case, arrays, case.dtypes[0])[:1], case.dtypes[0])


@pytest.mark.parametrize("case", [c for c in CASES if c.grad], ids=by_name)
def test_gradient(case):
    arrays = samples(case)
    rng = np.random.default_rng(5)
    wide = np.asarray(harness.as_list(case.reference(*arrays))[0])
    cotangent = rng.uniform(-1, 1, wide.shape)
    got = harness.gradients(case, arrays, cotangent)
    for have, want in zip(got, harness.central_differences(case, arrays, cotangent), strict=True):
        np.testing.assert_allclose(have, want, 1e-6, 1e-7)


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_text(case):
    ir, _, _ = harness.build(case, converted(samples(case), case.dtypes[0]))
    text = ir._pb_ir.text()
    assert _core.Ir.parse(text).text() == text


@pytest.mark.parametrize("case", [c for c in CASES if c.inputs], ids=by_name)
def test_operands_of_another_program(case):
    arrays = converted(samples(case), case.dtypes[0])
    with popxl.Ir().main_graph:
        foreign = harness.make_inputs(case, arrays)
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="not in (the current )?graph"):
        case.call(*foreign)


@pytest.mark.parametrize(
    "bad", [pytest.param(bad, id=f"{case.name}-{i}") for case in CASES for i, bad in enumerate(case.bad)]
)
def test_message(bad):
    with popxl.Ir().main_graph, pytest.raises(bad.error, match=re.compile(bad.text, re.S)):
        bad.call()


def test_threads_do_not_change_bits(tmp_path):
    files = []
    for threads in (1, 2):
        files.append(tmp_path / f"{threads}.npz")
        environment = {
            **os.environ,
            "POPXL_NUM_THREADS": str(threads),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        subprocess.run([sys.executable, harness.__file__, files[-1]], check=True, env=environment)
    one, two = (np.load(file) for file in files)
    assert one.files == two.files and len(one.files) >= sum(case.big is not None for case in CASES)
    for name in one.files:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)
