"""Rows of random numbers and of updates of variables."""

import numpy as np

import popxl
from ops import references as ref
from ops.case import Bad, Case, fixed, numbers, positive, real
from popart import popart_exception
from popxl import ops
from popxl.ops import var_updates

_SEED = fixed([3, 5], "uint32")
_FLOATS = ("float32", "float64")


def _check_normal(inputs, outputs):
    (x,) = outputs
    assert abs(x.mean() - 2) < 0.05 and abs(x.std() - 3) < 0.05
    kurtosis = (((x - x.mean()) / x.std()) ** 4).mean()
    assert abs(kurtosis - 3) < 0.2


def _check_uniform(inputs, outputs):
    (x,) = outputs
    assert x.min() >= -1 and x.max() < 3 and abs(x.mean() - 1) < 0.05 and abs(x.var() - 16 / 12) < 0.05


def _check_dropout(inputs, outputs):
    x, (out,) = inputs[0], outputs
    kept = out != 0
    assert 0.65 < kept.mean() < 0.85
    np.testing.assert_allclose(out[kept], x[kept] / 0.75, 2e-3 if x.dtype == np.float16 else 1e-6)


def _check_shaped_dropout(inputs, outputs):
    x, (out,) = inputs[0], outputs
    kept = out != 0
    assert (kept == kept[:, :1]).all() and 0.6 < kept[:, 0].mean() < 0.9
    scaled = (x.astype("float64" if x.dtype == np.float64 else "float32") * (1 / 0.75)).astype(x.dtype)
    np.testing.assert_allclose(out[kept], scaled[kept], 1e-3 if x.dtype == np.float16 else 2e-7)


def _drop(shape, ratio):
    seed = popxl.variable(np.array([1, 2]), popxl.uint32)
    return ops.shaped_dropout(popxl.variable([1.0, 2.0]), seed, shape, ratio)


def _check_seeds(inputs, outputs):
    assert len({tuple(seed) for seed in (inputs[0], *outputs)}) == 4 and outputs[0].dtype == np.uint32


_RANDOM = [
    Case(
        "random_normal",
        lambda s: ops.random_normal(s, (200, 300), 2.0, 3.0),
        [_SEED],
        check=_check_normal,
        dtypes=("float32",),
        result_dtype="float32",
        big=(_SEED,),
        peer=lambda torch, s: torch.randn(200, 300),
        tolerance=30,  # the angle of a pair is rounded to float32 before its sine and cosine are taken
    ),
    Case(
        "random_uniform",
        lambda s: ops.random_uniform(s, (200, 300), -1.0, 3.0),
        [_SEED],
        check=_check_uniform,
        dtypes=("float32",),
        result_dtype="float32",
        big=(_SEED,),
        peer=lambda torch, s: torch.rand(200, 300),
    ),
    Case(
        "dropout",
        lambda t, s: ops.dropout(t, s, 0.25),
        [positive(50, 60), _SEED],
        check=_check_dropout,
        dtypes=("float32", "float64", "float16"),
        big=(positive(300, 400), _SEED),
        peer=lambda torch, x, s: torch.nn.functional.dropout(x, 0.25),
    ),
    Case(
        "shaped_dropout",
        lambda t, s: ops.shaped_dropout(t, s, (50, 1, 8), 0.25),
        [positive(50, 60, 8), _SEED],
        check=_check_shaped_dropout,
        dtypes=("float32", "float64", "float16"),
        big=(positive(50, 100, 8), _SEED),
        bad=(
            Bad(lambda: _drop((3,), 0.5), ValueError, "broadcast"),
            Bad(lambda: _drop((2,), 1.5), ValueError, r"\[0, 1\]"),
        ),
    ),
    Case(
        "shaped_dropout",
        lambda t, s: ops.shaped_dropout(t, s, (), 1),
        [positive(4, 3), _SEED],
        lambda x, s: 0 * x,
        "all",
        grad=(0,),
        special=False,  # what is dropped is 0, whatever it was
    ),
    Case(
        "modify_random_seed",
        lambda s: ops.split_random_seed(s, 3),
        [_SEED],
        check=_check_seeds,
        dtypes=("uint32",),
        bad=(Bad(lambda: ops.split_random_seed(popxl.variable([1, 2])), ValueError, "uint32"),),
    ),
]


def _update(op, call, inputs, reference, label="", **more):
    return Case(op, call, inputs, reference, label, _FLOATS, updates=True, tolerance=4, **more)


