"""Negative log likelihood losses."""

from typing import Optional, Tuple, Union

from popxl import dtypes
from popxl.ops._build import many
from popxl.ops._generated import nll_loss
from popxl.tensor import Tensor

#: How the losses of rows are reduced, by the names that the functions take.
REDUCTION_MAP = {"mean": "Mean", "sum": "Sum", "none": "NoReduction"}
#: The type of the argument `reduction`: "mean", "sum" or "none".
REDUCTION_TYPE = str

__all__ = ["REDUCTION_MAP", "REDUCTION_TYPE", "nll_loss", "nll_loss_with_softmax_grad"]


def nll_loss_with_softmax_grad(
    probs: Tensor,
    labels: Tensor,
    loss_grad: Union[float, Tensor] = 1,
    ignore_index: Optional[int] = None,
    reduction: REDUCTION_TYPE = "mean",
) -> Tuple[Tensor, Tensor]:
    """The loss of the result of a softmax, and the gradient with respect to the operand of the softmax.

    Args:
        probs: Result of the softmax, the classes in the last dimension.
        labels: The true class of each row.
        loss_grad: Gradient of the loss.
        ignore_index: Rows with this label do not count.
        reduction: "mean" over the rows, "sum" of them, or "none" for one loss a row.

    Returns:
        The loss and the gradient.

    Raises:
        ValueError: The reduction is unknown.
    """
    grad = probs._ensure_tensor(loss_grad, dtypes.float32)
    attributes = {"ignore_index": ignore_index, "reduction": reduction}
    loss, dx = many("nll_loss_with_softmax_grad", (probs, labels, grad), attributes, False, ("loss", "dx"))
    return loss, dx
