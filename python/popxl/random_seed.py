"""Seeds for random ops."""

from typing import Tuple

import numpy as np

MAX_UINT64 = 2**64 - 1
_MAX_UINT32 = 2**32 - 1


def create_seeds(
    seed: int,
    offset: int = 0,
    batches_per_step: int = 1,
    gradient_accumulation_factor: int = 1,
    replicas: int = 1,
) -> np.ndarray:
    """Makes independent seeds from one number.

    Args:
        seed: The number; the same one gives the same seeds.
        offset: Added to `seed`.
        batches_per_step: Number of batches a step.
        gradient_accumulation_factor: Number of micro-batches a batch.
        replicas: Number of replicas.

    Returns:
        uint32 array of shape (batches_per_step, gradient_accumulation_factor, replicas, 2) without the
        dimensions of size 1; each seed is two uint32, the more significant one first.

    Raises:
        ValueError: The number is negative or no integer.

    Examples:
        >>> popxl.create_seeds(42).shape, popxl.create_seeds(42, batches_per_step=10, replicas=2).shape
        ((2,), (10, 2, 2))
    """
    if not isinstance(seed, (int, np.integer)) or seed + offset < 0:
        raise ValueError(
            f"Seeds are made from an integer that is not negative, not from {seed!r} + {offset!r}."
        )
    shape = (batches_per_step, gradient_accumulation_factor, replicas)
    generator = np.random.default_rng(seed + offset)
    drawn = generator.integers(0, MAX_UINT64, endpoint=True, dtype=np.uint64, size=shape)
    words = np.stack([drawn >> np.uint64(32), drawn & np.uint64(_MAX_UINT32)], axis=-1)
    return np.squeeze(words.astype(np.uint32))


def uint64_to_two_uint32(num: int) -> Tuple[int, int]:
    """Splits a uint64.

    Args:
        num: A number in [0, 2**64).

    Returns:
        The more and the less significant 32 bits.

    Raises:
        ValueError: The number is outside the range.
    """
    if not 0 <= num <= MAX_UINT64:
        raise ValueError(f"{num} is not in the range of a uint64, [0, {MAX_UINT64}].")
    return num >> 32, num & _MAX_UINT32


def two_uint32_to_uint64(a: int, b: int) -> int:
    """Joins two uint32: the inverse of `uint64_to_two_uint32`.

    Args:
        a: The more significant 32 bits.
        b: The less significant 32 bits.

    Raises:
        ValueError: One of them is outside [0, 2**32).
    """
    if not (0 <= a <= _MAX_UINT32 and 0 <= b <= _MAX_UINT32):
        raise ValueError(f"{a} and {b} are not both in the range of a uint32, [0, {_MAX_UINT32}].")
    return a << 32 | b
