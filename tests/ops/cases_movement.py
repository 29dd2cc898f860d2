"""Rows of ops that move elements."""

import numpy as np

import popxl
from ops import references as ref
from ops.case import EVERY, FLOATS, NUMERIC, Bad, Case, fixed, numbers, real
from popart import popart_exception
from popxl import ops


def _ones(*shape):
    return popxl.variable(np.ones(shape))


def _move(op, call, reference, label="", shape=(4, 3, 5), inplace=None, **more):
    return Case(
        op, call, [real(*shape)], reference, label, EVERY, grad=(0,), inplace=inplace, modifies=False, **more
    )


_VIEWS = [
    _move(
        "reshape",
        lambda t: ops.reshape(t, (6, -1)),
        lambda x: x.reshape(6, 10),
        inplace=lambda t: ops.reshape_(t, (6, -1)),
        bad=(
            Bad(
                lambda: ops.reshape(_ones(4), (0, 4)), ValueError, r"Invalid shape value in reshape.*\(0, 4\)"
            ),
            Bad(lambda: ops.reshape(_ones(4), (-1, -1)), ValueError, "at most one '-1' value"),
            Bad(lambda: ops.reshape(_ones(4), (3,)), popart_exception, "4 elements"),
        ),
    ),
    _move("reshape", ops.flatten, lambda x: x.reshape(-1), "flatten", inplace=ops.flatten_),
    _move(
        "reshape",
        lambda t: ops.squeeze(t, [0, -1]),
        lambda x: x.reshape(4),
        "squeeze",
        shape=(1, 4, 1),
        bad=(
            Bad(lambda: ops.squeeze(_ones(1, 2), [1]), ValueError, "size 2"),
            Bad(lambda: ops.squeeze(_ones(1, 2), [0, -2]), ValueError, "duplicates"),
            Bad(lambda: ops.squeeze(_ones(1, 2), [2]), ValueError, "2 dimensions"),
        ),
    ),
    _move(
        "transpose",
        ops.transpose,
        np.transpose,
        inplace=ops.transpose_,
        peer=lambda torch, x: x.permute(2, 1, 0).contiguous(),
        size=[real(64, 128, 128)],
    ),
    _move(
        "transpose",
        lambda t: ops.transpose(t, (1, 0, 2)),
        lambda x: x.transpose(1, 0, 2),
        "permuted",
        inplace=lambda t: ops.transpose_(t, (1, 0, 2)),
        bad=(
            Bad(
                lambda: ops.transpose(_ones(1, 2, 3), (0, 1, 3)),
                ValueError,
                "Values in permutation must be less than",
            ),
            Bad(lambda: ops.transpose(_ones(1, 2, 3), (0, 1, 1)), ValueError, "twice"),
        ),
    ),
    _move(
        "slice",
        lambda t: ops.slice(t, [1, 0], [3, -1]),
        lambda x: x[1:3, 0:-1],
        inplace=lambda t: ops.slice_(t, [1, 0], [3, -1]),
        peer=lambda torch, x: x[1:3, :-1].contiguous(),
        size=[real(4, 512, 1024)],
        bad=(Bad(lambda: ops.slice(_ones(3, 3), [1, 0], [2]), ValueError, "length"),),
    ),
    _move("slice", lambda t: ops.slice(t, None, None, -1, 1), lambda x: x[:, ::-1], "reversed"),
    _move("slice", lambda t: t[1:, 2, 0:4], lambda x: x[1:, 2, 0:4], "brackets"),
    _move(
        "subsample",
        lambda t: ops.subsample(t, [2, 1, 3]),
        lambda x: x[::2, :, ::3],
        bad=(
            Bad(lambda: ops.subsample(_ones(3), [-1]), Exception, "positive"),
            Bad(lambda: ops.subsample(_ones(3), [1, 1]), ValueError, "2 strides"),
        ),
    ),
    _move("subsample", lambda t: t[::2, ::2], lambda x: x[::2, ::2], "brackets"),
    _move("identity", lambda t: ops.identity(t, "named"), lambda x: x),
    Case("detach", ops.detach, [real(4, 5)], lambda x: x, dtypes=EVERY, inplace=ops.detach_, modifies=False),
    Case(
        "ipu_copy",
        lambda t: ops.ipu_copy(t, 0, 1),
        [real(4, 5)],
        lambda x: x,
        dtypes=EVERY,
        grad=(0,),
        bad=(
            Bad(
                lambda: ops.ipu_copy(_ones(2), 1),
                ValueError,
                "Could not infer the ipu.*Please specify `source`",
            ),
        ),
    ),
    Case("io_tile_copy", ops.io_tile_copy, [real(4, 5)], lambda x: x, dtypes=EVERY, grad=(0,)),
]


