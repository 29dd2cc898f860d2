"""Rows of matrix products, windows, norms and losses."""

import numpy as np

import popxl
from ops import references as ref
from ops.case import SIGNED, Bad, Case, distinct, numbers, real
from popart import popart_exception
from popxl import ops


def _ones(*shape):
    return popxl.variable(np.ones(shape))


def _product(label, *shapes, **more):
    return Case(
        "matmul",
        ops.matmul,
        [real(*shape) for shape in shapes],
        np.matmul,
        label,
        grad=(0, 1),
        tolerance=4,
        **more,
    )


_MATMUL = [
    _product(
        "matrices",
        (4, 5),
        (5, 3),
        big=(real(300, 200), real(200, 250)),
        peer="matmul",
        size=(real(512, 512), real(512, 512)),
        bad=(
            Bad(lambda: ops.matmul(_ones(2, 3), _ones(2, 3)), popart_exception, "must equal"),
            Bad(lambda: ops.matmul(_ones(2, 3), popxl.variable(1.0)), popart_exception, "scalar"),
            Bad(
                lambda: ops.matmul(_ones(2), _ones(2), partials_type=popxl.int32), ValueError, "partials_type"
            ),
        ),
    ),
    _product("batch", (2, 1, 4, 5), (3, 5, 3)),
    _product("row", (5,), (5, 3)),
    _product("column", (2, 4, 5), (5,)),
    _product("dot", (5,), (5,)),
    Case("matmul", lambda a, b: a @ b, [real(4, 5), real(5, 3)], np.matmul, "ints", SIGNED),
    Case(
        "matmul",
        lambda a, b: ops.matmul(a, b, output_type=popxl.float32),
        [real(4, 5), real(5, 3)],
        np.matmul,
        "wider",
        ("float16", "float32"),
        result_dtype="float32",
        tolerance=8,
    ),
]


def _conv(label, t, weight, stride, padding, dilation, groups=1, **more):
    return Case(
        "conv",
        lambda x, w: ops.conv(x, w, stride, padding, dilation, groups),
        [real(*t), real(*weight)],
        lambda x, w: ref.conv(x, w, stride, padding, dilation, groups),
        label,
        grad=(0, 1),
        tolerance=8,
        **more,
    )


