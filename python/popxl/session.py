"""Sessions: programs compiled and run."""

import os
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Union

import numpy as np

from popxl import _core
from popxl._host_arrays import (
    StreamBufferMaps as StreamBufferMaps,
    as_given,
    by_stream,
    check_output,
    check_streams,
    d2hStreamBufferMaps,
    h2dStreamBufferMaps,
    ports,
    to_input,
    to_value,
)
from popxl.ir import Ir
from popxl.profile import MachinePeaks, Profile
from popxl.remote_storage import RemoteStorage, _as_remote_storage
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import Constant, Tensor, Variable
from popxl.utils import _popxl_to_numpy, _to_device_info

from popart.dataflow import PyStepIO  # isort: skip
from popart.device import DeviceInfo  # isort: skip
from popart.inference_session import InferenceSession  # isort: skip

if TYPE_CHECKING:
    from popxl.feed import Feed


class Session:
    """A compiled program.

    Inside `with session:` it is attached to a device, has its variables there, and runs. Contexts may be
    nested and entered again; the variables keep their values.
    """

    def __init__(
        self,
        ir: Ir,
        device_desc: Union[str, DeviceInfo] = "cpu",
        weights_to_host_on_exit: bool = True,
        *,
        reference: bool = False,
        remote_storage: Union[None, str, "os.PathLike[str]", RemoteStorage] = None,
    ) -> None:
        """Compiles a program.

        Args:
            ir: The program.
            device_desc: "cpu", "ipu_model", "ipu_hw" or a device. All run on the CPU. With a device that is
                attached the session is attached at once and has its variables.
            weights_to_host_on_exit: Whether variables are copied to the host when the outermost context ends.
                Always off when the program has a variable over a read-only `np.memmap`.
            reference: Whether to run every op by its definition in float64, rounded to its dtype, instead of
                compiling the program: slow, to compare with.
            remote_storage: The folder of the files that keep remote buffers, or a `popxl.RemoteStorage`. None
                keeps them in RAM. Where a file is there already, remote buffers and variables in them have its
                values.

        Raises:
            popart_exception: Ops change a tensor and read it in no defined order, or the main graph has an
                input.
            TypeError: `ir` is no Ir.
            ValueError: There is no such device.
            RuntimeError: The file of remote buffers can't be made, is in use, damaged, or another program's.
        """
        from popxl._dot import write_checkpoint

        if not isinstance(ir, Ir):
            raise TypeError(f"A session is made of a popxl.Ir, not of {ir!r} of type {type(ir)}.")
        self._user_ir = ir
        self.weights_to_host_on_exit = weights_to_host_on_exit and not ir._has_read_only_memmap
        if weights_to_host_on_exit and ir._has_read_only_memmap:
            _core.log_info(
                "Weights are not copied to the host: the Ir has a variable over a read-only np.memmap."
            )
        if isinstance(device_desc, DeviceInfo):
            self._device = device_desc
        else:
            self._device = _to_device_info(device_desc, self._num_ipus())
        self._was_attached: List[bool] = []
        self._compiled: Optional[Ir] = None
        ir._pb_ir.logIr()
        self._pb_session = InferenceSession.fromIr(
            ir=ir._pb_ir,
            deviceInfo=self._device,
            reference=reference,
            remote_storage=_as_remote_storage(remote_storage),
        )
        self._pb_session.prepareDevice()
        lead = (ir.num_host_transfers, ir.instance_replication_factor)
        self._inputs = ports(ir.get_all_h2d_streams(), *lead)
        self._outputs = ports(ir.get_all_d2h_streams(), *lead)
        ir._sessions.add(self)
        write_checkpoint(ir, "Final")
        if self.is_attached:
            self.weights_from_host()

    def _num_ipus(self) -> int:
        """Devices that the program asks for: those that its ops name, for each replica, up to the next power
        of two."""
        used = [
            op.getVirtualGraphId() for graph in self._user_ir._pb_ir.getAllGraphs() for op in graph.getOps()
        ]
        wanted = (max(used, default=0) + 1) * self._user_ir.instance_replication_factor
        return 1 << (max(1, wanted) - 1).bit_length()

    @property
    def ir(self) -> Ir:
        """The program that the session was made of."""
        return self._user_ir

    @property
    def ir_(self) -> Ir:
        """The program as it was compiled."""
        engine = self._pb_session._engine
        if engine is None:
            return self._user_ir
        if self._compiled is None:
            self._compiled = Ir._wrap(engine.compiled_ir)
        return self._compiled

    @property
    def is_attached(self) -> bool:
        """Whether the session is attached to a device and can run."""
        return self._device.isAttached

    @property
    def _host_is_behind(self) -> bool:
        return self._pb_session._host_is_behind

    def memory(self) -> "_core.MemoryReport":
        """The memory that the session takes while attached; known before it is.

        ```python
        report = session.memory()
        print(report)  # the figures, and the largest tensors in use at the peak, with the lines that made them
        assert report.fits(4 * 2**30)
        ```

        Raises:
            popart_runtime_error: The session is not compiled.
        """
        if self._pb_session._engine is None:
            raise _core.popart_runtime_error("The session is not compiled, so its memory is not known.")
        return self._pb_session._engine.memory()

    def profile(self, peaks: Optional[MachinePeaks] = None) -> Profile:
        """Finds out where the time of the runs inside its context goes; outside, runs are not slowed.

        ```python
        with session.profile() as profile:
            session.run(inputs)
        print(profile)
        profile.save_trace("trace.json")
        ```

        Args:
            peaks: What the machine can do, which the instructions are compared with; measured if not given.

        Raises:
            popart_runtime_error: The session is not compiled.
        """
        if self._pb_session._engine is None:
            raise _core.popart_runtime_error("The session is not compiled, so it can't be profiled.")
        return Profile(self._pb_session._engine, peaks)

    def program_text(self) -> str:
        """The compiled program as a listing: graphs with their frames, one instruction a line, operands by
        address.

        Raises:
            popart_runtime_error: The session is not compiled.
        """
        if self._pb_session._engine is None:
            raise _core.popart_runtime_error("The session is not compiled, so it has no program.")
        return _core.program_text(self._pb_session._engine)

    def touched_memory(self) -> int:
        """Bytes of the session's memory that its runs have touched so far, as the system counts pages.

        Raises:
            popart_runtime_error: The session is not compiled.
        """
        if self._pb_session._engine is None:
            raise _core.popart_runtime_error("The session is not compiled, so it has no memory.")
        return self._pb_session._engine.touched_bytes()

    def _require_attached(self, what: str) -> None:
        if not self.is_attached:
            raise ValueError(f"{what} needs an attached session; put the call inside `with session:`.")

    def _require_own(self, tensor: Tensor) -> None:
        if tensor.ir != self._user_ir:
            raise ValueError(
                f"Tensor {tensor.id} belongs to another Ir than that of which the session was made."
            )

    def _set_device(self, device: DeviceInfo) -> None:
        """Uses another device, of the kind and number that the session was compiled for."""
        self._device = device
        self._pb_session._set_device(device)

    def run(
        self, inputs: Optional[h2dStreamBufferMaps] = None, downcast_inputs: bool = True
    ) -> Dict[DeviceToHostStream, np.ndarray]:
        """Runs the program once, with new arrays for its outputs.

        Args:
            inputs: As for `run_with_outputs`.
            downcast_inputs: As for `run_with_outputs`.

        Returns:
            An array for each stream to the host that the program writes, as `create_host_outputs` describes
            them.

        Raises:
            ValueError: As for `run_with_outputs`.
        """
        self._require_attached("Session.run")
        outputs = self.create_host_outputs()
        self.run_with_outputs(inputs, outputs, downcast_inputs)
        return outputs

    def run_with_outputs(
        self,
        inputs: Optional[h2dStreamBufferMaps] = None,
        outputs: Optional[d2hStreamBufferMaps] = None,
        downcast_inputs: bool = True,
    ) -> None:
        """Runs the program once and fills arrays with its outputs.

        Args:
            inputs: For each stream from the host that the program reads, its data: an array, a PyTorch
                tensor, nested lists or a number, of shape (num_host_transfers, instance_replication_factor,
                *stream.shape) without the first or second dimension where it is 1. More transfers than the
                program takes may be there.
            outputs: For each stream to the host that the program writes, an array of such a shape, to be
                filled.
            downcast_inputs: Whether 64-bit inputs become 32-bit.

        Raises:
            ValueError: The session is not attached, streams are missing or not expected, or a shape does not
                fit.
            TypeError: A dtype does not fit, or the arrays are not given in a dictionary.
        """
        self._require_attached("Session.run_with_outputs")
        inputs = by_stream("inputs", inputs)
        outputs = by_stream("outputs", outputs)
        buffers = as_given(inputs, self._inputs, outputs, self._outputs)
        if buffers is not None:
            self._pb_session._run_buffers(buffers)
            return
        given = {stream: to_input(stream, data, downcast_inputs) for stream, data in inputs.items()}
        self._validate_run_inputs(given)
        self._validate_run_outputs(outputs)
        for stream, array in outputs.items():
            check_output(stream, array)
        self._pb_session.run(
            PyStepIO(
                {stream.tensor_id: array for stream, array in given.items()},
                {stream.tensor_id: array for stream, array in outputs.items()},
            )
        )

    def feed(self, batches: Iterable[h2dStreamBufferMaps], depth: int = 2, downcast_inputs: bool = True) -> "Feed":
        """Runs the program once for each input of an iterator, which makes the next ones while it runs.

        ```python
        feed = session.feed(({x: batch} for batch in loader))
        for outputs in feed:
            print(outputs[loss])
        print(feed.report)  # device-bound: inputs are ready in time. ...
        ```

        The iterator works in a thread of its own; ending the loop early stops it after the input at hand. An
        exception of the iterator is raised in the loop once the runs before it are done.

        Args:
            batches: Gives the inputs of each run, as for `run_with_outputs`. An array that it gave must not change
                before its run is done.
            depth: How many inputs may be ready ahead.
            downcast_inputs: As for `run_with_outputs`.

        Returns:
            An iterable over the outputs of the runs, as `run` returns them, with a `report`.

        Raises:
            ValueError: `depth` is not positive; while iterating, as for `run_with_outputs`.
        """
        from popxl.feed import Feed  # starts threads; most programs need none

        return Feed(self, batches, depth, downcast_inputs)

    def weights_from_host(self) -> None:
        """Copies all variables from the host to the device.

        Raises:
            ValueError: The session is not attached.
        """
        self._require_attached("Session.weights_from_host")
        self._pb_session.weightsFromHost()

    def weights_to_host(self) -> None:
        """Copies all variables from the device to the host; the files of those over a `np.memmap` are
        written.

        Raises:
            ValueError: The session is not attached.
            RuntimeError: A variable is over a read-only `np.memmap`.
        """
        if self._user_ir._has_read_only_memmap:
            raise RuntimeError(
                "Weights can't be copied to the host: the Ir has a variable over a read-only np.memmap."
            )
        self._require_attached("Session.weights_to_host")
        self._pb_session.weightsToHost()
        for memmap in self._user_ir._memmaps.values():
            memmap.flush()

    def flush_remote_buffers(self) -> None:
        """Brings remote buffers that are kept in files to the disk, as they are after the last run.

        Every run leaves them so that they outlive the process; after this, and after the session's context, they
        outlive a failure of power too.

        Raises:
            ValueError: The session is not attached.
            RuntimeError: The disk fails.
        """
        self._require_attached("Session.flush_remote_buffers")
        self._pb_session._ready().flush_remote_buffers()

    def expected_inputs(self) -> List[HostToDeviceStream]:
        """The streams from the host that `run` needs data for: those that some `host_load` reads."""
        return [port.stream for port in self._inputs]

    def get_tensor_data(self, tensor: Union[Variable, Constant]) -> np.ndarray:
        """The value of a variable or constant.

        Args:
            tensor: The variable or constant.

        Returns:
            As for `get_tensors_data`.

        Raises:
            TypeError: It is neither.
            ValueError: It belongs to another Ir.
        """
        return self.get_tensors_data([tensor])[tensor]

    def get_tensors_data(
        self, tensors: Iterable[Union[Variable, Constant]]
    ) -> Dict[Union[Constant, Variable], np.ndarray]:
        """The values of variables and constants.

        Inside the session's context, variables are copied from the device first if the program ran since they
        last were. Outside, the host's values are returned.

        Args:
            tensors: The variables and constants.

        Returns:
            For each an array of shape `shape_on_host`: a copy, or the `np.memmap` that the variable was made
            of. With retrieval mode "all_replicas" and groups of several replicas, one value for each replica.

        Raises:
            TypeError: One is neither.
            ValueError: One belongs to another Ir.
            popart_runtime_error: The values are lost with a run that failed half way.
        """
        tensors = list(tensors)
        for tensor in tensors:
            if not isinstance(tensor, (Constant, Variable)):
                raise TypeError(
                    f"{tensor} is not of type Constant or Variable; only these have data to be read. "
                    "Send it to the host with `ops.host_store`."
                )
            self._require_own(tensor)
        if self.is_attached and self._host_is_behind and any(isinstance(t, Variable) for t in tensors):
            self.weights_to_host()
        return {tensor: self._host_data(tensor) for tensor in tensors}

    def _host_data(self, tensor: Union[Variable, Constant]) -> np.ndarray:
        data = _popxl_to_numpy(tensor)
        if isinstance(tensor, Variable) and tensor.retrieval_mode == "all_replicas":
            grouping = tensor.replica_grouping
            if grouping.group_size > 1:
                engine = self._pb_session._engine
                values = None if engine is None else engine.replica_values(tensor._pb_tensor)
                if values is not None:
                    return np.frombuffer(values, data.dtype).reshape((-1, *tensor.shape)).copy()
                rows = data if grouping.num_groups > 1 else data[np.newaxis]
                return rows[grouping.assignment]
        return data if isinstance(data, np.memmap) else data.copy()

    def _forget_replica_values(self, variable: Variable) -> None:
        """Every replica has the host's value of its group next."""
        if self._pb_session._engine is not None:
            self._pb_session._engine.forget_replica_values(variable._pb_tensor)

    def write_variable_data(self, tensor: Variable, data: np.ndarray) -> None:
        """Sets the value of a variable.

        Args:
            tensor: The variable.
            data: As for `write_variables_data`.

        Raises:
            TypeError: As for `write_variables_data`.
            ValueError: As for `write_variables_data`.
        """
        self.write_variables_data({tensor: data})

    def write_variables_data(self, tensors: Dict[Variable, np.ndarray]) -> None:
        """Sets the values of variables, on the host and, if the session is attached, on the device.

        Args:
            tensors: For each variable an array of its dtype and of shape `shape_on_host`, or a number.

        Raises:
            TypeError: A tensor is no variable, or a dtype differs. Nothing has changed then.
            ValueError: A shape differs, or the variable belongs to another Ir or is over a read-only
                `np.memmap`. Nothing has changed then.
            NotImplementedError: A variable has retrieval mode "all_replicas" and groups of several replicas.
            popart_runtime_error: The values of the other variables are lost with a run that failed half way.
        """
        arrays = {tensor: to_value(tensor, data) for tensor, data in tensors.items()}
        for tensor in arrays:
            self._require_own(tensor)
        writes_all = set(arrays) >= set(self._user_ir.main_graph.variables)
        if arrays and self.is_attached and self._host_is_behind and not writes_all:
            self.weights_to_host()  # the variables that are not written keep what the device has
        for tensor, array in arrays.items():
            _popxl_to_numpy(tensor)[...] = array
        if self.is_attached:
            self.weights_from_host()

    def create_host_outputs(self) -> Dict[DeviceToHostStream, np.ndarray]:
        """Makes arrays for `run_with_outputs`.

        Returns:
            For each stream to the host that the program writes, an uninitialised array of shape
            (num_host_transfers, instance_replication_factor, *stream.shape) without the first or second
            dimension where it is 1.
        """
        return {port.stream: np.empty(port.shape, port.dtype) for port in self._outputs}

    def _validate_run_inputs(self, inputs: Mapping[HostToDeviceStream, np.ndarray]) -> None:
        """Raises ValueError unless there is an array of the right shape for each stream that the program
        reads."""
        check_streams("input", inputs, self._inputs)

    def _validate_run_outputs(self, outputs: d2hStreamBufferMaps) -> None:
        """Raises ValueError unless there is an array of the right shape for each stream that it writes."""
        check_streams("output", outputs, self._outputs)

    def __enter__(self) -> "Session":
        """Attaches the session, and copies the variables to the device if it was not attached.

        Raises:
            popart_runtime_error: The device is not of the kind and number that the session was compiled for.
        """
        was_attached = self.is_attached
        self._was_attached.append(was_attached)
        if was_attached:
            return self
        try:
            if not (self._device.attach() or self._device.tryAttachUntilTimeout()):
                raise RuntimeError(f"{self._device} can't be attached.")
            self.weights_from_host()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, exc_tb: Any) -> None:
        """Ends what `__enter__` began: where that attached the session, copies the variables to the host,
        unless an exception ends the block or the session was told not to, and detaches."""
        try:
            if not self._was_attached[-1] and exc_type is None and self.weights_to_host_on_exit:
                self.weights_to_host()
        finally:
            self._leave()

    def _leave(self) -> None:
        if not self._was_attached.pop():
            self._device.detach()
            self._pb_session._release()
