"""Rows of ops that work element by element."""

import numpy as np

import popxl
from ops import references as ref
from ops.case import EVERY, FLOATS, INTS, NUMERIC, SIGNED, Bad, Case, away, distinct, flags, positive, real
from popart import popart_exception
from popxl import ops
from popxl.ops._build import one

_BIG = (real(300, 400),)
_LARGE = (real(1024, 1024),)
_SHAPE = (3, 1, 5)


def _unary(op, reference, values=real, dtypes=FLOATS, **more):
    function = getattr(ops, op)
    inplace = getattr(ops, f"{op}_", None)
    grad = (0,) if more.pop("smooth", True) else ()
    more = {"dtypes": dtypes, "grad": grad, "inplace": inplace, "elementwise": True, "peer": op, **more}
    return Case(op, function, [values(*_SHAPE)], reference, **more)


def _mismatch(function, error=popart_exception):
    """Shapes that do not broadcast, and dtypes that differ."""
    return (
        Bad(
            lambda: function(popxl.variable(np.ones((2, 3))), popxl.variable(np.ones(4))),
            error,
            "do(es)? not broadcast",
        ),
        Bad(
            lambda: function(popxl.variable(np.ones(3)), popxl.variable(np.ones(3, "float16"))),
            error,
            "same dtype",
        ),
    )


def _binary(op, reference, values=real, dtypes=FLOATS, grad=(0, 1), **more):
    function = getattr(ops, op)
    more.setdefault("bad", _mismatch(function))
    more.setdefault("inplace", getattr(ops, f"{op}_", None))
    more = {"dtypes": dtypes, "grad": grad, "elementwise": True, "peer": op, **more}
    return Case(op, function, [values(4, 3, 5), values(3, 1)], reference, **more)


def _tanh_gelu(torch, x):
    return torch.nn.functional.gelu(x, approximate="tanh")


_UNARY = [
    _unary("ceil", np.ceil, real, (*FLOATS, *INTS), smooth=False),
    _unary("floor", np.floor, real, (*FLOATS, *INTS), smooth=False),
    _unary("sign", np.sign, away, NUMERIC),
    _unary("abs", np.abs, away, (*FLOATS, *SIGNED)),
    _unary("negate", np.negative, real, (*FLOATS, *SIGNED), big=_BIG, peer="neg"),
    _unary("sqrt", np.sqrt, positive),
    _unary("sin", np.sin),
    _unary("cos", np.cos),
    _unary("exp", np.exp, big=_BIG, tolerance=4),
    _unary("log", np.log, positive),
    _unary("tanh", np.tanh, big=_BIG),
    _unary("relu", lambda x: np.maximum(x, 0), away, (*FLOATS, *SIGNED)),
    _unary("gelu", ref.gelu, big=_BIG, tolerance=2, special=False, peer=_tanh_gelu),
    _unary("geluerf", ref.geluerf, tolerance=2, special=False, peer="nn.functional.gelu"),
    _unary("swish", ref.swish, tolerance=2, special=False, peer="nn.functional.silu"),
    _unary("isnan", np.isnan, smooth=False),
    _unary("isinf", np.isinf, smooth=False),
    Case("isnan", ops.isnan, [lambda rng: np.array([0.0, np.nan, np.inf, -np.inf])], np.isnan, "special"),
    Case("isinf", ops.isinf, [lambda rng: np.array([0.0, np.nan, np.inf, -np.inf])], np.isinf, "special"),
    Case(
        "isnan", ops.isfinite, [lambda rng: np.array([0.0, np.nan, np.inf, -np.inf])], np.isfinite, "isfinite"
    ),
    Case("log", ops.log2, [positive(*_SHAPE)], np.log2, "log2", grad=(0,), tolerance=2),
    Case(
        "clip",
        lambda t: ops.clip(t, -1, 2),
        [real(*_SHAPE)],
        lambda x: np.clip(x, -1, 2),
        dtypes=(*FLOATS, *SIGNED),
        grad=(0,),
        peer=lambda torch, x: torch.clip(x, -1, 2),
        size=_LARGE,
    ),
    Case("clip", lambda t: ops.clamp(t, max=0.5), [real(*_SHAPE)], lambda x: np.minimum(x, 0.5), "one end"),
    Case(
        "increment_mod",
        lambda t: ops.increment_mod(t, 1, 3),
        [positive(*_SHAPE)],
        lambda x: np.fmod(x + 1, 3),
        dtypes=("float64", "float32", *INTS),
        inplace=lambda t: ops.increment_mod_(t, 1, 3),
        peer=lambda torch, x: torch.fmod(x + 1, 3),
        size=_LARGE,
    ),
]


def _scaled(x, y):
    return 2 * x - 0.5 * y


def _coerced(t):
    return [1 + t, t - 2, 3 * t, 1 / t, t % 2, t**2, 2**t, [1, 2, 3, 4, 5] * t]


