"""What the benchmarks found: printed line by line, and kept to be written as JSON."""

import json
import pathlib
from typing import Any


class Report:
    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def add(self, line: str, **record: Any) -> None:
        """Prints a line; the record is the same for programs."""
        print(line, flush=True)
        self.records.append(record)

    def write(self, path: pathlib.Path) -> None:
        path.write_text(json.dumps(self.records, indent=1) + "\n")
