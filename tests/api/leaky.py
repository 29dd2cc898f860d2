"""A leaky ReLU as functions on arrays and on tensors, for the tests of ops of a program's own."""

import itertools

import numpy as np

import popxl
from popxl import ops

_numbers = itertools.count()


def fresh(stem: str) -> str:
    """A name that no op has: they live as long as the process."""
    return f"{stem}_{next(_numbers)}"


def leaky_array(x, *, alpha: float = 0.01):
    """x where it is positive, alpha x elsewhere."""
    return np.where(x > 0, x, x * x.dtype.type(alpha))


def leaky_array_gradient(grad, x, *, alpha):
    return np.where(x > 0, grad, grad * grad.dtype.type(alpha))


def leaky_tensor(x, *, alpha: float = 0.01):
    return ops.maximum(x, x * alpha)


def leaky_tensor_gradient(grad, x, *, alpha):
    zero = popxl.constant(0, x.dtype)
    return ops.where(ops.greater(x, zero), grad, grad * alpha)
