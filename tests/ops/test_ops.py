"""Every op against its row: types, values, gradients, in-place use, text, threads, messages."""

import os
import pathlib
import re
import subprocess
import sys
import zlib

import numpy as np
import pytest

import popart
import popxl
from ops import harness
from ops.case import converted, limits
from ops.cases import CASES
from popxl import _core

ROOT = pathlib.Path(__file__).resolve().parents[2]


#: Compiled programs and the reference engine are both compared with NumPy and PyTorch.
both_engines = pytest.mark.parametrize("reference", [False, True], ids=["compiled", "reference"])


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
    listed = re.findall(r"^(?:### |`)(\w+)`?$", page, re.M)
    assert set(listed) == set(_core.op_names()), "docs/ops.md is out of date"


@both_engines
@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_types_and_values(case, reference):
    for dtype in case.dtypes:
        arrays = converted(samples(case), dtype)
        ir, outputs, streams = harness.build(case, arrays)
        got = harness.run(ir, streams, reference)
        for tensor, array in zip(outputs, got):
            lead = () if case.replicas == 1 else (case.replicas,)
            assert (*lead, *tensor.shape) == array.shape and tensor.dtype.as_numpy() == array.dtype
        if case.check is not None:
            case.check(arrays, got)
            if reference:
                compare(case, got, [(a, a.dtype) for a in harness.evaluate(case, arrays)], dtype)
            else:
                np.testing.assert_array_equal(got[0], harness.evaluate(case, arrays)[0])
        else:
            compare(case, got, expected(case, arrays, dtype), dtype)


@both_engines
@pytest.mark.parametrize("case", [c for c in CASES if c.strided and c.reference], ids=by_name)
def test_operands_in_another_layout(case, reference):
    dtype = case.dtypes[0]
    arrays = converted(samples(case), dtype)
    got = harness.evaluate(case, arrays, True, reference)
    compare(case, got, expected(case, arrays, dtype), dtype)


@pytest.mark.parametrize("case", [c for c in CASES if c.elementwise], ids=by_name)
def test_scalars_and_empty_tensors(case):
    for dtype in case.dtypes:
        full = converted(samples(case), dtype)
        columns = max(a.shape[-1] for a in full)
        empty = [a[..., :0] if a.shape[-1] == columns else a for a in full]
        for arrays in ([a.reshape(-1)[0] for a in full], empty):
            wide = [a.astype("float64") for a in arrays]
            want = np.asarray(case.reference(*wide))
            own = want.dtype if want.dtype != np.float64 else dtype
            compare(case, harness.evaluate(case, arrays), [(want, np.dtype(own))], dtype)


@pytest.mark.parametrize("case", [c for c in CASES if c.elementwise and c.special], ids=by_name)
def test_special_values(case):
    for dtype in (d for d in case.dtypes if d.startswith("float")):
        info = np.finfo(dtype)
        numbers = [0, 1, 2.5, info.max, info.tiny, info.smallest_subnormal, info.tiny / 2, np.inf, np.nan]
        values = np.array([*numbers, *(-x for x in numbers)], dtype)
        arrays = [values] if len(case.inputs) == 1 else [values, values[:, None]]
        with np.errstate(all="ignore"):
            want = np.asarray(case.reference(*(a.astype("float64") for a in arrays)))
            if want.dtype == np.float64 and dtype != "float64":
                want = want.astype(dtype).astype("float64")
        own = want.dtype if want.dtype != np.float64 else np.dtype(dtype)
        compare(case, harness.evaluate(case, arrays), [(want, own)], dtype)


def is_sprinkled(case):
    return case.reference and case.special and not case.elementwise and case.inputs


@both_engines
@pytest.mark.parametrize("case", [c for c in CASES if is_sprinkled(c)], ids=by_name)
def test_special_values_among_others(case, reference):
    """NaN, infinities and denormals where ops that are not elementwise meet them: as the row's reference."""
    dtypes = [d for d in case.dtypes if d.startswith("float")]
    for dtype in dtypes[:1] if reference else dtypes:
        info = np.finfo(dtype)
        for odd in ((np.nan,), (np.inf, -np.inf), (info.smallest_subnormal, -info.tiny / 2)):
            arrays = converted(samples(case), dtype)
            # In one operand: whether a factor meets the zeros of a padding is nobody's promise.
            first = next((a for a in arrays if a.size and np.issubdtype(a.dtype, np.floating)), None)
            if first is None:
                continue
            first.reshape(-1)[np.random.default_rng(3).integers(first.size, size=len(odd))] = odd
            compare(case, harness.evaluate(case, arrays, False, reference), expected(case, arrays, dtype), dtype)