_MISFIT = Bad(
    lambda: var_updates.accumulate_(popxl.variable([1.0, 2.0]), popxl.variable(1.0)),
    popart_exception,
    "same shape",
)
_T, _X = real(4, 5), real(4, 5)

_ACCUMULATE = [
    _update(
        "accumulate_",
        var_updates.accumulate_,
        [_T, _X],
        lambda t, x: t + x,
        bad=(_MISFIT,),
        big=(real(300, 400), real(300, 400)),
    ),
    _update(
        "accumulate_",
        lambda t, x: var_updates.accumulate_(t, x, 0.5),
        [_T, _X],
        lambda t, x: t + 0.5 * x,
        "scaled",
    ),
    _update("accumulate_", var_updates.accumulate_, [_T, _X, real()], lambda t, x, f: t + f * x, "tensor"),
    _update(
        "accumulate_",
        lambda t, x: var_updates.accumulate_square_(t, x, 0.5),
        [_T, _X],
        lambda t, x: t + 0.5 * x * x,
        "square",
    ),
    _update(
        "accumulate_",
        lambda t, x: var_updates.accumulate_mean_(t, x, 3.0),
        [_T, _X],
        lambda t, x: (3 * t + x) / 4,
        "mean",
    ),
    _update(
        "accumulate_",
        lambda t, x: var_updates.accumulate_moving_average_(t, x, 0.9),
        [_T, _X],
        lambda t, x: 0.9 * t + (1 - 0.9) * x,
        "moving average",
    ),
    _update(
        "accumulate_",
        lambda t, x: var_updates.accumulate_moving_average_square_(t, x, 0.9),
        [_T, _X],
        lambda t, x: 0.9 * t + (1 - 0.9) * x * x,
        "moving average square",
    ),
    _update(
        "accumulator_scale_", lambda t: var_updates.accumulator_scale_(t, 0.25), [_T], lambda t: 0.25 * t
    ),
    _update("accumulator_scale_", var_updates.accumulator_scale_, [_T, real()], lambda t, f: f * t, "tensor"),
    _update(
        "accumulator_scale_",
        var_updates.accumulator_zero_,
        [lambda rng: np.array([np.inf, np.nan, 1.0])],
        lambda t: np.zeros(3),
        "zero",
    ),
    _update(
        "copy_var_update_",
        var_updates.copy_var_update_,
        [_T, _X],
        lambda t, x: x,
        bad=(
            Bad(
                lambda: var_updates.copy_var_update_(popxl.variable([1.0]), popxl.variable([1])),
                popart_exception,
                "same dtype",
            ),
        ),
    ),
]


def _sparse(t, x, i, f=1.0, axis=0):
    out, slices = np.moveaxis(np.array(t), axis, 0), np.moveaxis(x, axis, 0)
    for index, piece in zip(np.clip(i, 0, len(out) - 1), slices):
        out[index] += f * piece
    return np.moveaxis(out, 0, axis)


def _misfit_slices():
    two = popxl.variable([1.0, 1.0])
    var_updates.sparse_accumulate_(popxl.variable([2.0, 2.0]), two, popxl.constant([1]))
    popxl.Session(popxl.gmg().ir, "cpu")


def _misfit_axis():
    var_updates.sparse_accumulate_(popxl.variable([1.0]), popxl.variable([1.0]), popxl.constant([0]), 1)
    popxl.Session(popxl.gmg().ir, "cpu")


_PICKED = fixed([3, 0, 3, 9], "int32")

_SPARSE = [
    _update(
        "sparse_accumulate_",
        var_updates.sparse_accumulate_,
        [_T, _X, _PICKED],
        _sparse,
        bad=(
            Bad(_misfit_slices, popart_exception, r"operand `X`.*shape \(1,\) of the slices"),
            Bad(_misfit_axis, ValueError, "axis"),
        ),
        big=(real(300, 400), real(2000, 400), numbers(2000, high=300)),
    ),
    _update(
        "sparse_accumulate_",
        lambda t, x, i: var_updates.sparse_accumulate_(t, x, i, axis=1, f=-0.5),
        [_T, real(4, 4), _PICKED],
        lambda t, x, i: _sparse(t, x, i, -0.5, axis=1),
        "scaled",
    ),
    _update(
        "sparse_accumulate_",
        lambda t, x, i, f: var_updates.sparse_accumulate_(t, x, i, f=f, W=t),
        [_T, _X, _PICKED, real()],
        lambda t, x, i, f: _sparse(t, x, i, f),
        "tensor",
    ),
    _update(
        "sparse_accumulate_",
        lambda t, x, i: var_updates.sparse_accumulate_(t, ops.cast(x, popxl.float16), i),
        [_T, lambda rng: rng.integers(-8, 8, (4, 5)).astype("float64"), _PICKED],
        _sparse,
        "of another dtype",
    ),
]

