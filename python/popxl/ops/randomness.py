"""Random seeds."""

from typing import Tuple

from popxl import dtypes
from popxl.ops._build import one
from popxl.tensor import Tensor, constant


def _check_seed(seed: Tensor) -> None:
    if seed.shape != (2,) or seed.dtype != dtypes.uint32:
        raise ValueError(
            f"A seed has shape (2,) and dtype uint32; tensor {seed.id} is {seed.dtype} of shape {seed.shape}."
        )


def create_random_seed(seed: Tensor, modifier: Tensor) -> Tensor:
    """A seed made from another: different modifiers give independent seeds.

    Args:
        seed: A seed, two uint32 numbers.
        modifier: An integer scalar.

    Returns:
        A seed.

    Raises:
        ValueError: `seed` is none.
    """
    _check_seed(seed)
    return one("modify_random_seed", (seed, modifier), names=("modified_seed",))


def split_random_seed(seed: Tensor, n: int = 2) -> Tuple[Tensor, ...]:
    """Independent seeds made from one.

    Args:
        seed: A seed, two uint32 numbers.
        n: How many.

    Returns:
        The seeds.

    Raises:
        ValueError: `seed` is none.
    """
    _check_seed(seed)
    return tuple(create_random_seed(seed, constant(i, dtypes.uint32)) for i in range(n))
