"""Rows of ops that resample images: interpolation, and regions brought to one size."""

import numpy as np

import popxl
from ops import references as ref
from ops.case import NUMERIC, Bad, Case, fixed, numbers, real
from popart import popart_exception
from popxl import ops


def _ones(*shape):
    return popxl.variable(np.ones(shape))


def _resized(label, shape, scales, *modes, **more):
    return Case(
        "interpolate",
        lambda t: ops.interpolate(t, scales, *modes),
        [real(*shape)],
        lambda x: ref.interpolate(x, scales, *modes),
        label,
        grad=(0,),
        tolerance=4,
        special=False,  # the reference multiplies what has no weight by 0
        **more,
    )


_TRANSFORMATIONS = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")

def _bilinear(torch, x):
    return torch.nn.functional.interpolate(x, scale_factor=(2.0, 2.0), mode="bilinear")


_INTERPOLATE = [
    _resized("same", (2, 3, 4, 5), (1.0, 1.0, 1.0, 1.0), dtypes=NUMERIC),
    _resized(
        "nearest",
        (2, 3, 4, 5),
        (1.0, 1.0, 2.0, 3.0),
        dtypes=NUMERIC,
        big=(real(4, 8, 40, 50),),
        peer=lambda torch, x: torch.nn.functional.interpolate(x, scale_factor=(2.0, 3.0)),
        bad=(
            Bad(lambda: ops.interpolate(_ones(2, 2), (1.0, 2.0), "area"), ValueError, "mode.*area.*cubic"),
            Bad(lambda: ops.interpolate(_ones(2), (2.0,), "nearest", "up"), ValueError, "nearest_mode"),
            Bad(
                lambda: ops.interpolate(_ones(2, 2), (1.0, 2.0), "nearest", "floor", "corner"),
                ValueError,
                "coordinate_transformation_mode.*corner",
            ),
            Bad(lambda: ops.interpolate(_ones(2, 2), (1.0,)), ValueError, "one for each of the 2 dimensions"),
            Bad(lambda: ops.interpolate(_ones(2), (-1.0,)), ValueError, "positive"),
            Bad(lambda: ops.interpolate(popxl.variable([1]), (2.0,), "linear"), TypeError, "floating-point"),
        ),
    ),
    _resized("smaller", (7, 6), (0.6, 0.5)),
    _resized("to one", (5, 4), (0.2, 1.0), "linear", "floor", "pytorch_half_pixel"),
    *[
        _resized(mode, (2, 6, 5), (1.0, 1.7, 0.8), "nearest", mode)
        for mode in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ],
    *[
        _resized(f"{mode} {transformation}", (5, 6), (1.6, 2.0), mode, "floor", transformation)
        for mode in ("nearest", "linear", "cubic")
        for transformation in _TRANSFORMATIONS
    ],
    _resized("linear of volumes", (1, 2, 3, 4, 3), (1.0, 1.0, 2.0, 0.75, 1.5), "linear"),
    _resized(
        "bilinear", (1, 2, 3, 3), (1.0, 1.0, 2.0, 2.0), "linear", peer=_bilinear, size=(real(4, 16, 56, 56),)
    ),
    _resized("large cubic", (3, 4), (1.5, 2.5), "cubic", big=(real(60, 70),)),
]

_ROIS = fixed(
    [[0.0, 0.0, 6.0, 8.0], [-4.0, 2.0, 3.0, 2.5], [5.0, 6.0, 30.0, 9.0], [1.0, 1.0, 4.0, 3.0]], "float64"
)


def _regions(label, rois=_ROIS, images=fixed([0, 1, 1, 0], "int32"), **more):
    return Case(
        "roi_align",
        lambda t, r, b: ops.roi_align(t, r, b, (3, 2), 0.75, 2),
        [real(2, 3, 6, 7), rois, images],
        lambda x, r, b: ref.roi_align(x, r, b, (3, 2), 0.75, 2),
        label,
        grad=(0,),
        tolerance=8,
        **more,
    )


def _align(t=(1, 1, 4, 4), rois=(2, 4), images=2, size=(2, 2), samples=1):
    ops.roi_align(_ones(*t), _ones(*rois), popxl.variable(np.zeros(images, "int32")), size, 1.0, samples)


_ROI_ALIGN = [
    _regions(
        "regions",
        big=(real(2, 16, 40, 40), lambda rng: rng.uniform(0, 40, (60, 4)), numbers(60, high=2)),
        bad=(
            Bad(lambda: _align(t=(4, 4)), popart_exception, "4 dimension"),
            Bad(lambda: _align(rois=(2, 5)), popart_exception, "4 columns"),
            Bad(lambda: _align(images=3), popart_exception, "each of the 2 regions"),
            Bad(lambda: _align(size=(2,)), ValueError, "output_size"),
            Bad(lambda: _align(samples=0), ValueError, "sampling_ratio"),
        ),
    ),
    _regions("no image", images=fixed([0, 7, -1, 1], "int32")),
    _regions("no region", rois=lambda rng: np.zeros((0, 4)), images=fixed([], "int32")),
    _regions(
        "no number",
        rois=fixed([[np.nan, 0.0, 6.0, 8.0], [0.0, 0.0, 4.0, np.nan]], "float64"),
        images=fixed([0, 1], "int32"),
    ),
]

CASES = _INTERPOLATE + _ROI_ALIGN