_M, _V, _W = real(4, 5), positive(4, 5), real(4, 5)
_STEP = fixed(2.0, "float32")


def _betas(update, *more, **options):
    return lambda m, v, w, step: update(m, v, w, step, 0.1, *more, **options)


_ADAM = [
    Case("adam_updater", var_updates.adam_updater, [_M, _V], ref.adam, "plain", _FLOATS, tolerance=4),
    Case(
        "adam_updater",
        _betas(var_updates.adam_updater, 0.9, 0.99),
        [_M, _V, _W, _STEP],
        lambda m, v, w, s: ref.adam(m, v, w, s, 0.1, 0.9, 0.99),
        "corrected",
        _FLOATS,
        tolerance=50,
        bad=(
            Bad(
                lambda: var_updates.adam_updater(
                    popxl.variable(1.0), popxl.variable(1.0), time_step=popxl.variable(1.0)
                ),
                ValueError,
                "Bias correction requires both beta1 and beta2 to not be None.",
            ),
            Bad(
                lambda: var_updates.adam_updater(popxl.variable(1.0), popxl.variable(1.0), weight_decay=0.1),
                ValueError,
                "Weight decay requires weight to not be None.",
            ),
        ),
    ),
    Case(
        "adam_updater",
        _betas(var_updates.lamb_updater, 0.9, 0.99),
        [_M, _V, _W, _STEP],
        lambda m, v, w, s: ref.adam(m, v, w, s, 0.1, 0.9, 0.99),
        "lamb",
        _FLOATS,
        tolerance=50,
    ),
    Case(
        "adam_updater",
        _betas(var_updates.adamax_updater, 0.9),
        [_M, _V, _W, _STEP],
        lambda m, v, w, s: ref.adam(m, v, w, s, 0.1, 0.9, adamax=True),
        "adamax",
        _FLOATS,
        tolerance=50,
        bad=(
            Bad(
                lambda: var_updates.adamax_updater(popxl.variable(1.0), popxl.variable(1.0)),
                ValueError,
                "AdaMax requires time_step to not be None.",
            ),
        ),
    ),
    Case(
        "adam_updater",
        lambda m, v, b1, b2, s, e: var_updates.adam_updater(m, v, None, s, None, b1, b2, e),
        [_M, _V, lambda rng: np.array(0.9), lambda rng: np.array(0.99), _STEP, lambda rng: np.array(1e-3)],
        lambda m, v, b1, b2, s, e: ref.adam(m, v, None, s, 0, b1, b2, e),
        "tensors",
        _FLOATS,
        tolerance=50,
    ),
    _update(
        "adam_var_update",
        lambda t, x, r1, r2: var_updates.adam_var_update(t, x, r1, r2, 0.1),
        [_T, _X, lambda rng: np.array(2.0), lambda rng: np.array(3.0)],
        lambda t, x, r1, r2: ref.adam_var_update(t, x, r1, r2, 0.1),
        "plain",
    ),
    _update(
        "adam_var_update",
        lambda t, x, r1, r2: var_updates.adam_var_update(t, x, r1, r2, 0.1, 1.25),
        [_T, _X, lambda rng: np.array(2.0), lambda rng: np.array(3.0)],
        lambda t, x, r1, r2: ref.adam_var_update(t, x, r1, r2, 0.1, 1.25),
        "trust ratio",
    ),
    _update(
        "adam_var_update",
        lambda t, x, r1, r2, rate, limit: var_updates.adam_var_update(t, x, r1, r2, rate, limit),
        [_T, _X, lambda rng: np.array(2.0), lambda rng: np.array(3.0), real(), positive()],
        ref.adam_var_update,
        "tensors",
    ),
    Case(
        "lamb_square",
        ops.lamb_square,
        [real(4, 5)],
        lambda x: np.sum(x * x),
        dtypes=("float32", "float16"),
        result_dtype="float32",
        tolerance=4,
    ),
]

CASES = _RANDOM + _ACCUMULATE + _SPARSE + _ADAM
