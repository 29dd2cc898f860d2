"""Devices. All kinds run on the CPU; the kind and number are what a session was made for."""

import enum
from typing import Any, List, Mapping, Optional

#: How many devices of the kind "ipu_hw" there are to be had at once.
_HARDWARE_DEVICES = 64


class DeviceType(enum.Enum):
    """Kinds of devices."""

    Cpu = "cpu"
    IpuModel = "ipu_model"
    Ipu = "ipu_hw"


class SyncPattern(enum.Enum):
    """How devices wait for each other; accepted and without effect."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class DeviceConnectionType(enum.Enum):
    """When a device is taken; accepted and without effect."""

    Always = 0
    OnDemand = 1
    Never = 2


class DeviceSelectionCriterion(enum.Enum):
    """Which of several devices is taken; accepted and without effect."""

    First = 0
    Random = 1


class DeviceInfo:
    """A device to run on. As a context manager it is detached at the end; it is not attached at the
    beginning."""

    def __init__(self, kind: str, num_ipus: int = 1) -> None:
        """Describes a device.

        Args:
            kind: "cpu", "ipu_model" or "ipu_hw".
            num_ipus: Number of devices that it stands for.
        """
        self._kind = kind
        self._num_ipus = num_ipus
        self._attached = False

    @property
    def isAttached(self) -> bool:
        """Whether it is taken."""
        return self._attached

    @property
    def type(self) -> DeviceType:
        """Its kind."""
        return DeviceType(self._kind)

    @property
    def numIpus(self) -> int:
        """Number of devices that it stands for."""
        return self._num_ipus

    @property
    def id(self) -> int:
        """Number of the device."""
        return 0

    def attach(self) -> bool:
        """Takes the device; returns whether it is taken."""
        self._attached = True
        return True

    def tryAttachUntilTimeout(self) -> bool:
        """Takes the device; returns whether it is taken."""
        return self.attach()

    def detach(self) -> None:
        """Gives the device back."""
        self._attached = False

    def __enter__(self) -> "DeviceInfo":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.detach()

    def __repr__(self) -> str:
        return f"DeviceInfo(kind={self._kind!r}, numIpus={self._num_ipus})"


class DeviceManager:
    """Makes devices."""

    def createCpuDevice(self) -> DeviceInfo:
        """A device of the kind "cpu"."""
        return DeviceInfo("cpu")

    def createIpuModelDevice(self, options: Optional[Mapping[str, Any]] = None) -> DeviceInfo:
        """A device of the kind "ipu_model".

        Args:
            options: "numIPUs": number of devices that it stands for. Others have no effect.
        """
        return DeviceInfo("ipu_model", int((options or {}).get("numIPUs", 1)))

    def createSimDevice(self, options: Optional[Mapping[str, Any]] = None) -> DeviceInfo:
        """The same as `createIpuModelDevice`."""
        return self.createIpuModelDevice(options)

    def acquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: Optional[int] = None,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo:
        """A device of the kind "ipu_hw".

        Args:
            numIpus: Number of devices that it stands for.
            tilesPerIpu: Without effect.
            pattern: Without effect.
            connectionType: With `Always` the device is attached.
            selectionCriterion: Without effect.
        """
        device = DeviceInfo("ipu_hw", numIpus)
        if connectionType is DeviceConnectionType.Always:
            device.attach()
        return device

    def setOnDemandAttachTimeout(self, seconds: int) -> None:
        """Accepted; a device is never waited for.

        Args:
            seconds: Not used.
        """

    def enumerateDevices(self, numIpus: int = 1, **_: Any) -> List[DeviceInfo]:
        """The devices of the kind "ipu_hw" that stand for a number of devices.

        Args:
            numIpus: The number.
        """
        return [DeviceInfo("ipu_hw", numIpus)] if 0 < numIpus <= _HARDWARE_DEVICES else []
