"""Normalisations with statistics of their own input."""

from popxl.ops._build import one
from popxl.tensor import Tensor


def group_norm(t: Tensor, weight: Tensor, bias: Tensor, num_groups: int, eps: float = 1e-5) -> Tensor:
    """Every group of channels of a sample brought to mean 0 and variance 1.

    Then each channel is scaled and shifted.

    Args:
        t: Samples, channels, then any dimensions.
        weight: Scale of each channel.
        bias: Shift of each channel.
        num_groups: Number of groups; it divides the number of channels.
        eps: Added to the variance.

    Returns:
        The normalised tensor.
    """
    return one("group_norm", (t, weight, bias), {"num_groups": num_groups, "eps": eps})


def layer_norm(t: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Every sample brought to mean 0 and variance 1: `group_norm` of one group.

    Args:
        t: Samples, channels, then any dimensions.
        weight: Scale of each channel.
        bias: Shift of each channel.
        eps: Added to the variance.

    Returns:
        The normalised tensor.
    """
    return group_norm(t, weight, bias, 1, eps)
