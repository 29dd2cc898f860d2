"""The part of a process in a run over several: one instance with all replicas, unless `poprun` started it.

An instance is a process with `getNumLocalReplicas()` of the replicas; all instances run the same program.
"""

import os

from popxl import _core

from popdist import _environment as _env


def isPopdistEnvSet() -> bool:
    """Whether a launcher started this process."""
    return _env.TOTAL in os.environ


def init() -> None:
    """Joins the other instances. Nothing happens where there is one, or when this was done before.

    A Session over several instances does it too. Ends when the process ends.

    Raises:
        RuntimeError: MPI is missing, or this process and the launcher disagree on the number of instances.
    """
    if getNumInstances() > 1:
        _core.join_cluster(getNumInstances(), getInstanceIndex())


initializeBackend = init


def isBackendInitialized() -> bool:
    """Whether this instance has joined the others."""
    return _core.in_cluster()


def synchronize() -> None:
    """Waits until every instance has called it."""
    if getNumInstances() > 1:
        init()
        _core.synchronize_cluster()


def getNumTotalReplicas() -> int:
    """Number of replicas over all instances."""
    return _env.value(_env.TOTAL, 1)


def getNumLocalReplicas() -> int:
    """Number of replicas of this instance."""
    return _env.value(_env.LOCAL, getNumTotalReplicas())


def getReplicaIndexOffset() -> int:
    """Number of the first replica of this instance."""
    return _env.value(_env.OFFSET, 0)


def getNumInstances() -> int:
    """Number of instances.

    Raises:
        ValueError: The local replicas do not divide the total.
    """
    total, local = getNumTotalReplicas(), getNumLocalReplicas()
    if local < 1 or total % local != 0:
        raise ValueError(f"{local} replicas of this instance do not divide the {total} of all instances.")
    return total // local


def getInstanceIndex() -> int:
    """Number of this instance."""
    return getReplicaIndexOffset() // getNumLocalReplicas()


def getLocalInstanceIndex() -> int:
    """Number of this instance among those on its host."""
    return _env.value(_env.LOCAL_INSTANCE, 0)


def getNumIpusPerReplica() -> int:
    """Number of devices of a replica."""
    return _env.value(_env.IPUS, 1)


def checkNumIpusPerReplica(expected: int) -> bool:
    """Whether a replica has `expected` devices."""
    return getNumIpusPerReplica() == expected


def configureSessionOptions(options: "_core.SessionOptions") -> None:
    """Sets the replication that the launcher asked for.

    Args:
        options: Options of an Ir.

    Raises:
        ValueError: The local replicas do not divide the total.
    """
    total, local = getNumTotalReplicas(), getNumLocalReplicas()
    instances = getNumInstances()
    options.enableReplicatedGraphs = local > 1
    options.replicatedGraphCount = local
    if instances > 1:
        options.enableDistributedReplicatedGraphs = True
        options.globalReplicationFactor = total
        options.globalReplicaOffset = getReplicaIndexOffset()


from popdist import popart  # noqa: E402, F401
