"""Where tensors are stored."""

from enum import Enum

from popxl._core import ExecutionContext, TileSet


class TensorStorage(Enum):
    """Memory that a tensor is kept in."""

    OnChip = "OnChip"  #: The device's own memory.
    OffChip = "OffChip"  #: Memory beside the device: a remote buffer.


class ReplicatedTensorSharding(Enum):
    """Whether each replica keeps only its part of a tensor."""

    On = "On"  #: Each replica keeps a shard.
    Off = "Off"  #: Each replica keeps the whole.


class TensorLocation:
    """Storage and sharding of a tensor."""

    __slots__ = ("_storage", "_replicated_tensor_sharding")

    def __init__(
        self,
        storage: TensorStorage = TensorStorage.OnChip,
        replicated_tensor_sharding: ReplicatedTensorSharding = ReplicatedTensorSharding.Off,
    ) -> None:
        """Describes a location.

        Args:
            storage: The memory.
            replicated_tensor_sharding: Whether the tensor is sharded.
        """
        self._storage = storage
        self._replicated_tensor_sharding = replicated_tensor_sharding

    @property
    def storage(self) -> TensorStorage:
        """The memory."""
        return self._storage

    @property
    def replicated_tensor_sharding(self) -> ReplicatedTensorSharding:
        """Whether the tensor is sharded."""
        return self._replicated_tensor_sharding

    def __repr__(self) -> str:
        return f"TensorLocation({self._storage}, {self._replicated_tensor_sharding})"


__all__ = ["ExecutionContext", "ReplicatedTensorSharding", "TensorLocation", "TensorStorage", "TileSet"]