_CONV = [
    _conv(
        "plain",
        (2, 3, 5, 6),
        (4, 3, 3, 2),
        (1, 1),
        (0, 0, 0, 0),
        (1, 1),
        big=(real(4, 8, 40, 40), real(16, 8, 3, 2)),
        peer="nn.functional.conv2d",
        size=(real(4, 32, 56, 56), real(32, 32, 3, 3)),
        bad=(
            Bad(lambda: ops.conv(_ones(1, 2, 3, 3), _ones(1, 3, 1, 1)), popart_exception, "channels|groups"),
            Bad(
                lambda: ops.conv(_ones(1, 2, 3, 3), _ones(1, 2, 1, 1), pad_type="half"),
                ValueError,
                "`pad_type` is",
            ),
        ),
    ),
    _conv("strided", (1, 2, 7, 6), (3, 2, 2, 3), (2, 3), (1, 0, 1, 2), (1, 1)),
    _conv("dilated", (1, 2, 7, 8), (3, 2, 2, 3), (1, 1), (1, 1, 1, 1), (2, 2)),
    _conv("groups", (2, 4, 5, 5), (6, 2, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 2),
    _conv("one dimension", (2, 3, 9), (4, 3, 3), (2,), (1, 1), (1,)),
    Case(
        "conv",
        lambda x, w: ops.conv(x, w, stride=(2, 2), pad_type="same_upper"),
        [real(1, 2, 5, 6), real(3, 2, 3, 3)],
        lambda x, w: ref.conv(x, w, (2, 2), (1, 0, 1, 1), (1, 1)),
        "same_upper",
        tolerance=8,
    ),
]


def _conv_transpose(label, t, weight, stride, padding, dilation, groups=1, **more):
    """`given` are arguments that the reference does not need: they give its padding and extra elements."""
    given = more.pop("given", {"padding": padding})
    extra = more.pop("extra", (0,) * (len(t) - 2))
    return Case(
        "conv_transpose",
        lambda x, w: ops.conv_transpose(x, w, stride, dilation=dilation, groups=groups, **given),
        [real(*t), real(*weight)],
        lambda x, w: ref.conv_transpose(x, w, stride, padding, dilation, groups, extra),
        label,
        grad=(0, 1),
        tolerance=8,
        **more,
    )


_CONV_TRANSPOSE = [
    _conv_transpose(
        "plain",
        (2, 3, 5, 4),
        (3, 4, 3, 2),
        (1, 1),
        (0, 0, 0, 0),
        (1, 1),
        dtypes=("float64", "float32", "float16", "int32"),
        big=(real(4, 16, 30, 30), real(16, 8, 3, 2)),
        peer="nn.functional.conv_transpose2d",
        size=(real(4, 32, 56, 56), real(32, 32, 3, 3)),
        bad=(
            Bad(
                lambda: ops.conv_transpose(_ones(1, 2, 3, 3), _ones(3, 1, 1, 1)), popart_exception, "channels"
            ),
            Bad(
                lambda: ops.conv_transpose(_ones(1, 2, 3, 3), _ones(2, 1, 1, 1), output_shape=(4,)),
                ValueError,
                "output_shape",
            ),
            Bad(
                lambda: ops.conv_transpose(
                    _ones(1, 2, 3, 3), _ones(2, 1, 1, 1), pad_type="valid", output_shape=(4, 4)
                ),
                ValueError,
                "valid",
            ),
        ),
    ),
    _conv_transpose("strided", (1, 2, 4, 3), (2, 3, 2, 3), (2, 3), (1, 0, 0, 2), (1, 1)),
    _conv_transpose("dilated", (1, 2, 4, 3), (2, 3, 2, 3), (2, 1), (0, 1, 1, 0), (2, 3)),
    _conv_transpose("groups", (2, 4, 4, 3), (4, 2, 3, 2), (1, 2), (1, 0, 1, 1), (1, 1), 2),
    _conv_transpose("one dimension", (2, 3, 5), (3, 4, 3), (2,), (1, 1), (1,)),
    _conv_transpose("three dimensions", (1, 2, 2, 3, 2), (2, 2, 2, 1, 2), (1, 2, 2), (0,) * 6, (1, 1, 1)),
    _conv_transpose(
        "output_padding",
        (1, 2, 3, 3),
        (2, 2, 3, 3),
        (3, 2),
        (1, 1, 0, 1),
        (1, 1),
        given={"padding": (1, 1, 0, 1), "output_padding": (2, 1)},
        extra=(2, 1),
    ),
    _conv_transpose(
        "output_shape",
        (1, 2, 3, 3),
        (2, 2, 3, 3),
        (2, 2),
        (0, 1, 1, 1),
        (1, 1),
        given={"output_shape": (6, 5)},
    ),
    _conv_transpose(
        "same_upper",
        (1, 2, 3, 4),
        (2, 2, 3, 2),
        (2, 1),
        (1, 1, 0, 0),
        (1, 1),
        given={"pad_type": "same_upper"},
    ),
    _conv_transpose(
        "same_lower",
        (1, 2, 3, 4),
        (2, 2, 3, 2),
        (2, 1),
        (0, 0, 1, 1),
        (1, 1),
        given={"pad_type": "same_lower"},
    ),
    _conv_transpose(
        "larger",
        (1, 2, 2, 2),
        (2, 2, 1, 1),
        (1, 1),
        (-1, -1, 0, -1),
        (1, 1),
        given={"output_shape": (1, 2, 3, 4), "pad_type": "same_upper"},
    ),
    _conv_transpose("cropped", (1, 2, 4, 4), (2, 2, 1, 1), (1, 1), (1, 0, 0, 2), (1, 1)),
]


def _pool(op, torch_name, reduce, values=real):
    function = getattr(ops, op)
    return [
        Case(
            op,
            lambda t: function(t, (3, 2), (2, 1), (1, 0, 1, 1)),
            [values(2, 3, 6, 5)],
            lambda x: ref.pool(x, reduce, (3, 2), (2, 1), (1, 0, 1, 1), (1, 1)),
            "padded",
            grad=(0,),
            tolerance=4,
            bad=(Bad(lambda: function(_ones(1, 1, 2, 2), (3, 3)), popart_exception, "window|size|kernel"),),
        ),
        Case(
            op,
            lambda t: function(t, (2, 2)),
            [values(1, 2, 4, 4)],
            lambda x: ref.pool(x, reduce, (2, 2), (1, 1), (0, 0, 0, 0), (1, 1)),
            "plain",
            grad=(0,),
            tolerance=4,
            peer=lambda torch, x: getattr(torch.nn.functional, torch_name)(x, 2, 1),
            size=[values(8, 64, 56, 56)],
        ),
    ]


_POOL = [
    *_pool("average_pool", "avg_pool2d", np.mean),
    *_pool("max_pool", "max_pool2d", np.max, distinct),
    Case(
        "max_pool",
        lambda t: ops.max_pool(t, (3, 3), (2, 2), ceil_mode=True),
        [distinct(1, 2, 6, 6)],
        lambda x: ref.pool(x, np.max, (3, 3), (2, 2), (0, 0, 0, 0), (1, 1), True),
        "ceil_mode",
    ),
]


def _rows(*shape):
    """Probabilities along the last axis."""

    def make(rng):
        return ref.softmax(rng.uniform(-1, 1, shape), -1)

    return make


def _loss(label, shape=(6, 5), peer=None, **options):
    return Case(
        "nll_loss",
        lambda p, i: ops.nll_loss(p, i, **options),
        [_rows(*shape), numbers(*shape[:-1], high=shape[-1])],
        lambda p, i: ref.nll(p, i, **options),
        label,
        grad=(0,),
        tolerance=4,
        special=False,  # a probability below the smallest number counts as that
        peer=peer,
        size=(_rows(1024, 1000), numbers(1024, high=1000)),
    )


def _loss_grad(label, grad=1.0, **options):
    return Case(
        "nll_loss_with_softmax_grad",
        lambda p, i: ops.nll_loss_with_softmax_grad(p, i, grad, **options),
        [_rows(6, 5), numbers(6, high=5)],
        lambda p, i: (ref.nll(p, i, **options), ref.nll_softmax_grad(p, i, grad, **options)),
        label,
        ("float32", "float16"),
        tolerance=4,
        special=False,
    )


_NORM = [
    Case(
        "group_norm",
        lambda t, w, b: ops.group_norm(t, w, b, 2),
        [real(3, 4, 5), real(4), real(4)],
        lambda t, w, b: ref.group_norm(t, w, b, 2),
        grad=(0, 1, 2),
        tolerance=8,
        big=(real(64, 128, 20), real(128), real(128)),
        peer=lambda torch, x, w, b: torch.nn.functional.group_norm(x, 2, w, b),
        size=(real(16, 64, 1024), real(64), real(64)),
        bad=(
            Bad(lambda: ops.group_norm(_ones(3, 4), _ones(4), _ones(4), 3), Exception, "num_groups|groups"),
        ),
    ),
    Case(
        "group_norm",
        ops.layer_norm,
        [real(3, 6), real(6), real(6)],
        lambda t, w, b: ref.group_norm(t, w, b, 1),
        "layer",
        grad=(0, 1, 2),
        tolerance=8,
        peer=lambda torch, x, w, b: torch.nn.functional.layer_norm(x, x.shape[1:], w, b),
        size=(real(1024, 768), real(768), real(768)),
    ),
    Case(
        "batch_norm_inference",
        ops.batch_norm_inference,
        [real(3, 4, 5), real(4), real(4), real(4), lambda rng: rng.uniform(1, 2, 4)],
        ref.batch_norm,
        grad=(0, 1, 2, 3, 4),
        tolerance=8,
        peer=lambda torch, x, w, b, mean, var: torch.nn.functional.batch_norm(x, mean, var, w, b),
        size=(real(16, 64, 1024), real(64), real(64), real(64), lambda rng: rng.uniform(1, 2, 64)),
        bad=(
            Bad(lambda: ops.batch_norm_inference(_ones(3, 4), *[_ones(3)] * 4), popart_exception, "channel"),
        ),
    ),
    Case(
        "softmax",
        lambda t: ops.softmax(t, -1),
        [real(4, 5)],
        lambda x: ref.softmax(x, -1),
        "last",
        grad=(0,),
        tolerance=2,
        big=(real(300, 400),),
        peer=lambda torch, x: torch.softmax(x, -1),
        size=(real(1536, 128),),
        bad=(Bad(lambda: ops.softmax(_ones(2), 1), ValueError, "axis"),),
    ),
    Case(
        "softmax",
        lambda t: ops.softmax(t, 1),
        [real(3, 4, 5)],
        lambda x: ref.softmax(x, 1),
        "middle",
        grad=(0,),
        tolerance=2,
    ),
    _loss("mean", peer=lambda torch, p, i: torch.nn.functional.nll_loss(torch.log(p), i.long())),
    _loss("sum", reduction="sum"),
    _loss("none", shape=(2, 3, 4), reduction="none"),
    _loss("ignoring", ignore_index=1),
    Case(
        "nll_loss",
        lambda p, i: ops.nll_loss(p, i, log_prob=True),
        [lambda rng: -rng.uniform(0.5, 3, (6, 5)), numbers(6, high=5)],
        lambda p, i: ref.nll(p, i, log_prob=True),
        "log_prob",
        grad=(0,),
        tolerance=4,
        bad=(
            Bad(
                lambda: ops.nll_loss(_ones(2, 3), popxl.variable([0, 1]), reduction="foo"), ValueError, "foo"
            ),
        ),
    ),
    _loss_grad("mean"),
    _loss_grad("sum", 2.0, reduction="sum"),
    _loss_grad("ignoring", 1.0, ignore_index=1),
]

CASES = _MATMUL + _CONV + _CONV_TRANSPOSE + _POOL + _NORM
