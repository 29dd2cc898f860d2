"""What programs over several instances set up for a session."""

from popart.device import DeviceInfo

from popdist import configureSessionOptions, getNumIpusPerReplica, getNumLocalReplicas

__all__ = ["configureSessionOptions", "getDevice"]


def getDevice(ipus_per_replica: int = 0) -> DeviceInfo:
    """Returns the devices of this instance.

    Args:
        ipus_per_replica: Number of devices of a replica; 0 for what the launcher said.
    """
    return DeviceInfo("ipu_hw", (ipus_per_replica or getNumIpusPerReplica()) * getNumLocalReplicas())
