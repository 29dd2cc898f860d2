"""What goes in and out of a run."""

from typing import Dict, Mapping, Optional, Union

import numpy as np


class AnchorReturnType:
    """Which values of a tensor are returned. Every one is: "All" is the only kind that programs of this
    package use."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        """Names the kind.

        Args:
            name: "All", in any case.

        Raises:
            ValueError: It is another one.
        """
        if name.lower() != "all":
            raise ValueError(f'The anchor return type must be "All", not {name!r}.')
        self._name = name

    def __repr__(self) -> str:
        return f"AnchorReturnType({self._name!r})"


class DataFlow:
    """How many tensors each stream transfers in one run, and which streams go to the host."""

    __slots__ = ("_batches_per_step", "_anchors")

    def __init__(
        self,
        batchesPerStep: int = 1,
        anchorTensors: Optional[Mapping[str, Union[AnchorReturnType, str]]] = None,
    ) -> None:
        """Describes the transfers.

        Args:
            batchesPerStep: Tensors of each stream in one run.
            anchorTensors: Ids of the streams to the host.
        """
        self._batches_per_step = batchesPerStep
        self._anchors: Dict[str, Union[AnchorReturnType, str]] = dict(anchorTensors or {})

    def batchesPerStep(self) -> int:
        """Tensors of each stream in one run."""
        return self._batches_per_step

    def setBatchesPerStep(self, value: int) -> None:
        """Sets the tensors of each stream in one run."""
        self._batches_per_step = value

    def anchors(self) -> Dict[str, Union[AnchorReturnType, str]]:
        """Ids of the streams to the host."""
        return self._anchors


class PyStepIO:
    """Arrays for one run, by stream id: each load of a stream takes the next entry, each store fills the
    next."""

    __slots__ = ("inputs", "outputs")

    def __init__(self, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> None:
        """Names the arrays.

        Args:
            inputs: Arrays that the program reads.
            outputs: Arrays that it fills.
        """
        self.inputs = dict(inputs)
        self.outputs = dict(outputs)

    def enableRuntimeAsserts(self, enable: bool) -> None:
        """Accepted; sizes and dtypes are always checked.

        Args:
            enable: Not used.
        """
