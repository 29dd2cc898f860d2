"""Arrays that the host passes to a session."""

import numbers
from typing import Any, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

import numpy as np

from popxl import dtypes
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import HostScalarTensor, Tensor, Variable
from popxl.utils import to_numpy

d2hStreamBufferMaps = Mapping[DeviceToHostStream, np.ndarray]
h2dStreamBufferMaps = Mapping[HostToDeviceStream, HostScalarTensor]
StreamBufferMaps = Union[h2dStreamBufferMaps, d2hStreamBufferMaps]

FLOAT8 = (dtypes.float8_143, dtypes.float8_152)


class Port(NamedTuple):
    """A stream that a compiled program uses, and the array that a run takes for it."""

    stream: Any
    tensor_id: str
    dtype: np.dtype
    shape: Tuple[int, ...]
    transfers: int
    replicas: int

    def fits(self, array: Any) -> bool:
        """Whether the array can be used as it is, without any conversion."""
        return type(array) is np.ndarray and array.dtype == self.dtype and array.shape == self.shape

    def check_shape(self, what: str, array: Any) -> None:
        """Raises unless it is an array of the right shape; it may have more transfers than the program takes."""
        if not isinstance(array, np.ndarray):
            raise TypeError(
                f"The {what} for stream {self.tensor_id} must be an array to be filled, not {type(array)}."
            )
        lead = len(self.shape) - len(self.stream.shape)
        place = f"The array for {what} stream {self.tensor_id} has shape {array.shape}; expected is {self.shape}"
        if array.ndim < lead:
            raise ValueError(f"{place}.")
        if self.transfers > 1 and array.shape[0] < self.transfers:
            raise ValueError(f"{place}: its first dimension must be at least num_host_transfers, {self.transfers}.")
        if self.replicas > 1 and array.shape[lead - 1] != self.replicas:
            raise ValueError(f"{place}: dimension {lead - 1} must be the replication factor, {self.replicas}.")
        rest = array.shape[lead:]
        # Where all dimensions of a tensor have size 1, any number of them will do.
        if rest != self.stream.shape and not (set(rest) | set(self.stream.shape) <= {1}):
            raise ValueError(f"{place}.")


def ports(streams: Iterable[Any], transfers: int, replicas: int) -> List[Port]:
    """The ports of streams, in the order of their names."""
    lead = tuple(n for n in (transfers, replicas) if n > 1)
    made = [Port(s, s.tensor_id, s.dtype.as_numpy(), lead + s.shape, transfers, replicas) for s in streams]
    return sorted(made, key=lambda port: port.tensor_id)


def by_stream(what: str, given: Optional[StreamBufferMaps]) -> StreamBufferMaps:
    """The arrays of a run, none of them if None; raises TypeError unless they are in a dictionary."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"`{what}` must be a dictionary of arrays by stream, not a value of type {type(given)}.")
    return given


def check_streams(what: str, given: Mapping[Any, np.ndarray], expected: List[Port]) -> None:
    """Raises ValueError unless there is an array of the right shape for each of the ports and no other."""
    by_own = {port.stream: port for port in expected}
    unexpected = [str(stream) for stream in given if stream not in by_own]
    missing = [str(stream) for stream in by_own if stream not in given]
    if unexpected or missing:
        does = "reads" if what == "input" else "writes"
        raise ValueError(
            f"The {what} streams do not match those that the program {does}. Unexpected: {unexpected}. "
            f"Missing: {missing}. The keys are streams, as `popxl.h2d_stream` and `popxl.d2h_stream` "
            "return them."
        )
    for stream, array in given.items():
        by_own[stream].check_shape(what, array)


def as_given(
    inputs: h2dStreamBufferMaps,
    input_ports: List[Port],
    outputs: d2hStreamBufferMaps,
    output_ports: List[Port],
) -> Optional[List[Tuple[str, np.ndarray, int]]]:
    """The arrays of a run as the engine takes them, when none has to be converted; else None."""
    if len(inputs) != len(input_ports) or len(outputs) != len(output_ports):
        return None
    buffers = []
    for port in input_ports:
        array = inputs.get(port.stream)
        if not port.fits(array) or not array.flags.c_contiguous:
            return None
        buffers.append((port.tensor_id, array, port.transfers))
    for port in output_ports:
        array = outputs.get(port.stream)
        if not port.fits(array) or not array.flags.carray:
            return None
        buffers.append((port.tensor_id, array, port.transfers))
    return buffers


def to_input(stream: Any, data: HostScalarTensor, downcast: bool) -> np.ndarray:
    """The data of an input as an array of the stream's dtype."""
    if not isinstance(stream, HostToDeviceStream):
        return np.asarray(data)  # reported with the other streams that are not expected
    wanted = stream.dtype.as_numpy()
    if stream.dtype in FLOAT8:
        array = np.asarray(data) if not isinstance(data, np.ndarray) else data
        if array.dtype not in (wanted, np.uint8):
            raise TypeError(
                f"The data for stream {stream.tensor_id} must be {stream.dtype}, not {array.dtype}; "
                "convert it with "
                "popxl.fp8_utils.host_pow2scale_cast_to_fp8."
            )
        return array.view(wanted)
    array = data if isinstance(data, np.memmap) else to_numpy(data, downcast=downcast, copy=False)
    if array.dtype == wanted or converts(data, array, wanted):
        return array.astype(wanted, copy=False)
    raise TypeError(f"The data for stream {stream.tensor_id} must be {stream.dtype}, not {array.dtype}.")


