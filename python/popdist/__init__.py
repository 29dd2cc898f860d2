"""The part of a process in a run over several: one instance with one replica, unless a launcher started the
process."""

import os
from typing import Any

_TOTAL = "POPDIST_NUM_TOTAL_REPLICAS"
_LOCAL = "POPDIST_NUM_LOCAL_REPLICAS"
_OFFSET = "POPDIST_REPLICA_INDEX_OFFSET"


def _value(name: str, fallback: int) -> int:
    text = os.environ.get(name)
    if text is None:
        return fallback
    if not text.isdigit():
        raise ValueError(f"The environment variable {name} must be a number, not {text!r}.")
    return int(text)


def isPopdistEnvSet() -> bool:
    """Whether a launcher started this process."""
    return _TOTAL in os.environ


def getNumTotalReplicas() -> int:
    """Number of replicas over all instances."""
    return _value(_TOTAL, 1)


def getNumLocalReplicas() -> int:
    """Number of replicas of this instance."""
    return _value(_LOCAL, getNumTotalReplicas())


def getReplicaIndexOffset() -> int:
    """Number of the first replica of this instance."""
    return _value(_OFFSET, 0)


def getNumInstances() -> int:
    """Number of instances."""
    return getNumTotalReplicas() // getNumLocalReplicas()


def getInstanceIndex() -> int:
    """Number of this instance."""
    return getReplicaIndexOffset() // getNumLocalReplicas()


def getNumIpusPerReplica() -> int:
    """Number of devices of a replica."""
    return 1


def configureSessionOptions(options: Any) -> None:
    """Sets the replication that the launcher asked for.

    Args:
        options: Options of an Ir.

    Raises:
        ValueError: The local replicas do not divide the total.
    """
    total, local = getNumTotalReplicas(), getNumLocalReplicas()
    if local < 1 or total % local != 0:
        raise ValueError(f"{local} replicas of this instance do not divide the {total} of all instances.")
    options.enableReplicatedGraphs = local > 1
    options.replicatedGraphCount = local
    if total > local:
        options.enableDistributedReplicatedGraphs = True
        options.globalReplicationFactor = total
        options.globalReplicaOffset = getReplicaIndexOffset()
