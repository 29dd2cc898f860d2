"""Rows of reductions and of ops that sort or count."""

import numpy as np

import popxl
from ops import references as ref
from ops.case import FLOATS, INTS, NUMERIC, SIGNED, Bad, Case, away, distinct, fixed, positive, real
from popxl import ops


def _bad(function):
    return (
        Bad(lambda: function(popxl.variable(np.ones((2, 3))), axis=2), ValueError, "axis"),
        Bad(lambda: function(popxl.variable(np.ones((2, 3))), axis=[0, -2]), ValueError, "twice"),
    )


def _reduction(op, reference, values=real, dtypes=FLOATS, peer=None, **more):
    """Over all axes, over one kept, and over two; `peer` takes a module, a tensor, axes and keepdims."""
    function = getattr(ops, op)
    grad = (0,) if more.pop("smooth", True) else ()
    big = (values(200, 5, 300),) if op in ("sum", "max", "logsumexp") else None
    out = []
    for label, axis, keepdims in (("all", None, False), ("kept", -1, True), ("two", (0, 2), False)):
        out.append(
            Case(
                op,
                lambda t, axis=axis, keepdims=keepdims: function(t, axis, keepdims),
                [values(3, 4, 5)],
                lambda x, axis=axis, keepdims=keepdims: reference(x, axis=axis, keepdims=keepdims),
                label,
                dtypes,
                grad=grad,
                big=big if label == "two" else None,
                peer=_called(peer, axis, keepdims) if peer and label != "all" else None,
                size=[values(128, 64, 256)],
                bad=_bad(function) if label == "all" else (),
                **more,
            )
        )
    return out


def _called(peer, axis, keepdims):
    return lambda torch, x: peer(torch, x, axis, keepdims)


def _of_one(name):
    """A function that reduces one axis only."""

    def reduce(torch, x, axis, keep):
        return getattr(torch, name)(x if axis == -1 else x.transpose(0, 1).flatten(1), -1, keep)

    return reduce


def _norm(order):
    return lambda torch, x, axis, keep: torch.linalg.vector_norm(x, order, axis, keep)


def _log(reduce):
    return lambda x, **kw: np.log(reduce(x, **kw))


def _argument(function):
    return lambda x, axis, keepdims: function(x, axis, keepdims=keepdims).astype("int32")


def _topk(x, largest):
    ascending = np.argsort(x, 1, "stable")  # NaN is the largest, as in PyTorch
    order = (ascending[:, ::-1] if largest else ascending)[:, :3].astype("int32")
    return np.take_along_axis(x, order, 1), order


_NUMERIC = ("float64", "float32", *INTS)

_REDUCTIONS = [
    *_reduction("sum", np.sum, dtypes=NUMERIC, tolerance=4, peer=lambda torch, *x: torch.sum(*x)),
    *_reduction("mean", np.mean, tolerance=2, peer=lambda torch, *x: torch.mean(*x)),
    *_reduction("sumsquare", lambda x, **kw: np.sum(x * x, **kw), tolerance=4, peer=lambda torch, x, *axes: torch.sum(x * x, *axes)),
    *_reduction("l1", lambda x, **kw: np.sum(np.abs(x), **kw), away, tolerance=4, peer=_norm(1)),
    *_reduction("l2", lambda x, **kw: np.sqrt(np.sum(x * x, **kw)), tolerance=2, peer=_norm(2)),
    *_reduction("logsum", _log(np.sum), positive, tolerance=2, peer=lambda torch, *x: torch.log(torch.sum(*x))),
    *_reduction("logsumexp", lambda x, **kw: np.log(np.sum(np.exp(x), **kw)), tolerance=2, peer=lambda torch, *x: torch.logsumexp(*x)),
    *_reduction("max", np.max, distinct, NUMERIC, peer=lambda torch, *x: torch.amax(*x)),
    *_reduction("min", np.min, distinct, NUMERIC, peer=lambda torch, *x: torch.amin(*x)),
    *_reduction("prod", np.prod, lambda *shape: real(*shape, low=0.8, high=1.2), FLOATS, tolerance=8, peer=_of_one("prod")),
    Case(
        "prod",
        lambda t: ops.prod(t, 1),
        [fixed([[0, 2, 3, -1], [0, 0.5, 0, 3], [0, 0, 0, 2], [2, 1, 3, 0.5]], "float64")],
        lambda x: np.prod(x, 1),
        "zeros",
        grad=(0,),
    ),
    *_reduction("median", ref.median, distinct, NUMERIC, peer=_of_one("median")),
]


def _two(dim, function, op):
    return [
        Case(
            op,
            lambda t, k=keep: getattr(ops, op)(t, dim, k),
            [distinct(4, 5)],
            lambda x, k=keep: function(x, axis=dim, keepdims=k).astype("int32"),
            f"{dim}{keep}",
            _NUMERIC,
            peer=lambda torch, x, k=keep: getattr(torch, op)(x, dim, k),
            size=[distinct(1024, 1024)],
        )
        for keep in (False, True)
    ]


_ORDER = [
    *_two(0, np.argmax, "argmax"),
    *_two(-1, np.argmax, "argmax"),
    *_two(0, np.argmin, "argmin"),
    *_two(-1, np.argmin, "argmin"),
    Case(
        "topk",
        lambda t: ops.topk(t, 3, 1, True, True),
        [distinct(4, 6)],
        lambda x: _topk(x, True),
        "largest",
        (*FLOATS, *SIGNED),
        grad=(0,),
        peer=lambda torch, x: torch.topk(x, 3, 1, True, True),
        size=[distinct(1024, 1024)],
        bad=(Bad(lambda: ops.topk(popxl.variable(np.ones((2, 3))), 4, 1, True, True), Exception, "k"),),
    ),
    Case(
        "topk",
        lambda t: ops.topk(t, 3, 1, False, True),
        [distinct(4, 6)],
        lambda x: _topk(x, False),
        "smallest",
        (*FLOATS, *SIGNED),
    ),
    Case(
        "cumsum",
        lambda t: ops.cumsum(t, 1),
        [real(3, 4, 5)],
        lambda x: np.cumsum(x, 1),
        dtypes=(*FLOATS, *SIGNED),
        grad=(0,),
        tolerance=4,
        peer=lambda torch, x: torch.cumsum(x, 1),
        size=[real(64, 256, 64)],
        bad=(Bad(lambda: ops.cumsum(popxl.variable(np.ones(3)), 1), ValueError, "dim|axis"),),
    ),
    Case(
        "histogram",
        lambda t: ops.histogram(t, [-2.0, -0.5, 0.25, 2.25], False),
        [real(40, 50)],
        lambda x: np.histogram(x, [-2.0, -0.5, 0.25, 2.25])[0].astype("uint32"),
        dtypes=FLOATS,
        peer=lambda torch, x: torch.histogram(x, torch.tensor([-2.0, -0.5, 0.25, 2.25])).hist,
        size=[real(1024, 1024)],
        bad=(Bad(lambda: ops.histogram(popxl.variable(1.0), [1.0, 1.0], False), ValueError, "increas"),),
    ),
    Case(
        "histogram",
        lambda t: ops.histogram(t, [0.25, 1, 2.25], True),
        [real(40, 50)],
        lambda x: np.histogram(np.abs(x), [0.25, 1, 2.25])[0].astype("uint32"),
        "absolute",
        FLOATS,
    ),
]

CASES = _REDUCTIONS + _ORDER
