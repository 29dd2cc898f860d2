"""What ops mean, written with NumPy in float64."""

import itertools
import math

import numpy as np

erf = np.vectorize(math.erf)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def geluerf(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def swish(x):
    return x / (1 + np.exp(-x))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def axes_of(axis, rank):
    if axis is None:
        return tuple(range(rank))
    return tuple(a % rank for a in ((axis,) if isinstance(axis, int) else axis))


def median(x, axis=None, keepdims=False):
    axes = axes_of(axis, x.ndim)
    rest = [a for a in range(x.ndim) if a not in axes]
    rows = np.sort(np.transpose(x, (*rest, *axes)).reshape([x.shape[a] for a in rest] + [-1]), -1)
    out = rows[..., (rows.shape[-1] - 1) // 2]
    return np.expand_dims(out, axes) if keepdims else out


def group_norm(x, weight, bias, groups, eps=1e-5):
    n, c = x.shape[:2]
    rows = x.reshape(n, groups, -1)
    out = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + eps)
    along = (1, c) + (1,) * (x.ndim - 2)
    return out.reshape(x.shape) * weight.reshape(along) + bias.reshape(along)


def batch_norm(x, scale, bias, mean, var, eps=1e-5):
    along = (1, -1) + (1,) * (x.ndim - 2)
    scale, bias, mean, var = (p.reshape(along) for p in (scale, bias, mean, var))
    return (x - mean) / np.sqrt(var + eps) * scale + bias


def geometry(sizes, window, stride, padding, dilation, ceil_mode=False):
    """Begin padding and number of windows of each spatial dimension."""
    dims = len(window)
    out = []
    for i in range(dims):
        reach = dilation[i] * (window[i] - 1) + 1
        room = sizes[i] + padding[i] + padding[i + dims] - reach
        out.append((-(-room // stride[i]) if ceil_mode else room // stride[i]) + 1)
    return padding[:dims], out


def windows(x, window, stride, padding, dilation, ceil_mode=False):
    """For every place of the window, its index and the elements of x that are inside."""
    sizes = x.shape[-len(window) :]
    begin, counts = geometry(sizes, window, stride, padding, dilation, ceil_mode)
    for place in itertools.product(*map(range, counts)):
        elements = []
        for tap in itertools.product(*map(range, window)):
            at = tuple(p * s + t * d - b for p, s, t, d, b in zip(place, stride, tap, dilation, begin))
            if all(0 <= a < size for a, size in zip(at, sizes)):
                elements.append((tap, x[(..., *at)]))
        yield place, elements


def conv(x, weight, stride, padding, dilation, groups=1):
    dims = x.ndim - 2
    window = weight.shape[2:]
    _, counts = geometry(x.shape[2:], window, stride, padding, dilation)
    out = np.zeros((x.shape[0], weight.shape[0], *counts))
    per_in, per_out = x.shape[1] // groups, weight.shape[0] // groups
    assert len(window) == dims
    for place, elements in windows(x, window, stride, padding, dilation):
        for tap, values in elements:
            for g in range(groups):
                outs = slice(g * per_out, (g + 1) * per_out)
                part = values[:, g * per_in : (g + 1) * per_in] @ weight[(outs, slice(None), *tap)].T
                out[(slice(None), outs, *place)] += part
    return out


def pool(x, reduce, window, stride, padding, dilation, ceil_mode=False):
    _, counts = geometry(x.shape[2:], window, stride, padding, dilation, ceil_mode)
    out = np.zeros((*x.shape[:2], *counts))
    for place, elements in windows(x, window, stride, padding, dilation, ceil_mode):
        out[(..., *place)] = reduce(np.stack([values for _, values in elements]), axis=0)
    return out


def nll(probs, labels, ignore_index=None, reduction="mean", log_prob=False):
    logs = probs if log_prob else np.log(probs)
    losses = -np.take_along_axis(logs, labels[..., None], -1)[..., 0]
    counts = np.ones(labels.shape) if ignore_index is None else labels != ignore_index
    losses = np.where(counts, losses, 0)
    if reduction == "none":
        return losses
    return losses.sum() / (counts.sum() if reduction == "mean" else 1)


def nll_softmax_grad(probs, labels, loss_grad, ignore_index=None, reduction="mean"):
    counts = np.ones(labels.shape) if ignore_index is None else (labels != ignore_index).astype(float)
    dx = (probs - np.eye(probs.shape[-1])[labels]) * counts[..., None] * loss_grad
    return dx / counts.sum() if reduction == "mean" else dx


def onehot(t, values, classes, axis):
    return np.moveaxis(np.where(np.arange(classes) == t[..., None], values[1], values[0]), -1, axis)


def gather(x, indices, axis=0, zero_out_of_range=False):
    inside = (indices >= 0) & (indices < x.shape[axis])
    out = np.take(x, np.where(inside, indices, 0), axis)
    if zero_out_of_range:
        around = (1,) * (axis % x.ndim), (1,) * (x.ndim - 1 - axis % x.ndim)
        out = np.where(inside.reshape((*around[0], *inside.shape, *around[1])), out, 0)
    return out


def window_of(shape, index, axes, sizes):
    parts = [slice(None)] * len(shape)
    for at, axis, size in zip(index, axes, sizes):
        parts[axis] = slice(int(at), int(at) + size)
    return tuple(parts)


def dynamic_update(x, index, update, axes, sizes):
    out = x.copy()
    out[window_of(x.shape, index, axes, sizes)] = update
    return out


def adam(m, v, weight=None, step=None, decay=0.0, beta1=None, beta2=None, eps=1e-7, adamax=False):
    if step is not None:
        step = float(step)
        m = m / (1 - beta1 ** (step + 1))
        v = v if adamax else v / (1 - beta2 ** (step + 1))
    out = m / ((v if adamax else np.sqrt(v)) + eps)
    return out if weight is None else out + decay * weight


def adam_var_update(t, x, r1, r2, rate, limit=None):
    ratio = 1.0
    if limit is not None and r1 != 0 and r2 != 0 and limit != 0:
        ratio = min(math.sqrt(r1), limit) / math.sqrt(r2)
    return t - rate * ratio * x


def float8(array):
    """Values of float8_143 elements: sign, 4 bits of exponent with bias 8, 3 bits of fraction; no infinities."""
    bits = array.view("u1").astype(int)
    sign = np.where(bits & 0x80, -1.0, 1.0)
    exponent, fraction = (bits >> 3) & 0xF, bits & 7
    return sign * np.where(exponent > 0, (8 + fraction) * 2.0 ** (exponent - 11), fraction * 2.0**-10)
