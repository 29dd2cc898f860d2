"""
The compiled core: the program representation, its transforms and the engine that runs it.
"""

from collections.abc import Iterator, Sequence, Set
import enum
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


class DataType(enum.Enum):
    """Element type of a tensor."""

    FLOAT8_143 = 0

    FLOAT8_152 = 1

    FLOAT16 = 2

    FLOAT = 3

    DOUBLE = 4

    INT8 = 5

    INT16 = 6

    INT32 = 7

    INT64 = 8

    UINT8 = 9

    UINT16 = 10

    UINT32 = 11

    UINT64 = 12

    BOOL = 13

    COMPLEX64 = 14

    COMPLEX128 = 15

class TensorKind(enum.Enum):
    """What a tensor is."""

    Activation = 0

    Input = 1

    Variable = 2

    Constant = 3

    Stream = 4

class TileSet(enum.Enum):
    """Which tiles of a device an op runs on."""

    Undefined = 0

    Compute = 1

    IO = 2

class ExecutionContext(enum.Enum):
    """Which part of a session an op belongs to."""

    WeightsFromHostFragment = 0

    Normal = 1

    AccumulateOuterFragment = 2

    WeightsToHostFragment = 3

class VirtualGraphMode(enum.Enum):
    """How ops are assigned to devices."""

    Off = 0

    Manual = 1

    Auto = 2

    Pipeline = 3

    ExecutionPhases = 4

class StreamDirection(enum.Enum):
    """Which way a host stream goes."""

    HostToDevice = 0

    DeviceToHost = 1

class EngineOptions:
    @overload
    def __init__(self) -> None:
        """Default constructor"""

    @overload
    def __init__(self, arg: EngineOptions, /) -> None:
        """Copy constructor"""

    @overload
    def __init__(self, arg: dict[str, str], /) -> None:
        """Construct from a dictionary"""

    def __len__(self) -> int: ...

    def __bool__(self) -> bool:
        """Check whether the map is nonempty"""

    def __repr__(self) -> str: ...

    @overload
    def __contains__(self, arg: str, /) -> bool: ...

    @overload
    def __contains__(self, arg: object, /) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def __getitem__(self, arg: str, /) -> str: ...

    def __delitem__(self, arg: str, /) -> None: ...

    def clear(self) -> None:
        """Remove all items"""

    def __setitem__(self, arg0: str, arg1: str, /) -> None: ...

    def update(self, arg: EngineOptions, /) -> None:
        """Update the map with element from ``arg``"""

    def __eq__(self, arg: object, /) -> bool: ...

    def __ne__(self, arg: object, /) -> bool: ...

    class ItemView:
        def __len__(self) -> int: ...

        def __iter__(self) -> Iterator[tuple[str, str]]: ...

    class KeyView:
        @overload
        def __contains__(self, arg: str, /) -> bool: ...

        @overload
        def __contains__(self, arg: object, /) -> bool: ...

        def __len__(self) -> int: ...

        def __iter__(self) -> Iterator[str]: ...

    class ValueView:
        def __len__(self) -> int: ...

        def __iter__(self) -> Iterator[str]: ...

    def keys(self) -> EngineOptions.KeyView:
        """Returns an iterable view of the map's keys."""

    def values(self) -> EngineOptions.ValueView:
        """Returns an iterable view of the map's values."""

    def items(self) -> EngineOptions.ItemView:
        """Returns an iterable view of the map's items."""

