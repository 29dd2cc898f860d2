"""Which replicas share a value of a variable."""

import enum
from typing import List


class CommGroupType(enum.Enum):
    """Ways to group replicas that older programs name."""

    All = 0
    Consecutive = 1
    Orthogonal = 2
    Ungrouped = 3


#: The grouping in which each replica is alone, by its other name.
setattr(CommGroupType, "None", CommGroupType.Ungrouped)


class CommGroup:
    """Groups of replicas by type and size, as older programs name them."""

    __slots__ = ("replicaGroupSize", "type")

    def __init__(self, type: CommGroupType = CommGroupType.All, replicaGroupSize: int = 0) -> None:
        """Describes groups.

        Args:
            type: How replicas are grouped.
            replicaGroupSize: Number of replicas in a group, where the type leaves it open.
        """
        self.type = type
        self.replicaGroupSize = replicaGroupSize

    def toReplicaGrouping(self, num_replicas: int) -> "ReplicaGrouping":
        """The same groups of so many replicas.

        Args:
            num_replicas: Number of replicas.
        """
        if self.type == CommGroupType.All:
            return ReplicaGrouping(num_replicas, 1, num_replicas)
        if self.type == CommGroupType.Consecutive:
            return ReplicaGrouping(num_replicas, 1, self.replicaGroupSize)
        if self.type == CommGroupType.Orthogonal:
            return ReplicaGrouping(num_replicas, num_replicas // self.replicaGroupSize, self.replicaGroupSize)
        return ReplicaGrouping(num_replicas, 1, 1)


class VariableRetrievalMode(enum.Enum):
    """Which values of a variable are read back."""

    OnePerGroup = 0
    AllReplicas = 2


class ReplicaGrouping:
    """Groups of replicas a constant distance apart."""

    __slots__ = ("_num_replicas", "_stride", "_group_size")

    def __init__(self, num_replicas: int, stride: int, group_size: int) -> None:
        """Describes a grouping.

        Args:
            num_replicas: Number of replicas.
            stride: Distance between members of a group.
            group_size: Number of replicas in a group.
        """
        self._num_replicas = num_replicas
        self._stride = stride
        self._group_size = group_size

    def getNumReplicas(self) -> int:
        """Number of replicas."""
        return self._num_replicas

    def getStride(self) -> int:
        """Distance between members of a group."""
        return self._stride

    def getGroupSize(self) -> int:
        """Number of replicas in a group."""
        return self._group_size

    def getNumGroups(self) -> int:
        """Number of groups."""
        return self._num_replicas // self._group_size


class VariableSettings:
    """Groups of replicas that share a value of a variable, and what is read back."""

    __slots__ = ("_stride", "_group_size", "_retrieval_mode")

    def __init__(
        self,
        stride: int = 1,
        group_size: int = 0,
        retrieval_mode: VariableRetrievalMode = VariableRetrievalMode.OnePerGroup,
    ) -> None:
        """Describes the groups.

        Args:
            stride: Distance between members of a group.
            group_size: Number of replicas in a group; 0 for all.
            retrieval_mode: What is read back.
        """
        self._stride = stride
        self._group_size = group_size
        self._retrieval_mode = retrieval_mode

    def isUsingCommGroup(self) -> bool:
        """Whether the groups are given by a `CommGroupType`; they never are."""
        return False

    def getStride(self) -> int:
        """Distance between members of a group."""
        return self._stride

    def getGroupSize(self) -> int:
        """Number of replicas in a group; 0 for all."""
        return self._group_size

    def getRetrievalMode(self) -> VariableRetrievalMode:
        """What is read back."""
        return self._retrieval_mode

    def numReplicasReturningVariable(self, num_replicas: int) -> int:
        """How many values are read back.

        Args:
            num_replicas: Number of replicas.
        """
        return (
            num_replicas
            if self._retrieval_mode is VariableRetrievalMode.AllReplicas
            else len(self.groups(num_replicas))
        )

    def groups(self, num_replicas: int) -> List[List[int]]:
        """The replicas of each group.

        Args:
            num_replicas: Number of replicas.
        """
        size = self._group_size or num_replicas
        block = self._stride * size
        starts = [start + k for start in range(0, num_replicas, block) for k in range(self._stride)]
        return [[start + i * self._stride for i in range(size)] for start in starts]