_BINARY = [
    _binary("add", np.add, dtypes=NUMERIC, big=(real(300, 400), real(400))),
    _binary("sub", np.subtract, dtypes=(*FLOATS, *SIGNED)),
    _binary("mul", np.multiply, dtypes=NUMERIC),
    _binary("div", np.divide, away),
    Case("div", ops.div, [away(4, 5, gap=1), away(5, gap=1)], lambda a, b: np.trunc(a / b), "ints", SIGNED),
    _binary("pow", np.power, positive, tolerance=8),
    _binary("fmod", np.fmod, lambda *shape: away(*shape, gap=1), grad=(0,)),
    Case("fmod", ops.fmod, [away(4, 5, gap=1), away(5, gap=1)], np.fmod, "ints", SIGNED),
    Case(
        "add",
        lambda t: _coerced(t),
        [positive(5)],
        lambda x: [1 + x, x - 2, 3 * x, 1 / x, np.fmod(x, 2), x**2, 2.0**x, np.arange(1, 6) * x],
        "numbers",
        tolerance=4,
    ),
    Case(
        "maximum",
        ops.maximum,
        [distinct(4, 5), distinct(5), distinct(4, 1)],
        lambda a, b, c: np.maximum(np.maximum(a, b), c),
        dtypes=NUMERIC,
        bad=_mismatch(ops.maximum),
    ),
    Case(
        "maximum",
        ops.maximum,
        [real(4, 5), lambda rng: rng.uniform(4, 5, (4, 5))],
        np.maximum,
        "gradient",
        grad=(0, 1),
        peer="maximum",
        size=_LARGE * 2,
    ),
    Case(
        "add_n",
        lambda *ts: one("add_n", ts),
        [real(4, 5), real(5), real(4, 1)],
        lambda a, b, c: a + b + c,
        dtypes=NUMERIC,
        grad=(0, 1, 2),
        peer=lambda torch, *ts: sum(ts[1:], ts[0]),
        size=_LARGE * 3,
        bad=_mismatch(lambda *ts: one("add_n", ts)),
    ),
    Case(
        "scaled_add",
        lambda x, y: ops.scaled_add(x, y, 2.0, -0.5),
        [real(4, 5), real(4, 5)],
        _scaled,
        grad=(0, 1),
        inplace=lambda x, y: ops.scaled_add_(x, y, 2.0, -0.5),
        peer=lambda torch, x, y: torch.add(2 * x, y, alpha=-0.5),
        size=_LARGE * 2,
        bad=(
            Bad(
                lambda: ops.scaled_add(popxl.variable([1.0, 2.0]), popxl.variable(1.0)),
                popart_exception,
                "same shape",
            ),
        ),
    ),
    Case(
        "scaled_add",
        ops.scaled_add,
        [real(4, 5), real(4, 5), real(), real()],
        lambda x, y, a, b: a * x + b * y,
        "tensors",
        grad=(0, 1),
        inplace=ops.scaled_add_,
        tolerance=4,
    ),
    _binary("equal", np.equal, distinct, EVERY, grad=(), bad=_mismatch(ops.equal), peer="eq"),
    _binary("greater", np.greater, distinct, EVERY, grad=(), bad=_mismatch(ops.greater), peer="gt"),
]

def _flags(op, reference, count):
    inputs = [flags(4, 5), flags(5)][:count]
    size = [flags(1024, 1024)] * count
    return Case(op, getattr(ops, op), inputs, reference, dtypes=("bool",), peer=op, size=size)


_LOGIC = [
    _flags("logical_and", np.logical_and, 2),
    _flags("logical_or", np.logical_or, 2),
    _flags("logical_not", np.logical_not, 1),
    Case(
        "logical_and",
        lambda a, b: a & b,
        [real(4, 5), flags(5)],
        np.logical_and,
        "cast",
        ("float32", "int32"),
    ),
    Case(
        "logical_or", lambda a, b: a | b, [real(4, 5), flags(5)], np.logical_or, "cast", ("float32", "int32")
    ),
    Case("logical_not", lambda a: ~a, [real(4, 5)], np.logical_not, "cast", ("float32", "int32")),
    Case(
        "where",
        ops.where,
        [flags(4, 5), real(5), real(4, 1)],
        np.where,
        dtypes=EVERY,
        grad=(1, 2),
        peer="where",
        size=(flags(1024, 1024), *_LARGE * 2),
        bad=(
            Bad(
                lambda: ops.where(popxl.variable([True]), popxl.variable(1.0), popxl.variable(1)),
                popart_exception,
                "same dtype",
            ),
        ),
    ),
    Case("where", ops.where, [real(4, 5), real(5), real(4, 1)], np.where, "cast", ("float32", "int32")),
]


def _cast(dtype):
    to = getattr(popxl, dtype)
    return Case(
        "cast",
        lambda t: ops.cast(t, to),
        [real(4, 5)],
        lambda x: x.astype("bool" if dtype == "bool" else "float64"),
        dtype,
        EVERY if dtype != "bool" else NUMERIC,
        result_dtype=dtype,
        special="int" not in dtype,  # C++ leaves open what integer is no number
        peer=lambda torch, x: x.to(getattr(torch, dtype)),
        size=_LARGE,
        grad=(0,) if dtype in ("float32", "float64") else (),
        bad=(Bad(lambda: ops.cast(popxl.variable(1.0), popxl.float8_143), TypeError, "pow2scale"),),
    )


CASES = (
    _UNARY
    + _BINARY
    + _LOGIC
    + [_cast(d) for d in ("float64", "float32", "float16", "int32", "int64", "bool")]
)