class SessionOptions:
    """
    Options of a program. Those that the engine has no use for are kept as given.
    """

    @property
    def enableInplaceAmbiguityChecking(self) -> bool: ...

    @enableInplaceAmbiguityChecking.setter
    def enableInplaceAmbiguityChecking(self, arg: bool, /) -> None: ...

    @property
    def virtualGraphMode(self) -> VirtualGraphMode: ...

    @virtualGraphMode.setter
    def virtualGraphMode(self, arg: VirtualGraphMode, /) -> None: ...

    @property
    def useHostCopyOps(self) -> bool: ...

    @useHostCopyOps.setter
    def useHostCopyOps(self, arg: bool, /) -> None: ...

    @property
    def aliasZeroCopy(self) -> bool: ...

    @aliasZeroCopy.setter
    def aliasZeroCopy(self, arg: bool, /) -> None: ...

    @property
    def enableExplicitMainLoops(self) -> bool: ...

    @enableExplicitMainLoops.setter
    def enableExplicitMainLoops(self, arg: bool, /) -> None: ...

    @property
    def explicitRecomputation(self) -> bool: ...

    @explicitRecomputation.setter
    def explicitRecomputation(self, arg: bool, /) -> None: ...

    @property
    def enableVariablesCaching(self) -> bool: ...

    @enableVariablesCaching.setter
    def enableVariablesCaching(self, arg: bool, /) -> None: ...

    @property
    def decomposeGradSum(self) -> bool: ...

    @decomposeGradSum.setter
    def decomposeGradSum(self, arg: bool, /) -> None: ...

    @property
    def constantWeights(self) -> bool: ...

    @constantWeights.setter
    def constantWeights(self, arg: bool, /) -> None: ...

    @property
    def enableReplicatedGraphs(self) -> bool: ...

    @enableReplicatedGraphs.setter
    def enableReplicatedGraphs(self, arg: bool, /) -> None: ...

    @property
    def replicatedGraphCount(self) -> int: ...

    @replicatedGraphCount.setter
    def replicatedGraphCount(self, arg: int, /) -> None: ...

    @property
    def enableDistributedReplicatedGraphs(self) -> bool: ...

    @enableDistributedReplicatedGraphs.setter
    def enableDistributedReplicatedGraphs(self, arg: bool, /) -> None: ...

    @property
    def globalReplicaOffset(self) -> int: ...

    @globalReplicaOffset.setter
    def globalReplicaOffset(self, arg: int, /) -> None: ...

    @property
    def globalReplicationFactor(self) -> int: ...

    @globalReplicationFactor.setter
    def globalReplicationFactor(self, arg: int, /) -> None: ...

    @property
    def partialsTypeMatMuls(self) -> str: ...

    @partialsTypeMatMuls.setter
    def partialsTypeMatMuls(self, arg: str, /) -> None: ...

    @property
    def throwIfLog2ScaleTensorNotInRange(self) -> bool: ...

    @throwIfLog2ScaleTensorNotInRange.setter
    def throwIfLog2ScaleTensorNotInRange(self, arg: bool, /) -> None: ...

    @property
    def engineOptions(self) -> EngineOptions: ...

    @engineOptions.setter
    def engineOptions(self, arg: EngineOptions, /) -> None: ...

    @property
    def enableEngineCaching(self) -> bool: ...

    @enableEngineCaching.setter
    def enableEngineCaching(self, arg: bool, /) -> None: ...

    @property
    def cachePath(self) -> str: ...

    @cachePath.setter
    def cachePath(self, arg: str, /) -> None: ...

    @property
    def dotChecks(self) -> set[str]: ...

    @dotChecks.setter
    def dotChecks(self, arg: Set[str], /) -> None: ...

    @property
    def logDir(self) -> str: ...

    @logDir.setter
    def logDir(self, arg: str, /) -> None: ...

class TensorType(enum.Enum):
    """What a tensor is."""

    ActGrad = 0

    Const = 1

    Stream = 2

    Variable = 3

class TensorInfo:
    """Shape and element type of a tensor."""

    def shape(self) -> tuple: ...

    def metaShape(self) -> tuple: ...

    def dataType(self) -> DataType: ...

    def data_type_lcase(self) -> str: ...

    def rank(self) -> int: ...

    def nelms(self) -> int: ...

    def nbytes(self) -> int: ...

    def __str__(self) -> str: ...