def _join(*parts, axis):
    return np.concatenate(parts, axis)


_JOINS = [
    Case(
        "concat",
        lambda *ts: ops.concat(ts, 1),
        [real(2, 3, 4), real(2, 1, 4), real(2, 2, 4)],
        lambda *xs: _join(*xs, axis=1),
        dtypes=EVERY,
        grad=(0, 1, 2),
        inplace=lambda *ts: ops.concat_(ts, 1),
        modifies=False,
        peer=lambda torch, *ts: torch.cat(ts, 1),
        size=[real(64, rows, 128) for rows in (64, 32, 64)],
        bad=(
            Bad(lambda: ops.concat([_ones(2, 3), _ones(2)]), popart_exception, "rank"),
            Bad(
                lambda: ops.concat([_ones(2), popxl.variable([1, 2])]),
                TypeError,
                "All inputs to a concat operation must have the same type:",
            ),
        ),
    ),
    Case(
        "split",
        lambda t: ops.split(t, [1, 3, 2], -1),
        [real(4, 6)],
        lambda x: np.split(x, [1, 4], -1),
        "sizes",
        EVERY,
        grad=(0,),
        bad=(
            Bad(lambda: ops.split(_ones(4), [1, 2]), popart_exception, "add up"),
            Bad(lambda: ops.split(_ones(4), 3), ValueError, "3 equal pieces"),
        ),
    ),
    Case("split", lambda t: ops.split(t, 3, 1), [real(4, 6)], lambda x: np.split(x, 3, 1), "equal", EVERY),
]

_INDICES = numbers(2, 3, high=4)
_OUT_OF_RANGE = fixed([[-1, 0, 4], [3, 9, -7]], "int32")


def _gathers(op):
    function = getattr(ops, op)
    return [
        Case(op, function, [real(4, 3), _INDICES], lambda x, i: ref.gather(x, i), "first", EVERY, grad=(0,)),
        Case(
            op,
            lambda t, i: function(t, i, 1),
            [real(3, 4, 2), _INDICES],
            lambda x, i: ref.gather(x, i, 1),
            "second",
            grad=(0,),
            big=(real(300, 40, 50), numbers(60, high=40)),
            peer=lambda torch, x, i: torch.index_select(x, 1, i),
        ),
        Case(
            op,
            lambda t, i: function(t, i, zero_OOR=True),
            [real(4, 3), _OUT_OF_RANGE],
            lambda x, i: ref.gather(x, i, 0, True),
            "out of range",
            grad=(0,),
            bad=(Bad(lambda: function(_ones(3), popxl.variable(1.0)), TypeError, "dtype"),),
        ),
    ]


def _group(indices, axis, size):
    return ops.groupedgather(_ones(2, 2), popxl.variable(indices), axis, size)


_GROUPED = [
    Case(
        "groupedgather",
        lambda t, i: ops.groupedgather(t, i, 1, 2),
        [real(2, 4, 3), numbers(2, 3, high=4)],
        lambda x, i: ref.grouped_gather(x, i, 1),
        "groups",
        EVERY,
        grad=(0,),
        big=(real(2, 300, 40), numbers(2, 800, high=300)),
        bad=(
            Bad(lambda: _group([[0]], 1, 2), popart_exception, "2 groups"),
            Bad(lambda: _group([[0], [0]], 0, 2), popart_exception, "axis"),
            Bad(lambda: _group([0], 0, 0), ValueError, "positive"),
        ),
    ),
    Case(
        "groupedgather",
        lambda t, i: ops.groupedgather(t, i, -1, 3, zero_OOR=True),
        [real(3, 2, 4), numbers(3, 2, 2, low=-1, high=5)],
        lambda x, i: ref.grouped_gather(x, i, 2, True),
        "last",
        grad=(0,),
    ),
    Case(
        "groupedgather",
        ops.groupedgather,
        [real(4, 3), _INDICES],
        lambda x, i: ref.gather(x, i),
        "one group",
        grad=(0,),
    ),
]


