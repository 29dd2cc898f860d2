"""Functions that make variables, constants and graph inputs; public as names of `popxl` and
`popxl.tensor`."""

from typing import TYPE_CHECKING, Iterable, List, Optional, Tuple

import numpy as np

from popxl import _core, dtypes
from popxl.context import _check_name, _execution_context, gcg, gmg
from popxl.replica_grouping import ReplicaGrouping, grouping_of, retrieval_mode_of
from popxl.tensor import Constant, Tensor, Variable
from popxl.utils import to_numpy

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.remote_buffer import RemoteBuffer
    from popxl.tensor import HostScalarTensor


def variable(
    data: "HostScalarTensor",
    dtype: Optional[dtypes.dtype] = None,
    name: Optional[str] = None,
    downcast: bool = True,
    replica_grouping: Optional[ReplicaGrouping] = None,
    retrieval_mode: Optional[str] = None,
    log2_scale: Optional[int] = None,
    nan_on_overflow: Optional[bool] = None,
) -> Variable:
    """Makes a variable: a tensor whose value the host sets and reads and the program changes.

    Variables live in the main graph. A `np.memmap` is used where it lies, without a copy, and is updated when
    weights are transferred to the host; one that is read-only switches this transfer off for the whole Ir.

    Args:
        data: Its value: a number, nested lists, an array or a PyTorch tensor. With more than one replica
            group, one value for each in a first dimension.
        dtype: Its element type; by default that of the data. Needed for float8 unless the data has it.
        name: Its name; made unique.
        downcast: Without `dtype`, 64-bit data becomes 32-bit.
        replica_grouping: Groups of replicas that share a value; by default one group of all.
        retrieval_mode: What a session reads back: "one_per_group" (default) or "all_replicas".
        log2_scale: For float8: the data is multiplied by 2**log2_scale first.
        nan_on_overflow: For float8: what is too large becomes NaN (default) instead of the largest number.

    Returns:
        The variable, of the data's shape without the dimension of groups.

    Raises:
        ValueError: The current graph is not the main graph, the data does not have one value for each group,
            or a `np.memmap` would have to be copied.
        RuntimeError: No graph is entered.

    Examples:
        >>> popxl.variable(np.zeros((3, 2)), name="w")
        Variable[w popxl.dtypes.float32 (3, 2)]
        >>> popxl.variable(7, popxl.uint32, name="count")
        Variable[count popxl.dtypes.uint32 ()]
    """
    graph = gcg()
    _require_main(graph)
    ir = graph.ir
    grouping = grouping_of(replica_grouping)
    mode = retrieval_mode_of(retrieval_mode)
    is_memmap = isinstance(data, np.memmap)
    array = to_numpy(data, dtype, downcast, not is_memmap, log2_scale, nan_on_overflow)
    if is_memmap and not grouping.is_const:
        _core.log_warn(
            f"Variable {name or 't'}: you have passed np.memmap data and a non-const replica grouping. The "
            "values are "
            "copied, and the variable is treated as if it were made of an ordinary array."
        )
        is_memmap, array = False, np.array(array)
    groups = grouping.num_groups
    shape = array.shape if groups == 1 else array.shape[1:]
    if groups > 1 and array.shape[:1] != (groups,):
        raise ValueError(
            f"The variable has {groups} replica groups; its data needs one value for each in the first "
            "dimension, and has "
            f"shape {array.shape}."
        )
    element = dtypes.dtype.as_dtype(array.dtype)
    made = _core.add_variable(graph._pb_graph, _check_name(name) or "t", shape, element, array, groups)
    all_replicas = mode.name == "AllReplicas"
    made.set_groups(grouping.assignment if groups > 1 else [], groups, all_replicas)
    ir._groupings[made] = grouping
    if is_memmap:
        ir._memmaps[made] = array
        ir._has_read_only_memmap |= not array.flags.writeable
    return Tensor._from_pb_tensor(made)


def _require_main(graph: "Graph") -> None:
    if graph.id:
        raise ValueError(
            f"A variable can't be made in graph {graph.id}: variables live in the main graph. Give the graph "
            "an input for "
            "it (`popxl.graph_input`), or make a constant (`popxl.constant`)."
        )


def remote_variable(
    data: "HostScalarTensor",
    remote_buffer: "RemoteBuffer",
    offset: int = 0,
    dtype: Optional[dtypes.dtype] = None,
    name: Optional[str] = None,
    downcast: bool = True,
    replica_grouping: Optional[ReplicaGrouping] = None,
    retrieval_mode: Optional[str] = "one_per_group",
    log2_scale: Optional[int] = None,
    nan_on_overflow: Optional[bool] = None,
) -> Variable:
    """Makes a variable that is kept in a remote buffer; programs reach it with `ops.remote_load` and
    `remote_store`.

    Args:
        data: Its value, as for `variable`.
        remote_buffer: The buffer.
        offset: Entry of the buffer.
        dtype: As for `variable`.
        name: As for `variable`.
        downcast: As for `variable`.
        replica_grouping: As for `variable`.
        retrieval_mode: As for `variable`.
        log2_scale: As for `variable`.
        nan_on_overflow: As for `variable`.

    Returns:
        The variable, for a session's methods that read and write data; no op can use it.

    Raises:
        ValueError: As for `variable`. A Session raises it when the buffer holds tensors of another shape or
            dtype.
    """
    made = variable(
        data, dtype, name, downcast, replica_grouping, retrieval_mode, log2_scale, nan_on_overflow
    )
    _place(made, remote_buffer, offset, [])
    return made