class Tensor:
    """A tensor of a graph."""

    def __eq__(self, arg: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> int: ...

    @property
    def dtype_code(self) -> int: ...

    @property
    def shape(self) -> tuple: ...

    @property
    def meta_shape(self) -> tuple: ...

    @property
    def rank(self) -> int: ...

    @property
    def nelms(self) -> int: ...

    @property
    def info(self) -> TensorInfo: ...

    @property
    def ir_id(self) -> int: ...

    @property
    def erased(self) -> bool: ...

    @property
    def by_ref(self) -> bool: ...

    @property
    def producer(self) -> object: ...

    @property
    def producer_index(self) -> int: ...

    @property
    def uses(self) -> list:
        """The ops that read this tensor, each with the index of the operand."""

    def set_by_ref(self, arg: bool, /) -> None: ...

    def mark_implicit(self) -> None:
        """
        For a tensor that was made on the way to an op: it goes when that op fails.
        """

    def tensorType(self) -> TensorType: ...

    def getGraph(self) -> Graph: ...

    def getIr(self) -> Ir: ...

    def hasProducer(self) -> bool: ...

    def getProducer(self) -> object: ...

    def hasTensorData(self) -> bool: ...

    def isAliased(self) -> bool: ...

    def data(self) -> object:
        """The bytes of a variable or constant on the host, shared, or None."""

    def set_data(self, buffer: object) -> None:
        """
        Makes a C-contiguous array the host memory of a variable or constant; it is not copied.
        """

    def __repr__(self) -> str: ...

    def set_groups(self, group_of: Sequence[int], num_groups: int, all_replicas: bool) -> None:
        """
        Which replicas share a value of this variable, and whether the value of each is read back.
        """

    def set_remote(self, buffer: int, entry: int, shards: Sequence[int]) -> None:
        """Keeps this variable in an entry of a remote buffer."""

    @property
    def num_groups(self) -> int: ...

    @property
    def retrieves_all_replicas(self) -> bool: ...

class Settings:
    """What the context in force gave to an op when it was made."""

    @property
    def tileSet(self) -> TileSet: ...

    @property
    def executionContext(self) -> ExecutionContext: ...

    @property
    def vgraphId(self) -> int: ...

    @property
    def scope(self) -> str: ...

class Op:
    """One op of a graph."""

    def __eq__(self, arg: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def getGraph(self) -> Graph: ...

    def getIr(self) -> Ir: ...

    def inTensor(self, arg: int, /) -> Tensor: ...

    def outTensor(self, arg: int, /) -> Tensor: ...

    def getInputTensors(self) -> list: ...

    def getOutputTensors(self) -> list: ...

    @property
    def inputs(self) -> list:
        """Operands; None where absent."""

    @property
    def outputs(self) -> list: ...

    def getCalledGraphs(self) -> list: ...

    def attributes(self) -> dict:
        """All attributes by name."""

    def attr(self, name: str) -> object: ...

    def set_attr(self, name: str, value: object | None) -> None: ...

    def has_attr(self, arg: str, /) -> bool: ...

    def opType(self) -> str: ...

    @property
    def op_type(self) -> str: ...

    @property
    def table_name(self) -> str:
        """Name in the op table and in the text form."""

    @property
    def id(self) -> int: ...

    def debugName(self) -> str: ...

    def name(self) -> str: ...

    def getSettings(self) -> Settings: ...

    def hasVirtualGraphId(self) -> bool: ...

    def getVirtualGraphId(self) -> int: ...

    def modifiesIndex(self, index: int) -> bool:
        """Whether the op writes an operand; those of a Loop are counted from 2."""

    def modifies(self, operand: int) -> bool: ...

    def declare_modified(self, operand: int) -> None:
        """States that a call, repeat or conditional changes an operand."""

    def set_input(self, operand: int, tensor: object) -> None:
        """
        Gives an op of a graph under construction another operand; one more where it has so many.
        """

    def add_output(self, name: str, like: object) -> Tensor:
        """One more result, of a call whose graph gained an output."""

    @property
    def aliases(self) -> list:
        """Pairs (result, operand) that share memory."""

    def isOptimizerOp(self) -> bool: ...

    @property
    def erased(self) -> bool: ...

    @property
    def location(self) -> str:
        """File and line of the program."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

class Graph:
    """A graph of a program."""

    def __eq__(self, arg: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def getOps(self) -> list:
        """Ops in order of creation."""

    def getOpSchedule(self) -> list:
        """Ops in the order they run in."""

    def getOpIds(self) -> list: ...

    def getTensor(self, id: str) -> Tensor: ...

    def getTensors(self) -> list: ...

    def tensors_of_kind(self, kind: int) -> list: ...

    def getInputIds(self) -> list: ...

    def getOutputIds(self) -> list: ...

    def getCalledGraphs(self) -> list: ...

    @property
    def inputs(self) -> list: ...

    @property
    def outputs(self) -> list: ...

    def __contains__(self, arg: str, /) -> bool: ...

    @property
    def id(self) -> str: ...

    @property
    def key(self) -> int: ...

    @property
    def ir_id(self) -> int: ...

    def getIr(self) -> Ir: ...

    def unique_name(self, base: str) -> str:
        """A name that no tensor of the graph has; it is taken from then on."""

    def mark_output(self, tensor: object) -> None: ...

    def remove_output(self, index: int) -> None: ...

    def setCanBeRecursivelyAutodiffed(self, value: bool) -> None: ...

    def getCanBeRecursivelyAutodiffed(self) -> bool: ...

    def erase_ops(self, ops: Sequence[Op]) -> None: ...

    def replace_uses(self, old: object, new: object) -> None:
        """Every use of a tensor becomes a use of another, graph outputs too."""

    def __repr__(self) -> str: ...

class Ir:
    """A whole program."""

    @staticmethod
    def create() -> Ir:
        """A new program with an empty main graph."""

    @property
    def id(self) -> int: ...

    def getId(self) -> int: ...

    def getMainGraph(self) -> Graph: ...

    def getAllGraphs(self) -> list: ...

    def getGraph(self, id: str) -> Graph: ...

    def create_graph(self, base: str) -> Graph:
        """A new graph named after `base`."""

    def erase_graph(self, graph: Graph) -> None:
        """Removes a graph that no op calls."""

    def getSessionOptions(self) -> SessionOptions: ...

    @property
    def host_transfers(self) -> int: ...

    @host_transfers.setter
    def host_transfers(self, arg: int, /) -> None: ...

    @property
    def replication_factor(self) -> int: ...

    @property
    def instance_replication_factor(self) -> int: ...

    @property
    def session_made(self) -> bool: ...

    def depends_on_replicas(self) -> bool:
        """
        Whether a collective or variable was made for the number of replicas that it has now.
        """

    def add_stream(self, name: str, shape: object, dtype: object, direction: StreamDirection) -> Tensor: ...

    def used_streams(self, direction: StreamDirection) -> list: ...

    @staticmethod
    def parse(text: str) -> Ir:
        """The program that a text describes; it has an id of its own."""

    def text(self) -> str:
        """The program as text."""

    def logIr(self) -> None:
        """Writes the program to the log, at level DEBUG."""

    def add_remote_buffer(self, shape: object, dtype: object, entries: int) -> int:
        """Makes a remote buffer; returns its id, from 1 up."""

    def remote_buffer(self, id: int) -> tuple:
        """Shape, dtype code and number of entries."""

    def set_remote_buffer(self, id: int, shape: object, dtype: object, entries: int) -> None: ...

def register_op(name: str, doc: str, operands: Sequence[str], attrs: object, results: Sequence[str], infer: object | None, forward: object | None, compose: object | None, gradient_reads: Sequence[str], gradient: object | None, compose_gradient: object | None) -> None:
    """
    Adds an op to the table. Attributes are triples (name, type, default or None).
    """

def op_signature(name: str) -> tuple:
    """
    Documentation, operands, attributes (name, default, required) and number of results of an op.
    """

def load_ops(path: str) -> list[str]:
    """Loads a shared library of ops; returns their names."""

def op_classes() -> dict:
    """Compatibility class names, each with the op type it stands for."""

def op_names() -> list:
    """Names of all ops that the library has of itself."""

def push_graph(graph: Graph) -> None: ...

def pop_graph() -> None: ...

def current_graph() -> object: ...

def push_scope(name: str) -> None: ...

def pop_scope() -> None: ...

def scopes() -> list[str]: ...

def scoped_name(name: str) -> str: ...

def push_ipu(ipu: int | None) -> None: ...

def pop_ipu() -> None: ...

def current_ipu() -> int:
    """-1 when undefined."""

def push_tile_set(tile_set: TileSet) -> None: ...

def pop_tile_set() -> None: ...

def current_tile_set() -> TileSet: ...

def push_execution(context: ExecutionContext) -> None: ...

def pop_execution() -> None: ...

def current_execution() -> ExecutionContext: ...

class SequenceMode(enum.Enum):
    """Whether ops run in the order in which they are made."""

    Ordered = 0

    Unordered = 1

    Pass = 2

def push_sequence(mode: SequenceMode) -> None: ...

def pop_sequence() -> None: ...

def current_sequence() -> SequenceMode | None: ...

def add_hook(graph: Graph, function: object) -> int: ...

def remove_hook(graph: Graph, hook: int) -> None: ...

def add_op(name: str, inputs: object, attrs: dict = {}, inplace: bool = False, output_names: object = ()) -> list:
    """
    Makes an op of the table in the current graph; returns its results. An absent optional operand is None.
    """

def create_op(name: str, inputs: object, attrs: dict = {}, inplace: bool = False, output_names: object = ()) -> Op:
    """Like add_op; returns the op itself."""

def add_variable(graph: Graph, name: str, shape: object, dtype: object, buffer: object, groups: int = 1) -> Tensor:
    """
    Makes a variable over a C-contiguous array of one value a group, which is not copied.
    """

def add_constant(graph: Graph, name: str, shape: object, dtype: object, buffer: object) -> Tensor:
    """Makes a constant over a C-contiguous array, which is not copied."""

def add_input(graph: Graph, name: str, shape: object, dtype: object, by_ref: bool = False, meta_shape: object = ()) -> Tensor:
    """Makes an input of a graph."""

def set_internal_folders(folders: Sequence[str]) -> None:
    """
    Files below these folders are the library's own, never where a user's program is.
    """

def user_location() -> tuple[str, str, int]:
    """
    File, function and line of the user's program that is running now; empty strings when there is none.
    """

def start_debug_info() -> None:
    """Starts a record of what programs make."""

def stop_debug_info() -> tuple:
    """Ends the record; returns its contexts and the table of their strings."""

def to_float8(source: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], format: object, log2_scale: int, nan_on_overflow: bool) -> object:
    """
    Bytes of source * 2**log2_scale in a float8 format, rounded once, to nearest even.
    """

def float8_values(format: object) -> list:
    """The 256 values of a float8 format, by their bits."""

def join_cluster(size: int, index: int) -> None:
    """
    Joins the processes that run this program together. RuntimeError where MPI is missing, or tells another number of processes or another place among them.
    """

def in_cluster() -> bool:
    """Whether this process has joined others."""

def synchronize_cluster() -> None:
    """Waits until all processes have called it."""

def log_trace(message: str) -> None:
    """Writes a line to the log, when its level is enabled."""

def log_debug(message: str) -> None:
    """Writes a line to the log, when its level is enabled."""

def log_info(message: str) -> None:
    """Writes a line to the log, when its level is enabled."""

def log_warn(message: str) -> None:
    """Writes a line to the log, when its level is enabled."""

def log_error(message: str) -> None:
    """Writes a line to the log, when its level is enabled."""

def log_critical(message: str) -> None:
    """Writes a line to the log, when its level is enabled."""

def set_log_level(level: str) -> None:
    """Sets the level: TRACE, DEBUG, INFO, WARN, ERR or OFF."""

def refresh_log_level() -> None:
    """Reads POPART_LOG_LEVEL again, unless a level was set by name."""

class GradInfo:
    """A gradient graph and how it connects to its forward graph."""

    def __init__(self, forward: Graph, graph: Graph, inputs: object, outputs: object) -> None:
        """
        Of a gradient graph made by hand: pairs (is a gradient, forward tensor) for inputs and outputs.
        """

    @property
    def forward(self) -> Graph: ...

    @property
    def graph(self) -> Graph: ...

    @property
    def inputs(self) -> list: ...

    @property
    def outputs(self) -> list: ...

def autodiff(graph: Graph, grads_provided: object | None, grads_required: object | None, known: Sequence[GradInfo]) -> list:
    """
    Differentiates a graph; returns the GradInfo of every gradient graph made or given.
    """

def copy_ops(source: Graph, target: Graph, tensors: object) -> list:
    """
    Copies the ops of a graph into another; `tensors` are pairs of what stands for what, and returned with those that were made.
    """

def gain_output(graph: Graph, tensor: object) -> None:
    """
    Makes a tensor one more output of its graph, and a result of all ops that run it.
    """

def clone_graph(graph: Graph) -> Graph:
    """A copy of a graph in the same Ir."""

def outline_main(ir: Ir, name: str) -> tuple:
    """Moves the ops of the main graph into a graph; it and its operands."""

def recompute(info: GradInfo) -> GradInfo:
    """The GradInfo of a gradient graph that computes forward tensors again."""

def run_pass(ir: Ir, name: str) -> bool:
    """Runs a pass by its name; whether it changed the program."""

def pass_names() -> list:
    """Names of the passes of run_pass."""

def merge_exchange(graph: Graph, ops: Sequence[Op]) -> None:
    """
    Makes one op of those of the ops that are transfers and do not depend on each other.
    """

def decompose_sum(graph: Graph) -> bool:
    """Splits sums of more than two tensors; returns whether there were any."""

class MachinePeaks:
    """What the machine can do at most, with all threads that are used."""

    def __init__(self, flops_per_second: float, memory_bytes_per_second: float, cache_bytes_per_second: float, cache_bytes: float, threads: int = 1) -> None: ...

    @staticmethod
    def measure() -> MachinePeaks:
        """Measures for about half a second, once for each number of threads."""

    @property
    def flops_per_second(self) -> float:
        """Float32 multiply-adds in registers; each counts as two operations."""

    @property
    def memory_bytes_per_second(self) -> float:
        """A triad over arrays that do not fit the caches."""

    @property
    def cache_bytes_per_second(self) -> float:
        """A triad over arrays that fit each core's own cache."""

    @property
    def cache_bytes(self) -> float:
        """Of all cores' own caches together."""

    @property
    def threads(self) -> int: ...

    def seconds_for(self, flops: float, bytes: float) -> float:
        """The least time for so many operations and bytes moved."""

class ProfileEntry:
    """One instruction of a compiled program over all runs of a profile."""

    @property
    def graph(self) -> str:
        """The graph that holds it."""

    @property
    def kernel(self) -> str:
        """What runs."""

    @property
    def ops(self) -> list[str]:
        """Names of the ops that it carries out: several for a fused group."""

    @property
    def locations(self) -> list[str]:
        """Where in the user's program these were made."""

    @property
    def calls(self) -> int: ...

    @property
    def seconds(self) -> float:
        """Of all calls, without what called graphs took."""

    @property
    def inclusive_seconds(self) -> float:
        """Of all calls, with it."""

    @property
    def predicted_seconds(self) -> float:
        """For so many calls by the cost model."""

    @property
    def flops(self) -> float:
        """Floating-point operations of all calls."""

    @property
    def bytes(self) -> float:
        """Of operands read and results written by all calls."""

    @property
    def share_of_peak(self) -> float:
        """Of the machine's arithmetic or bandwidth, whichever limits it."""

    @property
    def bound_by_bytes(self) -> bool:
        """Whether that is bandwidth."""

class Profile:
    """Where the time of a session's runs went."""

    @property
    def peaks(self) -> MachinePeaks: ...

    @property
    def runs(self) -> int: ...

    @property
    def seconds(self) -> float: ...

    @property
    def entries(self) -> list[ProfileEntry]: ...

    def table(self, limit: int) -> str: ...

    def chrome_trace(self) -> str: ...

class MemoryItem:
    """Memory that is in use when the frame is fullest."""

    @property
    def tensor(self) -> str:
        """Id of the tensor that it holds; "" for scratch memory."""

    @property
    def type(self) -> str:
        """Of that tensor."""

    @property
    def op(self) -> str:
        """That made the tensor, or needs the scratch memory."""

    @property
    def location(self) -> str:
        """Of the op in the user's program."""

    @property
    def graph(self) -> str:
        """Whose frame holds it."""

    @property
    def bytes(self) -> int: ...

class MemoryReport:
    """The memory that a session takes while attached."""

    @property
    def frame_bytes(self) -> int:
        """Activations and temporaries: the planned peak."""

    @property
    def variable_bytes(self) -> int:
        """Variables, of all replicas of this process."""

    @property
    def constant_bytes(self) -> int: ...

    @property
    def remote_bytes(self) -> int:
        """Remote buffers, of all replicas of this process."""

    @property
    def live_lower_bound(self) -> int:
        """What no plan of the frame can go below: the most bytes in use at once."""

    @property
    def peak_op(self) -> str:
        """The op that runs when the frame is fullest."""

    @property
    def peak_location(self) -> str:
        """Its place in the user's program."""

    @property
    def at_peak(self) -> list[MemoryItem]:
        """What the frame holds then, the largest first."""

    @property
    def total(self) -> int: ...

    def fits(self, bytes: int) -> bool:
        """
        Whether the session runs in so many bytes. ValueError when they are negative.
        """

    def table(self, limit: int = 20) -> str:
        """The figures, and the largest items at the peak, `limit` lines at most."""

    def __str__(self) -> str: ...

class RemoteStorage:
    """Where a session keeps remote buffers."""

    def __init__(self, directory: str, ram_bytes: int, sync_every_run: bool) -> None:
        """In RAM, if the directory is ""."""

class Session:
    """A compiled program and its memory."""

    def __init__(self, ir: Ir, reference: bool = False, remote_storage: RemoteStorage = ...) -> None: ...

    @property
    def compiled_ir(self) -> Ir:
        """The program as it was compiled."""

    def attach(self) -> None: ...

    def detach(self) -> None: ...

    @property
    def attached(self) -> bool: ...

    @property
    def failed(self) -> bool:
        """Whether the last run failed half way."""

    def weights_from_host(self) -> None: ...

    def weights_to_host(self) -> None: ...

    def forget_replica_values(self, variable: Tensor) -> None:
        """Every replica gets the host's value of its group next."""

    def replica_values(self, variable: Tensor) -> bytes | None:
        """
        The values of all replicas, one after another, of a variable that retrieves them; None when none came to the host.
        """

    def flush_remote_buffers(self) -> None: ...

    def run(self, buffers: object) -> None:
        """
        Runs the program once, with triples (stream id, array, entries) for all streams that it uses.
        """

    def start_profile(self, peaks: MachinePeaks | None = None) -> None:
        """Takes the time of every instruction until stop_profile."""

    def stop_profile(self) -> Profile: ...

    def memory(self) -> MemoryReport:
        """What the session takes while attached; known before it is."""

    def touched_bytes(self) -> int:
        """Bytes of its memory that were used so far, in whole pages."""

def to_text(ir: Ir, locations: bool = True, elide_data_above: int = 9223372036854775807) -> str:
    """The text form of an Ir; it parses unless data was elided."""

def graph_to_text(graph: Graph, locations: bool = True, elide_data_above: int = 9223372036854775807) -> str:
    """One graph as it stands in the text of its Ir."""

def from_text(text: str) -> Ir:
    """
    The Ir that a text describes. ValueError with line and column where it is none.
    """

def program_text(session: Session) -> str:
    """The compiled program, one instruction a line."""