def converts(data: HostScalarTensor, array: np.ndarray, wanted: np.dtype) -> bool:
    """Whether an input may be converted: to a dtype of its kind, or where no value changes."""
    if array.dtype.kind != "b" and np.can_cast(array.dtype, wanted, "same_kind"):
        return True
    literal = not isinstance(data, np.ndarray) and not hasattr(data, "detach")
    if array.dtype.kind not in ("biuf" if literal else "biu") or wanted.kind not in (
        "biuf" if literal else "biu"
    ):
        return False
    with np.errstate(invalid="ignore"):
        return bool(np.array_equal(array.astype(wanted).astype(array.dtype), array))


def check_output(stream: DeviceToHostStream, array: Any) -> None:
    """Raises unless the array can be filled from the stream."""
    wanted = stream.dtype.as_numpy()
    if array.dtype != wanted and not (stream.dtype in FLOAT8 and array.dtype == np.uint8):
        raise TypeError(f"The array for stream {stream.tensor_id} must be {wanted}, not {array.dtype}.")
    if not array.flags.writeable:
        raise ValueError(f"The array for stream {stream.tensor_id} is read-only and can't be filled.")


def to_value(tensor: Variable, data: Any) -> np.ndarray:
    """The new value of a variable, once it is known to fit."""
    if not isinstance(tensor, Variable):
        name = tensor.id if isinstance(tensor, Tensor) else repr(tensor)
        raise TypeError(f"Tensor {name} is not of type Variable; only variables can be written.")
    if isinstance(data, numbers.Number) and tensor.dtype not in FLOAT8:
        data = np.asarray(data).astype(tensor.dtype.as_numpy())
    if not isinstance(data, np.ndarray):
        data = to_numpy(data, None if tensor.dtype in FLOAT8 else tensor.dtype, copy=False)
    if data.dtype != tensor.dtype.as_numpy():
        raise TypeError(
            f"The data for variable {tensor.id} must be {tensor.dtype.as_numpy()}, not {data.dtype}."
        )
    if data.shape != tensor.shape_on_host:
        raise ValueError(
            f"The data for variable {tensor.id} must have shape {tensor.shape_on_host}, not {data.shape}."
        )
    if tensor.retrieval_mode == "all_replicas" and tensor.replica_grouping.group_size > 1:
        raise NotImplementedError(
            f'Variable {tensor.id} has retrieval mode "all_replicas" and can\'t be written.'
        )
    memmap = tensor._memmap_arr
    if memmap is not None and not memmap.flags.writeable:
        raise ValueError(f"Variable {tensor.id} is over a read-only np.memmap and can't be written.")
    return data