def _scatter(label, call, data, indices, values, reference, **more):
    return Case("scatter", call, [data, indices, values], reference, label, grad=(0, 2), **more)


_SCATTER = [
    _scatter(
        "first",
        ops.scatter,
        real(4, 3),
        numbers(2, 3, low=-4, high=4),
        real(2, 3),
        ref.scatter,
        dtypes=EVERY,
        big=(real(400, 300), numbers(300, 300, high=400), real(300, 300)),
        peer=lambda torch, x, i, v: torch.scatter(x, 0, i.long(), v),
        size=(real(2000, 500), numbers(1000, 500, high=2000), real(1000, 500)),
        bad=(
            Bad(
                lambda: ops.scatter(_ones(2, 2), popxl.variable([0]), _ones(1)),
                popart_exception,
                "2 dimension",
            ),
            Bad(lambda: ops.scatter(_ones(2), popxl.variable([0]), _ones(2)), popart_exception, "same shape"),
            Bad(
                lambda: ops.scatter(_ones(2, 2), popxl.variable([[0, 1, 1]]), _ones(1, 3)),
                popart_exception,
                "dimension 1",
            ),
            Bad(
                lambda: ops.scatter(_ones(2), popxl.variable([0]), popxl.variable([1])),
                popart_exception,
                "same dtype",
            ),
        ),
    ),
    _scatter(
        "last",
        lambda t, i, v: ops.scatter(t, i, v, -1),
        real(3, 5),
        numbers(2, 7, low=-7, high=8),
        real(2, 7),
        lambda x, i, v: ref.scatter(x, i, v, 1),
    ),
    _scatter("nothing", ops.scatter, real(3, 2), fixed(np.zeros((0, 2)), "int32"), real(0, 2), ref.scatter),
]


def _reduced(label, reduction, data, indices, initial=None, **options):
    more = {key: options.pop(key) for key in ("dtypes", "big", "bad", "peer", "size") if key in options}
    names = {"enable_index_broadcast": "broadcast"}
    reference_options = {names.get(key, key): value for key, value in options.items()}
    with_initial = [] if initial is None else [initial]
    return Case(
        "scatter_reduce",
        lambda t, i, *start: ops.scatter_reduce(t, i, reduction, *start, **options),
        [data, indices, *with_initial],
        lambda x, i, *start: ref.scatter_reduce(x, i, reduction, *start, **reference_options),
        f"{reduction} {label}",
        grad=(0, 2) if with_initial else (0,),
        tolerance=2,
        **more,
    )


def _reduce(*data, indices=(0, 1), **options):
    return ops.scatter_reduce(_ones(*data), popxl.variable(np.array(indices)), **options)


_TORCH_REDUCTIONS = {"sum": "sum", "max": "amax", "min": "amin"}


def _reducing(name):
    def reduce(torch, x, i):
        indices = i.long()[:, None].expand(-1, x.shape[1])
        return x.new_zeros(5, x.shape[1]).scatter_reduce(0, indices, x, name, include_self=False)

    return reduce


