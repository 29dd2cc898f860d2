"""A record of what programs make and where, as a JSON file."""

import json
import os
from typing import Optional

from popxl import _core

_file: Optional[str] = None


def initializePoplarDebugInfo(filename: str, format: str = "json") -> None:
    """Starts a record.

    Args:
        filename: The file to write.
        format: "json".

    Raises:
        ValueError: The format is another one.
    """
    global _file
    if format != "json":
        raise ValueError(f'The format must be "json", not {format!r}.')
    _file = os.fspath(filename)
    _core.start_debug_info()


def closePoplarDebugInfo() -> None:
    """Ends the record and writes the file: an object with "contexts", one for each Ir, tensor and op that was
    made, and "stringTable", to which file and function names in the contexts refer."""
    global _file
    if _file is None:
        return
    contexts, strings = _core.stop_debug_info()
    with open(_file, "w", encoding="utf-8") as out:
        json.dump({"contexts": contexts, "stringTable": strings}, out)
    _file = None
