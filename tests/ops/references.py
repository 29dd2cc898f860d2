"""What ops mean, written with NumPy in float64."""

import itertools
import math

import numpy as np

erf = np.vectorize(math.erf, otypes=[float])


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


def float8_values(name):
    """The values of the bits 0x00 to 0x7f: an exponent with bias 8 or 16, then the fraction; no infinity."""
    fraction_bits, bias = {"float8_143": (3, 8), "float8_152": (2, 16)}[name]
    bits = np.arange(128)
    exponent, fraction = bits >> fraction_bits, bits % (1 << fraction_bits)
    significand = np.where(exponent > 0, (1 << fraction_bits) + fraction, fraction)
    return np.ldexp(significand.astype(float), np.maximum(exponent, 1) - bias - fraction_bits)


def float8(array):
    """Values of float8 elements. 0x80 is the only NaN."""
    (name,) = array.dtype.names
    bits = array.view("u1")
    values = np.where(bits & 0x80, -1.0, 1.0) * float8_values(name)[bits & 0x7F]
    return np.where(bits == 0x80, np.nan, values)


def to_float8(x, name):
    """Bits of the nearest float8 elements; of two that are as near the one with even bits."""
    values = float8_values(name)
    largest = 2 * values[-1] - values[-2]  # the number behind the last: what is nearer to it overflows
    magnitudes = np.append(values, largest)
    above = np.clip(np.searchsorted(magnitudes, np.abs(np.nan_to_num(x))), 1, len(values))
    low, high = np.abs(x) - magnitudes[above - 1], magnitudes[above] - np.abs(x)
    bits = np.where((low < high) | ((low == high) & (above % 2 == 1)), above - 1, above)
    bits = np.where(~np.isfinite(x) | (bits == len(values)), 0x80, bits + 0x80 * ((x < 0) & (bits > 0)))
    return bits.astype("u1")


def conv_transpose(x, weight, stride, padding, dilation, groups=1, extra=None):
    dims = x.ndim - 2
    window, sizes = weight.shape[2:], x.shape[2:]
    full = [
        stride[i] * (sizes[i] - 1) + dilation[i] * (window[i] - 1) + 1 + (extra[i] if extra else 0)
        for i in range(dims)
    ]
    per_in, per_out = x.shape[1] // groups, weight.shape[1]
    out = np.zeros((x.shape[0], per_out * groups, *full))
    for place in itertools.product(*map(range, sizes)):
        for tap in itertools.product(*map(range, window)):
            at = tuple(p * s + t * d for p, s, t, d in zip(place, stride, tap, dilation))
            for g in range(groups):
                ins = slice(g * per_in, (g + 1) * per_in)
                part = x[(slice(None), ins, *place)] @ weight[(ins, slice(None), *tap)]
                out[(slice(None), slice(g * per_out, (g + 1) * per_out), *at)] += part
    for i in range(dims):  # negative padding adds zeros
        around = [(0, 0)] * out.ndim
        around[2 + i] = (max(-padding[i], 0), max(-padding[i + dims], 0))
        out = np.pad(out, around)
        begin, end = max(padding[i], 0), max(padding[i + dims], 0)
        out = np.moveaxis(np.moveaxis(out, 2 + i, 0)[begin : out.shape[2 + i] - end], 0, 2 + i)
    return out


def _place(i, transformation, size, count, scale):
    x, scale = np.float32(i), np.float32(scale)
    if transformation == "asymmetric":
        return x / scale
    if transformation in ("align_corners", "tf_crop_and_resize"):
        if count == 1:
            return np.float32(0 if transformation == "align_corners" else (size - 1) / 2)
        return x * np.float32(size - 1) / np.float32(count - 1)
    if transformation == "pytorch_half_pixel" and count == 1:
        return np.float32(0)
    return (x + np.float32(0.5)) / scale - np.float32(0.5)