def has_rows(case):
    arrays = samples(case)
    fixed = case.elementwise or case.updates or case.replicas > 1
    return not fixed and bool(arrays) and np.ndim(arrays[0]) > 1


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
@both_engines
@pytest.mark.parametrize("count", [0, 1, 700])
@pytest.mark.parametrize("case", [c for c in CASES if has_rows(c)], ids=by_name)
def test_any_number_of_rows(case, count, reference):
    """No rows at all, one, and enough for several threads: refused for what goes with them, or as the reference."""
    if reference and count > 1:
        count = 7  # it has no threads and is slow
    dtype = case.dtypes[0]
    arrays = converted(samples(case), dtype)
    arrays[0] = np.resize(arrays[0], (count, *arrays[0].shape[1:]))
    try:
        wanted = expected(case, arrays, dtype)
    except (ValueError, IndexError, TypeError, RuntimeError, ZeroDivisionError):
        wanted = None  # the other inputs do not go with so many rows
    try:
        results = harness.evaluate(case, arrays, False, reference)
    except (popart.popart_exception, ValueError) as error:
        assert str(error)
        return
    if wanted is not None:
        compare(case, results, wanted, dtype)


@both_engines
@pytest.mark.parametrize("case", [c for c in CASES if c.inplace], ids=by_name)
def test_in_place_is_out_of_place(case, reference):
    for dtype in case.dtypes:
        arrays = converted(samples(case), dtype)
        plain = harness.evaluate(case, arrays, False, reference)
        got, after = harness.evaluate_inplace(case, arrays, reference)
        for have, want in zip(got, plain, strict=True):
            np.testing.assert_array_equal(have, want)
        np.testing.assert_array_equal(after, plain[0] if case.modifies else arrays[0])


@both_engines
@pytest.mark.parametrize("case", [c for c in CASES if c.updates], ids=by_name)
def test_updated_variable(case, reference):
    arrays = converted(samples(case), case.dtypes[0])
    ir = popxl.Ir(case.replicas)
    with ir.main_graph:
        inputs = harness.make_inputs(case, arrays)
        case.call(*inputs)
    with popxl.Session(ir, "cpu", reference=reference) as session:
        session.run()
        got = session.get_tensor_data(inputs[0])
    compare(case, [got], expected(case, arrays, case.dtypes[0])[:1], case.dtypes[0])


@both_engines
@pytest.mark.parametrize("case", [c for c in CASES if c.grad], ids=by_name)
def test_gradient(case, reference):
    arrays = samples(case)
    rng = np.random.default_rng(5)
    wide = np.asarray(harness.as_list(case.reference(*arrays))[0])
    cotangent = rng.uniform(-1, 1, wide.shape)
    got = harness.gradients(case, arrays, cotangent, reference)
    for have, want in zip(got, harness.central_differences(case, arrays, cotangent), strict=True):
        np.testing.assert_allclose(have, want, 1e-6, 1e-7)


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.grad and c.result_dtype in ("", "float64")],
    ids=by_name,
)
def test_second_gradient(case):
    arrays = samples(case)
    rng = np.random.default_rng(6)
    cotangent = rng.uniform(-1, 1, np.shape(harness.as_list(case.reference(*arrays))[0]))
    weights = [rng.uniform(-1, 1, arrays[i].shape) for i in case.grad]
    shapes = [*(arrays[i].shape for i in case.grad), cotangent.shape]
    directions = [rng.uniform(-1, 1, shape) for shape in shapes]
    slopes = []
    for step in (1e-5, -1e-5):
        moved = list(arrays)
        for i, direction in zip(case.grad, directions):
            moved[i] = arrays[i] + step * direction
        found = harness.gradients(case, moved, cotangent + step * directions[-1])
        slopes.append(sum(float(np.sum(w * g)) for w, g in zip(weights, found)))
    got = harness.second_gradients(case, arrays, cotangent, weights)
    along = sum(float(np.sum(d * g)) for d, g in zip(directions, got))
    np.testing.assert_allclose(along, (slopes[0] - slopes[1]) / 2e-5, 1e-5, 1e-6)


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_text(case):
    ir, _, _ = harness.build(case, converted(samples(case), case.dtypes[0]))
    text = ir._pb_ir.text()
    assert _core.Ir.parse(text).text() == text


@pytest.mark.parametrize("case", [c for c in CASES if c.inputs], ids=by_name)
def test_operands_of_another_program(case):
    arrays = converted(samples(case), case.dtypes[0])
    with popxl.Ir(case.replicas).main_graph:
        foreign = harness.make_inputs(case, arrays)
    with popxl.Ir(case.replicas).main_graph, pytest.raises(ValueError, match="not in (the current )?graph|belongs to another Ir"):
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
