"""Gradient graphs that compute forward values again."""

from popxl import _core
from popxl.transforms.autodiff import GradGraphInfo


def recompute(info: GradGraphInfo) -> GradGraphInfo:
    """Makes a gradient graph that reads only inputs of its forward graph, besides gradients.

    Other tensors of the forward graph it computes again, so that they need not be kept between the two.
    Results of ops with effects (loads, collectives, prints) are still taken from the forward graph.

    Args:
        info: A gradient graph, which stays as it is.

    Returns:
        The info of the new gradient graph.
    """
    return GradGraphInfo._from_pb(_core.recompute(info._pb_info))
