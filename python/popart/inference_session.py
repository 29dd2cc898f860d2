"""A session over stream ids and arrays."""

from typing import Dict, List, Optional, Tuple

import numpy as np

from popart.dataflow import PyStepIO
from popart.device import DeviceInfo
from popxl import _core, dtypes


class InferenceSession:
    """A compiled program on a device."""

    def __init__(self) -> None:
        """Raises RuntimeError: sessions are made with `fromIr`."""
        raise RuntimeError("popart.InferenceSession is made with InferenceSession.fromIr.")

    _pb_ir: "_core.Ir"
    _device: DeviceInfo
    _compiled_for: Tuple[str, int]
    _engine: Optional["_core.Session"]
    _reference: bool
    _remote_storage: "_core.RemoteStorage"
    _host_is_behind: bool
    #: A run failed half way and the host's values are older than those that it began with.
    _is_lost: bool

    @classmethod
    def fromIr(
        cls,
        ir: "_core.Ir",
        deviceInfo: DeviceInfo,
        *,
        reference: bool = False,
        remote_storage: Optional["_core.RemoteStorage"] = None,
    ) -> "InferenceSession":
        """A session for a program, not compiled yet.

        Args:
            ir: The program.
            deviceInfo: The device.
            reference: Whether to run every op by its definition instead of compiling the program.
            remote_storage: Where remote buffers are kept; None: in RAM.
        """
        self = object.__new__(cls)
        self._pb_ir = ir
        self._device = deviceInfo
        self._compiled_for = (deviceInfo._kind, deviceInfo.numIpus)
        self._engine = None
        self._reference = reference
        self._remote_storage = remote_storage or _core.RemoteStorage("", 0, False)
        self._host_is_behind = False
        self._is_lost = False
        return self

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Compiles the program.

        Args:
            loadEngine: Not used; memory is taken when it is needed.

        Raises:
            popart_exception: The program is ambiguous or can't be right.
        """
        self._engine = _core.Session(self._pb_ir, self._reference, self._remote_storage)

    def _ready(self) -> "_core.Session":
        """The engine, with its memory."""
        if self._engine is None:
            raise _core.popart_runtime_error("The session is not compiled; call prepareDevice first.")
        if not self._engine.attached:
            self._engine.attach()
            for tensor in self._pb_ir.getMainGraph().tensors_of_kind(_core.TensorKind.Variable.value):
                # The host's copy of a variable is the memory that weights are written to: there is no other.
                _core.log_trace(f"Reusing TensorData for d2hWeightBuffer of tensor {tensor.id}")
        return self._engine

    def _set_device(self, device: DeviceInfo) -> None:
        self._device = device

    def _check_device(self) -> None:
        have = (self._device._kind, self._device.numIpus)
        if have != self._compiled_for:
            raise _core.popart_runtime_error(
                f"The session was compiled for {self._compiled_for[1]} device(s) of kind "
                f"{self._compiled_for[0]!r}; it can't "
                f"run on {have[1]} of kind {have[0]!r}."
            )

    def _release(self) -> None:
        """Gives the engine's memory back."""
        if self._engine is not None:
            self._engine.detach()

    def weightsFromHost(self) -> None:
        """Copies the variables to the device."""
        self._check_device()
        engine = self._ready()
        _core.log_debug("Writing weights from host, ")
        engine.weights_from_host()
        self._host_is_behind = self._is_lost = False
        _core.log_debug("Writing weights from host complete.")

    def weightsToHost(self) -> None:
        """Copies the variables to the host.

        Raises:
            popart_runtime_error: A run failed half way, and the host's values are older than that run.
        """
        if self._is_lost:
            raise _core.popart_runtime_error(
                "The values of the variables are lost: a run failed half way, and the host's are older than those "
                "that it began with. Write all variables (write_variables_data), or go on with the host's "
                "(weights_from_host)."
            )
        engine = self._ready()
        _core.log_debug("Writing weights to host")
        engine.weights_to_host()
        self._host_is_behind = False
        _core.log_debug("Writing weights to host complete.")

    def initAnchorArrays(self) -> Dict[str, np.ndarray]:
        """Empty arrays for all streams to the host, by id: of shape (transfers, replicas, shape...), without
        1s in front."""
        lead = [n for n in (self._pb_ir.host_transfers, self._pb_ir.instance_replication_factor) if n != 1]
        streams = self._pb_ir.used_streams(_core.StreamDirection.DeviceToHost)
        return {t.id: np.empty((*lead, *t.shape), dtypes._BY_CODE[t.dtype_code].as_numpy()) for t in streams}

    def run(self, stepio: PyStepIO) -> None:
        """Runs the program once.

        Args:
            stepio: Arrays for all streams that the program uses.

        Raises:
            ValueError: One is missing, or too small.
        """
        buffers: List[Tuple[str, np.ndarray, int]] = []
        replicas = self._pb_ir.instance_replication_factor
        main = self._pb_ir.getMainGraph()
        copied = []
        for stream, array in [*stepio.inputs.items(), *stepio.outputs.items()]:
            tensor = main.getTensor(stream)
            size = replicas * tensor.nelms
            entries = array.size // size if size > 0 else self._pb_ir.host_transfers
            used = np.ascontiguousarray(array).reshape(array.shape)
            if used is not array and stream in stepio.outputs:
                copied.append((array, used))
            buffers.append((stream, used, entries))
        self._run_buffers(buffers)
        for array, used in copied:
            array[...] = used

    def _run_buffers(self, buffers: List[Tuple[str, np.ndarray, int]]) -> None:
        """Runs the program once, with a triple (stream id, C-contiguous array, transfers) for each stream."""
        engine = self._ready()
        try:
            engine.run(buffers)
        except BaseException:
            self._is_lost = engine.failed and self._host_is_behind
            raise
        self._host_is_behind = True
