"""Groups of replicas."""

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

from popxl.context import gcg

from popart.variable_settings import ReplicaGrouping as _ConstantGrouping
from popart.variable_settings import VariableRetrievalMode, VariableSettings

if TYPE_CHECKING:
    from popxl.ir import Ir

_RETRIEVAL_MODES = {
    None: VariableRetrievalMode.OnePerGroup,
    "one_per_group": VariableRetrievalMode.OnePerGroup,
    "all_replicas": VariableRetrievalMode.AllReplicas,
}


class ReplicaGrouping:
    """A partition of the replicas into groups of one size.

    Made with `Ir.replica_grouping` or `Ir.replica_grouping_from_assignments`. A grouping has a constant
    stride when the members of every group are the same distance apart.
    """

    def __init__(self) -> None:
        """Raises RuntimeError: groupings are made by an Ir."""
        raise RuntimeError("popxl.ReplicaGrouping cannot be constructed directly; use `ir.replica_grouping`.")

    _ir: "Ir"
    _assignment: List[int]
    _stride: Optional[int]
    _group_size: int
    _num_groups: int
    #: The coarsest grouping of constant stride whose groups lie within those of this one; itself if it is
    #: constant.
    const_rg: "ReplicaGrouping"
    #: For each group of `const_rg` the group of this one around it; None if this one is constant.
    to_device_map: Optional[List[int]]
    #: For each group of this one the first group of `const_rg` inside; None if this one is constant.
    to_host_map: Optional[List[int]]

    @classmethod
    def _make(cls, ir: "Ir", assignment: List[int], stride: Optional[int]) -> "ReplicaGrouping":
        self = object.__new__(cls)
        self._ir = ir
        self._assignment = assignment
        self._stride = stride
        self._num_groups = max(assignment) + 1
        self._group_size = len(assignment) // self._num_groups
        self.const_rg = self
        self.to_device_map = self.to_host_map = None
        return self

    @classmethod
    def _from_params(cls, ir: "Ir", stride: int = 1, group_size: Optional[int] = None) -> "ReplicaGrouping":
        replicas = ir.replication_factor
        if not 0 < stride <= replicas or replicas % stride != 0:
            raise ValueError(
                f"The stride of a grouping of {replicas} replicas must be a divisor of {replicas}, not "
                f"{stride}."
            )
        if group_size is None:
            group_size = replicas // stride
        if not 0 < group_size <= replicas or replicas % group_size != 0:
            raise ValueError(
                f"The group size of a grouping of {replicas} replicas must be a divisor of {replicas}, not "
                f"{group_size}."
            )
        stride = int(stride) if group_size > 1 else 1
        if replicas % (stride * group_size) != 0:
            raise ValueError(
                f"Groups of {group_size} replicas with stride {stride} do not partition {replicas} replicas: "
                f"{stride} * {group_size} must be a divisor of {replicas}."
            )
        return cls._make(ir, _constant_assignment(replicas, stride, int(group_size)), stride)

    @classmethod
    def _from_assignment(cls, ir: "Ir", assignment: Sequence[int]) -> "ReplicaGrouping":
        assignment = [int(group) for group in assignment]
        _check_assignment(assignment, ir.replication_factor)
        gaps = _gaps(assignment)
        group_size = assignment.count(0)
        if not gaps:
            return cls._from_params(ir, 1, group_size)
        if len(gaps) == 1:
            (stride,) = gaps
            if assignment == _try_constant(len(assignment), stride, group_size):
                return cls._make(ir, assignment, stride)
        self = cls._make(ir, assignment, None)
        self.const_rg = cls._refinement(ir, assignment, min(gaps), group_size)
        own_of_const: Dict[int, int] = {}
        const_of_own: Dict[int, int] = {}
        for const, own in zip(self.const_rg.assignment, assignment):
            own_of_const.setdefault(const, own)
            const_of_own.setdefault(own, const)
        self.to_device_map = [own_of_const[const] for const in sorted(own_of_const)]
        self.to_host_map = [const_of_own[own] for own in sorted(const_of_own)]
        return self

    @classmethod
    def _refinement(cls, ir: "Ir", assignment: List[int], stride: int, largest: int) -> "ReplicaGrouping":
        """The grouping of this stride with the largest groups that each lie in one group of the
        assignment."""
        for size in range(largest, 1, -1):
            const = _try_constant(len(assignment), stride, size)
            if const is not None and len(set(zip(const, assignment))) == max(const) + 1:
                return cls._make(ir, const, stride)
        return cls._from_params(ir, 1, 1)

    def _require_const(self, what: str) -> None:
        if not self.is_const:
            raise NotImplementedError(
                f"{self} has no constant stride and therefore no {what}; `const_rg` is a grouping within it "
                "that has one."
            )

    @property
    def _pb_replica_grouping(self) -> _ConstantGrouping:
        self._require_const("lower-level equivalent")
        return _ConstantGrouping(len(self._assignment), self.stride, self._group_size)

    @property
    def stride(self) -> int:
        """Distance between the members of a group; 1 if a group has one member.

        Raises:
            NotImplementedError: It is not the same everywhere.
        """
        self._require_const("stride")
        return self._stride  # type: ignore[return-value]

    @property
    def group_size(self) -> int:
        """Number of replicas in each group."""
        return self._group_size

    @property
    def num_groups(self) -> int:
        """Number of groups."""
        return self._num_groups

    @property
    def assignment(self) -> List[int]:
        """The group of each replica: for 8 replicas with stride 2 and group size 4, [0, 1, 0, 1, 0, 1, 0,
        1]."""
        return self._assignment

    @property
    def is_const(self) -> bool:
        """Whether the stride is constant."""
        return self._stride is not None

    def transpose(self) -> "ReplicaGrouping":
        """The grouping whose first group holds the first member of each group here, the second the second,
        and so on.

        For example [0, 1, 0, 1, 2, 3, 2, 3] gives [0, 0, 1, 1, 0, 0, 1, 1]. The result may have no constant
        stride.
        """
        return ReplicaGrouping._from_assignment(self._ir, self.places)

    @property
    def places(self) -> List[int]:
        """For each replica its place in its group, from 0 up."""
        seen = [0] * self._num_groups
        places = []
        for group in self._assignment:
            places.append(seen[group])
            seen[group] += 1
        return places

    def __repr__(self) -> str:
        if not self.is_const:
            return f"ReplicaGrouping(assignment={self._assignment})"
        return (
            f"ReplicaGrouping(num_replicas={len(self._assignment)}, stride={self._stride}, "
            f"group_size={self._group_size}, num_groups={self._num_groups})"
        )

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, ReplicaGrouping):
            raise TypeError(
                f"A popxl.ReplicaGrouping can't be compared with {other!r} of type {type(other)}."
            )
        return self._ir == other._ir and self._assignment == other._assignment

    def __hash__(self) -> int:
        return hash((self._ir.id, tuple(self._assignment)))

    def _to_variable_settings(self, retrieval_mode: Optional[str] = None) -> VariableSettings:
        self._require_const("variable settings")
        return VariableSettings(self.stride, self._group_size, retrieval_mode_of(retrieval_mode))


