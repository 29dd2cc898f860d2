"""Where the time of a session's runs goes."""

import os
from typing import Any, List, Optional, Union

from popxl import _core
from popxl._core import MachinePeaks, ProfileEntry

__all__ = ["MachinePeaks", "Profile", "ProfileEntry"]


class Profile:
    """Where the time of a session's runs went. Made by `Session.profile`; complete when its context ends."""

    def __init__(self, engine: "_core.Session", peaks: Optional[MachinePeaks]) -> None:
        self._engine = engine
        self._given_peaks = peaks
        self._core: Optional["_core.Profile"] = None

    def __enter__(self) -> "Profile":
        """Begins to take the time of every instruction.

        Raises:
            ValueError: Another profile of the session is being taken.
        """
        self._engine.start_profile(self._given_peaks)
        self._core = None
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, exc_tb: Any) -> None:
        """Ends it."""
        self._core = self._engine.stop_profile()

    def _complete(self) -> "_core.Profile":
        if self._core is None:
            raise RuntimeError(
                "The profile is not complete: `with session.profile() as profile:` ends it after the runs."
            )
        return self._core

    @property
    def entries(self) -> List[ProfileEntry]:
        """The instructions that ran, the most expensive first.

        Raises:
            RuntimeError: The profile is not complete.
        """
        return self._complete().entries

    @property
    def runs(self) -> int:
        """How many runs were profiled.

        Raises:
            RuntimeError: The profile is not complete.
        """
        return self._complete().runs

    @property
    def seconds(self) -> float:
        """The time of all runs, without what Python does around them.

        Raises:
            RuntimeError: The profile is not complete.
        """
        return self._complete().seconds

    @property
    def peaks(self) -> MachinePeaks:
        """What the instructions are compared with.

        Raises:
            RuntimeError: The profile is not complete.
        """
        return self._complete().peaks

    def table(self, limit: int = 40) -> str:
        """The most expensive instructions as a table.

        Args:
            limit: How many at most.

        Returns:
            Time a run and its share, calls a run, time a call beside what the cost model predicts, operations and
            bytes moved a call, the share of the machine's peak, ops, kernel, graph and the user's line.

        Raises:
            RuntimeError: The profile is not complete.
        """
        return self._complete().table(limit)

    def __str__(self) -> str:
        return self.table()

    def chrome_trace(self) -> str:
        """The runs as JSON for ui.perfetto.dev or chrome://tracing: every instruction as a slice, calls around what
        they run. The first million slices are there.

        Raises:
            RuntimeError: The profile is not complete.
        """
        return self._complete().chrome_trace()

    def save_trace(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes `chrome_trace` to a file.

        Args:
            path: The file.

        Raises:
            RuntimeError: The profile is not complete.
            OSError: The file can't be written.
        """
        trace = self.chrome_trace()
        with open(path, "w", encoding="utf-8") as file:
            file.write(trace)
