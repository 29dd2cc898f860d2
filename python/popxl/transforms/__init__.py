"""Transforms of graphs, which a program applies while it is built."""

from popxl.transforms.autodiff import ExpectedConnection, ExpectedConnectionType, GradGraphInfo, autodiff
from popxl.transforms.decompose_sum import decompose_sum
from popxl.transforms.merge_exchange import io_tile_exchange, merge_exchange
from popxl.transforms.passes import pass_names, run_pass
from popxl.transforms.recompute import recompute
from popxl.transforms.surgery import (
    add_output,
    clone_graph,
    copy_ops,
    make_grad_info,
    outline_main,
    remove_output,
    replace_uses,
)

__all__ = [
    "ExpectedConnection",
    "ExpectedConnectionType",
    "GradGraphInfo",
    "add_output",
    "autodiff",
    "clone_graph",
    "copy_ops",
    "decompose_sum",
    "io_tile_exchange",
    "make_grad_info",
    "merge_exchange",
    "outline_main",
    "pass_names",
    "recompute",
    "remove_output",
    "replace_uses",
    "run_pass",
]