_SCATTER_REDUCE = [
    *[
        case
        for reduction in ("sum", "max", "min", "none")
        for case in (
            _reduced(
                "vector",
                reduction,
                real(6, 3),
                fixed([3, 0, 3, -1, 5, 1], "int32"),
                axis_size=5,
                dtypes=NUMERIC,
                big=(real(3000, 40), numbers(3000, high=5)),
                peer=_reducing(_TORCH_REDUCTIONS[reduction]) if reduction in _TORCH_REDUCTIONS else None,
                size=(real(8000, 64), numbers(8000, high=5)),
            ),
            _reduced("full", reduction, real(2, 5), numbers(2, 5, high=3), axis=1, axis_size=3),
            _reduced("onto", reduction, real(3, 5), numbers(5, high=4), real(3, 4), axis=-1),
            _reduced(
                "part",
                reduction,
                real(4, 5),
                numbers(3, 2, high=3),
                real(5, 3),
                axis=0,
                enable_index_broadcast=False,
            ),
            _reduced("column", reduction, real(4, 3), numbers(4, 1, high=3), axis_size=3),
        )
    ],
    _reduced(
        "covered",
        "sum",
        real(4, 5),
        numbers(3, 2, high=3),
        axis_size=3,
        enable_index_broadcast=False,
        bad=(
            Bad(lambda: _reduce(2, reduction="foo", axis_size=1), ValueError, "foo"),
            Bad(lambda: _reduce(2, reduction="sum"), ValueError, "axis_size"),
            Bad(lambda: _reduce(3, reduction="sum", axis_size=2), popart_exception, "broadcast"),
            Bad(
                lambda: _reduce(2, indices=(0, 1, 2), reduction="sum", enable_index_broadcast=False),
                popart_exception,
                "fit into",
            ),
            Bad(
                lambda: _reduce(2, 3, reduction="sum", initial_values=_ones(4, 2)),
                popart_exception,
                "dimension 1",
            ),
            Bad(lambda: _reduce(2, indices=((0, 1),), reduction="sum"), popart_exception, "more dimensions"),
        ),
    ),
]


_AXES, _SIZES = [0, 2], [2, 3]

_INDEXED = [
    *_gathers("gather"),
    *_gathers("tied_gather"),
    Case("gather", lambda t, i: t[i], [real(4, 3), _INDICES], lambda x, i: x[i], "brackets", FLOATS),
    Case(
        "dynamic_slice",
        lambda t, i: ops.dynamic_slice(t, i, _AXES, _SIZES, True),
        [real(4, 3, 5), fixed([1, 2], "uint32")],
        lambda x, i: x[ref.window_of(x.shape, i, _AXES, _SIZES)],
        peer=lambda torch, x, i: x[1:3, :, 2:5].contiguous(),
        size=(real(4, 512, 1024), fixed([1, 2], "uint32")),
        dtypes=EVERY,
        grad=(0,),
        bad=(
            Bad(
                lambda: ops.dynamic_slice(_ones(3), popxl.variable([0, 0]), [0, 1], [1, 1], True),
                Exception,
                "ax",
            ),
        ),
    ),
    Case(
        "dynamic_update",
        lambda t, i, u: ops.dynamic_update(t, i, u, _AXES, _SIZES, True),
        [real(4, 3, 5), fixed([1, 2], "uint32"), real(2, 3, 3)],
        lambda x, i, u: ref.dynamic_update(x, i, u, _AXES, _SIZES),
        peer=lambda torch, x, i, u: torch.slice_scatter(x, torch.slice_scatter(x[1:3], u, 2, 2, 5), 0, 1, 3),
        size=(real(4, 512, 512), fixed([1, 2], "uint32"), real(2, 512, 3)),
        dtypes=EVERY,
        grad=(0, 2),
        inplace=lambda t, i, u: ops.dynamic_update_(t, i, u, _AXES, _SIZES, True),
    ),
    Case(
        "onehot",
        lambda t, n, v: ops.onehot(t, n, v, -1),
        [numbers(4, 2, high=3), fixed(3, "int32"), real(2)],
        lambda t, n, v: ref.onehot(t, v, 3, -1),
        "last",
        EVERY,
        grad=(2,),
        constants=(1,),
        peer=lambda torch, t, n, v: torch.where(torch.nn.functional.one_hot(t.long(), 64).bool(), v[1], v[0]),
        size=(numbers(128, 128, high=64), fixed(64, "int32"), real(2)),
    ),
    Case(
        "onehot",
        lambda t, n, v: ops.onehot(t, n, v, 0),
        [numbers(4, 2, high=3), fixed(3, "int32"), real(2)],
        lambda t, n, v: ref.onehot(t, v, 3, 0),
        "first",
        constants=(1,),
    ),
]

CASES = _VIEWS + _JOINS + _INDEXED + _GROUPED + _SCATTER + _SCATTER_REDUCE