def retrieval_mode_of(name: Optional[str]) -> VariableRetrievalMode:
    """The retrieval mode of a name; None means one value a group.

    Raises:
        ValueError: There is no such mode.
    """
    if name not in _RETRIEVAL_MODES:
        raise ValueError(f'retrieval_mode must be "one_per_group", "all_replicas" or None, not {name!r}.')
    return _RETRIEVAL_MODES[name]


def _constant_assignment(replicas: int, stride: int, group_size: int) -> List[int]:
    """Groups of a constant stride, numbered by their first member."""
    block = stride * group_size
    return [replica // block * stride + replica % block % stride for replica in range(replicas)]


def _try_constant(replicas: int, stride: int, group_size: int) -> Optional[List[int]]:
    if replicas % (stride * group_size) != 0:
        return None
    return _constant_assignment(replicas, stride, group_size)


def _gaps(assignment: List[int]) -> set:
    """All distances between consecutive members of a group."""
    last: Dict[int, int] = {}
    gaps = set()
    for replica, group in enumerate(assignment):
        if group in last:
            gaps.add(replica - last[group])
        last[group] = replica
    return gaps


def _check_assignment(assignment: List[int], replicas: int) -> None:
    if len(assignment) != replicas:
        raise ValueError(f"The assignment has {len(assignment)} entries; there are {replicas} replicas.")
    first_seen = list(dict.fromkeys(assignment))
    if first_seen != list(range(len(first_seen))):
        raise ValueError(
            f"Groups must be numbered 0, 1, 2, ... in the order in which they first appear, not {first_seen}."
        )
    sizes = [assignment.count(group) for group in first_seen]
    if len(set(sizes)) != 1:
        raise ValueError(f"All groups must have the same size; the sizes of groups {first_seen} are {sizes}.")


def grouping_of(group: Optional[ReplicaGrouping]) -> ReplicaGrouping:
    """The grouping itself; all replicas as one group for None.

    Args:
        group: A grouping of the current Ir, or None.

    Raises:
        TypeError: It is something else.
        ValueError: It belongs to another Ir, or the number of replicas has changed since it was made.
    """
    ir = gcg().ir
    if group is None:
        return ir.replica_grouping()
    if not isinstance(group, ReplicaGrouping):
        raise TypeError(f"A grouping must be a popxl.ReplicaGrouping; it is {group!r} of type {type(group)}.")
    if group._ir != ir:
        raise ValueError(f"{group} belongs to another Ir than the current graph.")
    if len(group.assignment) != ir.replication_factor:
        raise ValueError(f"{group} is of {len(group.assignment)} replicas; there are {ir.replication_factor}.")
    return group
