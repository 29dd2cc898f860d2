"""Ops: each function adds to the current graph what its name says, and returns the results."""

from popxl.ops import collectives, var_updates
from popxl.ops._generated import *  # noqa: F403  (the ops that need no Python of their own)
from popxl.ops._generated import __all__ as _generated_names
from popxl.ops._generated import clip
from popxl.ops.arithmetic import log2, pow, scaled_add, scaled_add_
from popxl.ops.call import CallSiteInfo, call, call_with_info
from popxl.ops.casting import cast, pow2scale_cast_from_fp8, pow2scale_cast_to_fp8
from popxl.ops.conditional import ConditionalSiteInfo, conditional, conditional_with_info
from popxl.ops.conv import (
    PadType,
    conv,
    conv_pow2scaled,
    conv_transpose,
    conv_transpose_pow2scaled,
)
from popxl.ops.host_io import host_load, host_store, init, print_tensor
from popxl.ops.linear import matmul, matmul_pow2scaled
from popxl.ops.logic import isfinite, logical_and, logical_not, logical_or, where
from popxl.ops.negative_log_likelihood import nll_loss_with_softmax_grad
from popxl.ops.normalization import group_norm, layer_norm
from popxl.ops.placement import io_tile_copy, ipu_copy, remote_code_load
from popxl.ops.randomness import split_random_seed
from popxl.ops.reductions import cumsum, median
from popxl.ops.remote import remote_load, remote_load_, remote_store
from popxl.ops.repeat import repeat, repeat_with_info, scan, while_loop
from popxl.ops.scattering import scatter_reduce
from popxl.ops.shaping import (
    concat,
    concat_,
    flatten,
    flatten_,
    identity,
    rename,
    reshape,
    reshape_,
    slice,
    slice_,
    split,
    squeeze,
    subsample,
    transpose,
    transpose_,
)

clamp = clip

__all__ = [
    *_generated_names,
    "CallSiteInfo",
    "ConditionalSiteInfo",
    "PadType",
    "call",
    "call_with_info",
    "cast",
    "clamp",
    "collectives",
    "concat",
    "concat_",
    "conditional",
    "conditional_with_info",
    "conv",
    "conv_pow2scaled",
    "conv_transpose",
    "conv_transpose_pow2scaled",
    "cumsum",
    "flatten",
    "flatten_",
    "group_norm",
    "host_load",
    "host_store",
    "identity",
    "init",
    "io_tile_copy",
    "ipu_copy",
    "isfinite",
    "layer_norm",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "matmul",
    "matmul_pow2scaled",
    "median",
    "nll_loss_with_softmax_grad",
    "pow",
    "pow2scale_cast_from_fp8",
    "pow2scale_cast_to_fp8",
    "print_tensor",
    "remote_code_load",
    "rename",
    "remote_load",
    "remote_load_",
    "remote_store",
    "repeat",
    "repeat_with_info",
    "scan",
    "while_loop",
    "reshape",
    "reshape_",
    "scaled_add",
    "scaled_add_",
    "scatter_reduce",
    "slice",
    "slice_",
    "split",
    "split_random_seed",
    "squeeze",
    "subsample",
    "transpose",
    "transpose_",
    "var_updates",
    "where",
]
