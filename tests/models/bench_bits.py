"""Prints a hash of what each model of the benchmarks gives at a small size, as JSON: run with different numbers of threads."""

import hashlib
import json
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "examples")]
import ours  # noqa: E402
import work  # noqa: E402


def results(key: str, steps: int = 3) -> list[np.ndarray]:
    """The results of some steps, and the tensors that they change."""
    row = work.ALL[key]
    step = getattr(ours, key)(row.make(**row.small))
    found = []
    for _ in range(steps):
        result = step()
        found += [np.float64(result)] if isinstance(result, float) else map(np.copy, result.values())
    if isinstance(step, work.TrainingStep):
        found += step.weights().values()
    return found


def digest(key: str) -> str:
    total = hashlib.sha256()
    for array in results(key):
        assert np.isfinite(array).all(), key
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


if __name__ == "__main__":
    print(json.dumps({key: digest(key) for key in work.ALL}))
