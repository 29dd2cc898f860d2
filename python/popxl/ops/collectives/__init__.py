"""Ops by which the replicas of a program, or the devices of a replica, exchange values."""

from popxl.ops.collectives.all_reduce import (
    all_reduce,
    all_reduce_identical_grad_inputs,
    all_reduce_identical_inputs,
)
from popxl.ops.collectives.collectives import CommGroup, CommGroupType
from popxl.ops.collectives.replicated_all_gather import replicated_all_gather
from popxl.ops.collectives.replicated_all_reduce import (
    replicated_all_reduce,
    replicated_all_reduce_,
)
from popxl.ops.collectives.replicated_exchange import (
    replicated_all_to_all,
    replicated_broadcast,
    replicated_permute,
)
from popxl.ops.collectives.replicated_reduce_scatter import (
    replica_sharded_slice,
    replicated_reduce_scatter,
    replicated_slice,
)

__all__ = [
    "CommGroup",
    "CommGroupType",
    "all_reduce",
    "all_reduce_identical_grad_inputs",
    "all_reduce_identical_inputs",
    "replica_sharded_slice",
    "replicated_all_gather",
    "replicated_all_reduce",
    "replicated_all_reduce_",
    "replicated_all_to_all",
    "replicated_broadcast",
    "replicated_permute",
    "replicated_reduce_scatter",
    "replicated_slice",
]
