"""Machine-learning programs as explicit graphs, which a session runs on any machine.

A program is built in an `Ir`: functions of `popxl.ops` add ops to the graph that is entered with `with`,
`Ir.create_graph` makes graphs of functions, `popxl.transforms` rewrites them, and a `Session` compiles and
runs the result.
"""

import importlib as _importlib
import os.path as _path
import typing as _typing

from popxl import _core

_ROOT = _path.dirname(_path.dirname(_path.realpath(__file__)))
_core.set_internal_folders([_path.join(_ROOT, name, "") for name in ("popxl", "popart", "popdist")])

from popxl import context, dtypes, errors, fp8_utils, replica_grouping, tensor  # noqa: E402
from popxl.context import (  # noqa: E402
    gcg,
    get_current_graph,
    get_ir,
    get_main_graph,
    gir,
    gmg,
    in_sequence,
    io_tiles,
    ipu,
    name_scope,
)
from popxl.dtypes import (  # noqa: E402
    bool,
    complex64,
    complex128,
    double,
    dtype,
    float,
    float8_143,
    float8_152,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from popxl.graph import Graph  # noqa: E402
from popxl.ir import Ir  # noqa: E402
from popxl.module import Module  # noqa: E402
from popxl.random_seed import create_seeds  # noqa: E402
from popxl.remote_buffer import RemoteBuffer, remote_buffer  # noqa: E402
from popxl.remote_storage import RemoteStorage  # noqa: E402
from popxl.replica_grouping import ReplicaGrouping  # noqa: E402
from popxl.session import Session  # noqa: E402
from popxl.streams import DeviceToHostStream, HostToDeviceStream, d2h_stream, h2d_stream  # noqa: E402
from popxl.tensor import (  # noqa: E402
    Tensor,
    TensorByRef,
    TensorSpec,
    constant,
    graph_input,
    graph_output,
    remote_replica_sharded_variable,
    remote_variable,
    replica_sharded_buffer,
    replica_sharded_variable,
    variable,
)
from popxl.tensorlocation import (  # noqa: E402
    ExecutionContext,
    ReplicatedTensorSharding,
    TensorLocation,
    TensorStorage,
    TileSet,
)
from popxl import ops, transforms, utils  # noqa: E402  isort: skip
from popxl.custom_ops import custom_op, load_ops  # noqa: E402  isort: skip

__all__ = [
    "DeviceToHostStream",
    "ExecutionContext",
    "Graph",
    "HostToDeviceStream",
    "Ir",
    "Module",
    "RemoteBuffer",
    "RemoteStorage",
    "ReplicaGrouping",
    "ReplicatedTensorSharding",
    "Session",
    "Tensor",
    "TensorByRef",
    "TensorLocation",
    "TensorSpec",
    "TensorStorage",
    "TileSet",
    "bool",
    "complex128",
    "complex64",
    "constant",
    "context",
    "create_seeds",
    "custom_op",
    "d2h_stream",
    "double",
    "dtype",
    "dtypes",
    "errors",
    "float",
    "float16",
    "float32",
    "float64",
    "float8_143",
    "float8_152",
    "fp8_utils",
    "gcg",
    "get_current_graph",
    "get_ir",
    "get_main_graph",
    "gir",
    "gmg",
    "graph_input",
    "graph_output",
    "h2d_stream",
    "half",
    "in_sequence",
    "int16",
    "int32",
    "int64",
    "int8",
    "io_tiles",
    "ipu",
    "load_ops",
    "name_scope",
    "ops",
    "remote_buffer",
    "remote_replica_sharded_variable",
    "remote_variable",
    "replica_grouping",
    "replica_sharded_buffer",
    "replica_sharded_variable",
    "tensor",
    "transforms",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "utils",
    "variable",
]


def __getattr__(name: str) -> _typing.Any:
    """Modules that few programs need, when they are asked for first."""
    if name == "checkpoint":
        return _importlib.import_module("popxl.checkpoint")
    raise AttributeError(f"module 'popxl' has no attribute {name!r}")


def __dir__() -> _typing.List[str]:
    return sorted({*globals(), "checkpoint"})
