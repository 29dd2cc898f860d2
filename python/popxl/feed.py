"""Inputs that are made while the program runs."""

import dataclasses
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, Union

import numpy as np

from popxl._host_arrays import to_input
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import HostScalarTensor

if TYPE_CHECKING:
    from popxl.session import Session

Batch = Dict[HostToDeviceStream, HostScalarTensor]


@dataclasses.dataclass
class FeedReport:
    """Where the time of a feed went so far, in seconds."""

    runs: int = 0
    running: float = 0.0  #: the program ran
    waiting: float = 0.0  #: the program waited for its input
    making: float = 0.0  #: the iterator made inputs
    full: float = 0.0  #: the iterator waited as enough inputs were ready

    @property
    def bound(self) -> str:
        """ "host" if making inputs takes the time, "device" if running the program does."""
        return "host" if self.waiting > self.full else "device"

    def __str__(self) -> str:
        total = self.running + self.waiting
        share = self.waiting / total if total else 0.0
        slow = "making inputs is slower than running" if self.bound == "host" else "inputs are ready in time"
        return (
            f"{self.bound}-bound: {slow}. {self.runs} runs in {total:.3f} s, of which {share:.1%} waiting for input; "
            f"inputs took {self.making:.3f} s to make"
        )


class _Failed:
    """Stands for the next input where making it failed."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


_END = object()
Item = Union[Batch, _Failed, object]


class Feed:
    """Runs a program once for each input of an iterator, which makes the next ones in a thread meanwhile.

    Made by `Session.feed`. Iterating over it gives the outputs of one run after the other; it can be done once.
    """

    def __init__(self, session: "Session", batches: Iterable[Batch], depth: int, downcast_inputs: bool) -> None:
        if depth < 1:
            raise ValueError(f"At least one input must be ready ahead, not {depth}.")
        self._session = session
        self._batches = batches
        self._downcast = downcast_inputs
        self._ready: "queue.Queue[Item]" = queue.Queue(depth)
        self._stop = threading.Event()
        self._begun = False
        self.report = FeedReport()

    def __iter__(self) -> Iterator[Dict[DeviceToHostStream, np.ndarray]]:
        """Inputs are made from when the first outputs are asked for.

        Raises:
            RuntimeError: It was iterated over before.
            ValueError: As for `Session.run`.
        """
        if self._begun:
            raise RuntimeError("A feed can be iterated over once; make another one for more inputs.")
        self._begun = True
        return self._runs()

    def _runs(self) -> Iterator[Dict[DeviceToHostStream, np.ndarray]]:
        report = self.report
        maker = threading.Thread(target=self._make, name="popxl-feed", daemon=True)
        maker.start()
        try:
            while True:
                began = time.perf_counter()
                batch = self._ready.get()
                taken = time.perf_counter()
                if batch is _END:
                    return
                if isinstance(batch, _Failed):
                    raise batch.error
                outputs = self._session.run(batch, self._downcast)
                report.waiting += taken - began
                report.running += time.perf_counter() - taken
                report.runs += 1
                yield outputs
        finally:
            self._stop.set()
            while maker.is_alive():  # it may wait for room
                self._drain()
                maker.join(0.01)

    def _drain(self) -> None:
        try:
            while True:
                self._ready.get_nowait()
        except queue.Empty:
            pass

    def _make(self) -> None:
        try:
            batches = iter(self._batches)
            while not self._stop.is_set():
                began = time.perf_counter()
                try:
                    batch: Any = {s: to_input(s, data, self._downcast) for s, data in next(batches).items()}
                except StopIteration:
                    batch = _END
                made = time.perf_counter()
                self._ready.put(batch)
                if batch is _END:
                    return
                self.report.making += made - began
                self.report.full += time.perf_counter() - made
        except BaseException as error:
            self._ready.put(_Failed(error))
