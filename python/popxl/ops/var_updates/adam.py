"""Steps of Adam, AdaMax and LAMB."""

from typing import Optional, Union

from popxl.ops._build import one
from popxl.ops.var_updates.accumulate import as_operand
from popxl.tensor import Tensor

_Number = Union[float, Tensor]


def _decays(weight_decay: Optional[_Number]) -> bool:
    return isinstance(weight_decay, Tensor) or weight_decay not in (None, 0)


def _updater(
    mode: str,
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Optional[Tensor],
    time_step: Optional[Tensor],
    weight_decay: Optional[_Number],
    beta1: Optional[_Number],
    beta2: Optional[_Number],
    epsilon: _Number,
) -> Tensor:
    operands = {"weight_decay": weight_decay, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}
    tensors = []
    attributes = {"mode": mode}
    for name, value in operands.items():
        tensor, attributes[f"{name}_value"] = as_operand(value)
        tensors.append(tensor)
    return one(
        "adam_updater",
        (acc_first_order, acc_second_order, weight if _decays(weight_decay) else None, time_step, *tensors),
        attributes,
        False,
        ("Updater",),
    )


def adam_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Optional[Tensor] = None,
    time_step: Optional[Tensor] = None,
    weight_decay: Optional[_Number] = None,
    beta1: Optional[_Number] = None,
    beta2: Optional[_Number] = None,
    epsilon: _Number = 1e-07,
) -> Tensor:
    """The term by which Adam changes a weight: m / (sqrt(v) + epsilon) + weight_decay weight.

    With a time step t, which is counted up first, m and v are divided by 1 - beta1^t and 1 - beta2^t.

    Args:
        acc_first_order: First moment, m.
        acc_second_order: Second moment, v.
        weight: The weight; needed for weight decay.
        time_step: Number of steps so far; by default the moments are not corrected for their bias.
        weight_decay: Factor of the weight; by default 0.
        beta1: Decay of the first moment; needed with a time step.
        beta2: Decay of the second moment; needed with a time step.
        epsilon: Added to the denominator.

    Returns:
        The term, for `adam_var_update`.

    Raises:
        ValueError: Something needed is missing.
    """
    return _updater(
        "adam", acc_first_order, acc_second_order, weight, time_step, weight_decay, beta1, beta2, epsilon
    )


def lamb_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Optional[Tensor] = None,
    time_step: Optional[Tensor] = None,
    weight_decay: Optional[_Number] = None,
    beta1: Optional[_Number] = None,
    beta2: Optional[_Number] = None,
    epsilon: _Number = 1e-07,
) -> Tensor:
    """The term by which LAMB changes a weight: that of `adam_updater`, before the trust ratio.

    Args:
        acc_first_order: First moment.
        acc_second_order: Second moment.
        weight: The weight; needed for weight decay.
        time_step: Number of steps so far; by default the moments are not corrected for their bias.
        weight_decay: Factor of the weight; by default 0.
        beta1: Decay of the first moment; needed with a time step.
        beta2: Decay of the second moment; needed with a time step.
        epsilon: Added to the denominator.

    Returns:
        The term, for `adam_var_update`.

    Raises:
        ValueError: Something needed is missing.
    """
    return _updater(
        "lamb", acc_first_order, acc_second_order, weight, time_step, weight_decay, beta1, beta2, epsilon
    )


def adamax_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Optional[Tensor] = None,
    time_step: Optional[Tensor] = None,
    weight_decay: Optional[_Number] = None,
    beta1: _Number = 0.9,
    epsilon: _Number = 1e-07,
) -> Tensor:
    """The term by which AdaMax changes a weight: m / (1 - beta1^t) / (v + epsilon) + weight_decay weight.

    Args:
        acc_first_order: First moment, m.
        acc_second_order: Infinity norm, v.
        weight: The weight; needed for weight decay.
        time_step: Number of steps so far, t; counted up first. It is needed.
        weight_decay: Factor of the weight; by default 0.
        beta1: Decay of the first moment.
        epsilon: Added to the denominator.

    Returns:
        The term, for `adam_var_update`.

    Raises:
        ValueError: The time step is missing, or the weight that weight decay needs.
    """
    return _updater(
        "adamax", acc_first_order, acc_second_order, weight, time_step, weight_decay, beta1, None, epsilon
    )


def adam_var_update(
    t: Tensor,
    x: Tensor,
    r1: Tensor,
    r2: Tensor,
    learning_rate: Optional[_Number] = None,
    max_weight_norm: Optional[_Number] = None,
) -> Tensor:
    """t becomes t - learning_rate ratio x, with the trust ratio min(sqrt(r1), max_weight_norm) / sqrt(r2).

    The ratio is 1 where one of these numbers is 0 or the largest norm is not given.

    Args:
        t: The weight.
        x: The term from `adam_updater`, `lamb_updater` or `adamax_updater`.
        r1: Sum of squares of the weight: `ops.lamb_square` of it.
        r2: Sum of squares of the term.
        learning_rate: The learning rate.
        max_weight_norm: Largest norm of the weight that counts.

    Returns:
        The weight after the update.
    """
    rate, rate_value = as_operand(learning_rate)
    norm, norm_value = as_operand(max_weight_norm)
    attributes = {"learning_rate_value": rate_value, "max_weight_norm_value": norm_value}
    return one("adam_var_update", (t, x, r1, r2, rate, norm), attributes)