def _place(made: Variable, buffer: "RemoteBuffer", offset: int, shards: List[int]) -> None:
    made.ir._remote_locations[made._pb_tensor] = (buffer.remote_buffer_id, offset, bool(shards))
    made._pb_tensor.set_remote(buffer.remote_buffer_id, offset, shards)


def _number_of_shards(elements: int, buffer: "RemoteBuffer", grouping: ReplicaGrouping) -> int:
    """In how many shards a value is kept: as many as the buffer was made for, else as its size says, of several
    possible numbers the largest."""
    if buffer._shards is not None:
        return buffer._shards
    size = max(1, int(np.prod(buffer.tensor_shape, dtype=np.int64)))
    fitting = [
        n
        for n in range(1, grouping.group_size + 1)
        if grouping.group_size % n == 0 and -(-elements // n) == size
    ]
    return max(fitting, default=-(-elements // size) or 1)


def remote_replica_sharded_variable(
    data: "HostScalarTensor",
    remote_buffer: "RemoteBuffer",
    offset: int = 0,
    dtype: Optional[dtypes.dtype] = None,
    name: Optional[str] = None,
    downcast: bool = True,
    replica_grouping: Optional[ReplicaGrouping] = None,
    retrieval_mode: Optional[str] = "one_per_group",
    log2_scale: Optional[int] = None,
    nan_on_overflow: Optional[bool] = None,
) -> Variable:
    """Makes a variable that is kept in a remote buffer in shards, one a replica.

    `ops.remote_load` gives each replica its shard; an all-gather makes the whole of them.

    Args:
        data: Its whole value, as for `variable`.
        remote_buffer: The buffer; its `meta_shape` becomes the shape of the whole.
        offset: Entry of the buffer.
        dtype: As for `variable`.
        name: As for `variable`.
        downcast: As for `variable`.
        replica_grouping: As for `variable`.
        retrieval_mode: As for `variable`.
        log2_scale: As for `variable`.
        nan_on_overflow: As for `variable`.

    Returns:
        The whole variable, for a session's methods that read and write data; no op can use it.

    Raises:
        ValueError: There is one replica only, the buffer holds shards of another shape, or as for `variable`.
    """
    replicas = gcg().ir.replication_factor
    if replicas <= 1:
        raise ValueError(
            f"A replica sharded variable needs more than one replica; the replication factor is {replicas}."
        )
    is_memmap = isinstance(data, np.memmap)
    array = data if is_memmap else to_numpy(data, dtype, downcast, False, log2_scale, nan_on_overflow)
    grouping = grouping_of(replica_grouping)
    groups = grouping.num_groups
    whole = array.shape[1:] if groups > 1 else array.shape
    if remote_buffer.meta_shape not in ((), whole):
        raise ValueError(
            f"Remote buffer {remote_buffer.remote_buffer_id} holds shards of tensors of shape "
            f"{remote_buffer.meta_shape}; "
            f"this variable has shape {whole}."
        )
    made = variable(array, dtype, name, downcast, grouping, retrieval_mode)
    remote_buffer.meta_shape = whole
    shards = _number_of_shards(int(np.prod(whole, dtype=np.int64)), remote_buffer, grouping.const_rg)
    _place(made, remote_buffer, offset, [place % shards for place in grouping.places])
    return made


def replica_sharded_buffer(
    shape: Tuple[int, ...],
    dtype: dtypes.dtype,
    replica_grouping: Optional[ReplicaGrouping] = None,
    shard_over: Optional[int] = None,
    entries: int = 1,
) -> "RemoteBuffer":
    """Makes a remote buffer for shards of variables.

    Args:
        shape: Shape of a variable's data, with the dimension of groups if there is more than one.
        dtype: Its element type.
        replica_grouping: Its groups of replicas; by default one group of all.
        shard_over: Number of replicas that a value is spread over; by default the whole group. With fewer,
            the value is there several times in the group.
        entries: How many variables the buffer holds.

    Returns:
        A buffer of flat shards of ceil(elements / shard_over) elements, with `meta_shape` set.

    Raises:
        ValueError: `shard_over` is no divisor of the group size.
    """
    from popxl.remote_buffer import RemoteBuffer

    grouping = grouping_of(replica_grouping).const_rg
    shards = grouping.group_size if shard_over is None else shard_over
    if shards < 1 or shards > grouping.group_size or grouping.group_size % shards != 0:
        raise ValueError(
            f"A value can be sharded over a divisor of the group's {grouping.group_size} replicas, not over "
            f"{shards}. "
            "Without a replica grouping all replicas are one group."
        )
    whole = tuple(shape[1:] if grouping.num_groups > 1 else shape)
    elements = int(np.prod(whole, dtype=np.int64))
    buffer = RemoteBuffer((-(-elements // shards),), dtype, entries)
    buffer.meta_shape = whole
    buffer._shards = shards
    return buffer


def replica_sharded_variable(
    data: "HostScalarTensor",
    dtype: Optional[dtypes.dtype] = None,
    name: Optional[str] = None,
    downcast: bool = True,
    replica_grouping: Optional[ReplicaGrouping] = None,
    shard_over: Optional[int] = None,
    retrieval_mode: Optional[str] = "one_per_group",
    log2_scale: Optional[int] = None,
    nan_on_overflow: Optional[bool] = None,
) -> Tuple[Variable, Tensor]:
    """Makes a variable of which each replica keeps a shard.

    Args:
        data: Its whole value, as for `variable`.
        dtype: As for `variable`.
        name: As for `variable`.
        downcast: As for `variable`.
        replica_grouping: As for `variable`.
        shard_over: As for `replica_sharded_buffer`.
        retrieval_mode: As for `variable`.
        log2_scale: As for `variable`.
        nan_on_overflow: As for `variable`.

    Returns:
        The whole variable, for a session's methods that read and write data, and the shard, for ops.

    Raises:
        ValueError: As for `remote_replica_sharded_variable` and `replica_sharded_buffer`.
    """
    from popxl import ops

    is_memmap = isinstance(data, np.memmap)
    array = data if is_memmap else to_numpy(data, dtype, downcast, False, log2_scale, nan_on_overflow)
    element = dtypes.dtype.as_dtype(array.dtype) if dtype is None else dtype
    buffer = replica_sharded_buffer(array.shape, element, replica_grouping, shard_over)
    whole = remote_replica_sharded_variable(
        array, buffer, 0, dtype, name, downcast, replica_grouping, retrieval_mode
    )
    with gmg():
        with _execution_context(_core.ExecutionContext.WeightsFromHostFragment):
            shard = ops.remote_load(buffer, 0, whole.name + "_rts")
        with _execution_context(_core.ExecutionContext.WeightsToHostFragment):
            ops.remote_store(buffer, 0, shard)
    return whole, shard


def constant(
    data: "HostScalarTensor",
    dtype: Optional[dtypes.dtype] = None,
    name: Optional[str] = None,
    downcast: bool = True,
    log2_scale: Optional[int] = None,
    nan_on_overflow: Optional[bool] = None,
) -> Constant:
    """Makes a constant in the current graph.

    Args:
        data: Its value: a number, nested lists, an array or a PyTorch tensor.
        dtype: Its element type; by default that of the data. Needed for float8.
        name: Its name; made unique.
        downcast: Without `dtype`, 64-bit data becomes 32-bit.
        log2_scale: For float8: the data is multiplied by 2**log2_scale first.
        nan_on_overflow: For float8: what is too large becomes NaN (default) instead of the largest number.

    Returns:
        The constant, of the data's shape.

    Raises:
        TypeError: The data is float8 and `dtype` is not given.
        RuntimeError: No graph is entered.
    """
    graph = gcg()
    if dtype is None and getattr(data, "dtype", None) in _FLOAT8_ARRAYS:
        raise TypeError(
            "A constant made of float8 data needs its `dtype`: popxl.float8_143 or popxl.float8_152."
        )
    array = to_numpy(data, dtype, downcast, True, log2_scale, nan_on_overflow)
    element = dtypes.dtype.as_dtype(array.dtype) if dtype is None else dtype
    return Tensor._from_pb_tensor(
        _core.add_constant(graph._pb_graph, _check_name(name) or "t", array.shape, element, array)
    )


_FLOAT8_ARRAYS = (dtypes.np_dtype_float8_143, dtypes.np_dtype_float8_152)


def graph_input(
    shape: Iterable[int],
    dtype: dtypes.dtype,
    name: Optional[str] = None,
    by_ref: bool = False,
    meta_shape: Optional[Iterable[int]] = None,
) -> Tensor:
    """Adds an input to the current graph; every call of the graph has to provide a tensor for it.

    Args:
        shape: Its shape.
        dtype: Its element type.
        name: Its name; made unique.
        by_ref: Whether it is passed by reference: what the graph does to it reaches the caller's tensor.
        meta_shape: For a shard, shape of the whole.

    Returns:
        The input.

    Raises:
        TypeError: The shape is no sequence of integers, or the dtype none of `popxl.dtypes`.
        RuntimeError: No graph is entered.
    """
    graph = gcg()
    made = Tensor._from_pb_tensor(
        _core.add_input(
            graph._pb_graph,
            _check_name(name) or "t",
            dtypes._check_shape(shape),
            dtypes._check_dtype(dtype),
            by_ref,
            dtypes._check_shape(meta_shape or (), "meta_shape"),
        )
    )
    if by_ref:
        graph._by_ref_inputs.add(made)
    return made


def graph_output(t: Tensor) -> None:
    """Marks a tensor as the next output of the current graph.

    Args:
        t: A tensor of the graph.

    Raises:
        ValueError: The tensor is in another graph.
        RuntimeError: No graph is entered.
    """
    gcg()._pb_graph.mark_output(t)
