"""Powers of two that float8 arithmetic does not have are found when a program runs."""

import numpy as np
import pytest

import popxl
from popart import poplar_application_runtime_error
from popxl import ops


def _matmul(scale):
    t = popxl.variable(np.ones((2, 2)), popxl.float8_143)
    return ops.matmul_pow2scaled(t, t, scale)


def _conv(function):
    def run(scale):
        t = popxl.variable(np.ones((1, 1, 2, 2)), popxl.float8_143)
        return function(t, t, scale)

    return run


_OPS = {
    "to float8": lambda s: ops.pow2scale_cast_to_fp8(popxl.variable([1.0, 2.0]), s, popxl.float8_143),
    "from float8": lambda s: ops.pow2scale_cast_from_fp8(
        popxl.variable([1.0], popxl.float8_152), s, popxl.float16
    ),
    "matmul": _matmul,
    "conv": _conv(ops.conv_pow2scaled),
    "conv_transpose": _conv(ops.conv_transpose_pow2scaled),
}


def _followed(scale):
    t = popxl.variable(np.ones((64, 64)), popxl.float8_143)
    return ops.matmul_pow2scaled(t, t, scale) + 1


_OPS["matmul followed by an addition"] = _followed


@pytest.mark.parametrize("reference", [False, True], ids=["compiled", "reference"])
@pytest.mark.parametrize("call", _OPS.values(), ids=list(_OPS))
def test_power_out_of_range(call, reference):
    ir = popxl.Ir()
    with ir.main_graph:
        power = popxl.h2d_stream((), popxl.int32, "power")
        out = call(ops.host_load(power, "given"))
        result = popxl.d2h_stream(out.shape, out.dtype)
        ops.host_store(result, out)
    with popxl.Session(ir, "cpu", reference=reference) as session:
        for good in (-32, 31, 0):
            session.run({power: good})
        for bad in (-33, 32, 100):
            message = rf"the power of two `given_hostload` is {bad}; it must be in \[-32, 32\)"
            with pytest.raises(poplar_application_runtime_error, match=message):
                session.run({power: bad})
            session.weights_from_host()
        session.run({power: 1})
    ir._pb_ir.getSessionOptions().throwIfLog2ScaleTensorNotInRange = False
    with popxl.Session(ir, "cpu", reference=reference) as session:
        session.run({power: 40})