def _weights(mode, nearest_mode, x):
    """Elements and their weights, elements beyond the ends included."""
    if mode == "nearest":
        half = np.float32(0.5)
        rounds = {
            "floor": np.floor,
            "ceil": np.ceil,
            "round_prefer_floor": lambda v: np.ceil(v - half),
            "round_prefer_ceil": lambda v: np.floor(v + half),
        }
        return [(int(rounds[nearest_mode](x)), 1.0)]
    low = int(np.floor(x))
    part = float(x) - low
    if mode == "linear":
        return [(low, 1 - part), (low + 1, part)]

    def cubic(d, a=-0.75):
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a

    return [(low + k, cubic(abs(k - part))) for k in (-1, 0, 1, 2)]


def interpolate(x, scales, mode="nearest", nearest_mode="round_prefer_floor", transformation="half_pixel"):
    for axis, scale in enumerate(scales):
        if scale == 1:
            continue
        size = x.shape[axis]
        count = int(np.floor(np.float32(size) * np.float32(scale)))
        matrix = np.zeros((count, size))
        for i in range(count):
            place = _place(i, transformation, size, count, scale)
            for element, weight in _weights(mode, nearest_mode, place):
                matrix[i, min(max(element, 0), size - 1)] += weight
        x = np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
    return x


def roi_align(x, rois, images, bins, scale, samples):
    height, width = x.shape[2:]
    out = np.zeros((len(rois), x.shape[1], *bins))

    def sample(image, row, column):
        if not (-1 <= row <= height and -1 <= column <= width):
            return 0.0
        row, column = min(max(row, 0), height - 1), min(max(column, 0), width - 1)
        top, left = int(row), int(column)
        below, right = min(top + 1, height - 1), min(left + 1, width - 1)
        v, u = row - top, column - left
        upper = (1 - u) * image[:, top, left] + u * image[:, top, right]
        lower = (1 - u) * image[:, below, left] + u * image[:, below, right]
        return (1 - v) * upper + v * lower

    for r, (roi, index) in enumerate(zip(rois, images)):
        if not 0 <= index < len(x):
            continue
        left, top = roi[0] * scale, roi[1] * scale
        step = [np.fmax(roi[3] * scale - top, 1) / bins[0], np.fmax(roi[2] * scale - left, 1) / bins[1]]
        if np.isnan(roi).any():
            step = [np.nan, np.nan]
        for row, column in np.ndindex(*bins):
            for v, u in np.ndindex(samples, samples):
                down, across = row + (v + 0.5) / samples, column + (u + 0.5) / samples
                value = sample(x[index], top + down * step[0], left + across * step[1])
                out[r, :, row, column] += value / samples**2
    return out


def scatter(x, indices, values, axis=0):
    out = x.copy()
    for at in np.ndindex(*indices.shape):
        place = list(at)
        place[axis] = indices[at]
        if -x.shape[axis] <= place[axis] < x.shape[axis]:
            out[tuple(place)] = values[at]
    return out


def scatter_reduce(data, indices, reduction, initial=None, axis=0, axis_size=None, broadcast=True):
    axis %= data.ndim
    if indices.ndim == 1:
        indices = indices.reshape((1,) * axis + indices.shape)
    indices = indices.reshape(indices.shape + (1,) * (data.ndim - indices.ndim))
    if broadcast:
        indices = np.broadcast_to(indices, data.shape)
    shape = list(indices.shape)
    shape[axis] = axis_size
    out = np.zeros(shape) if initial is None else initial.copy()
    arrived = np.full(out.shape, initial is not None)
    combine = {"sum": np.add, "max": np.maximum, "min": np.minimum, "none": lambda a, b: b}[reduction]
    for at in np.ndindex(*indices.shape):
        place = list(at)
        place[axis] = indices[at]
        if not 0 <= place[axis] < out.shape[axis]:
            continue
        place = tuple(place)
        out[place] = combine(out[place], data[at]) if arrived[place] else data[at]
        arrived[place] = True
    return out


def grouped_gather(x, indices, axis, zero_out_of_range=False):
    parts = [gather(part, index, axis - 1, zero_out_of_range) for part, index in zip(x, indices)]
    return np.stack(parts)
