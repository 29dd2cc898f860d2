"""ResNet-50 (He et al., arXiv:1512.03385; stride 2 on the 3x3 convolution of a block): its weights and its graph in popxl.

Images are (N, 3, H, W). Norms are given by the caller: batch norm with fixed statistics, or group norm.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import popxl
import popxl.ops as ops

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # width of the blocks, number of blocks
EXPANSION = 4
CLASSES = 1000
GROUPS = 32
EPSILON = 1e-5

Norm = Callable[[popxl.Tensor, dict, str], popxl.Tensor]


class Conv(NamedTuple):
    """A convolution without bias; a norm follows."""

    name: str
    inputs: int
    outputs: int
    kernel: int
    stride: int = 1


class Block(NamedTuple):
    """Three convolutions beside a shortcut, which is a convolution where the shape changes."""

    convs: tuple[Conv, Conv, Conv]
    shortcut: Conv | None


STEM = Conv("stem", 3, 64, 7, 2)


def blocks() -> Iterator[Block]:
    inputs = STEM.outputs
    for stage, (width, count) in enumerate(STAGES):
        for index in range(count):
            name, outputs = f"s{stage}b{index}", width * EXPANSION
            stride = 2 if stage > 0 and index == 0 else 1
            convs = (
                Conv(f"{name}c0", inputs, width, 1),
                Conv(f"{name}c1", width, width, 3, stride),
                Conv(f"{name}c2", width, outputs, 1),
            )
            yield Block(convs, Conv(f"{name}d", inputs, outputs, 1, stride) if index == 0 else None)
            inputs = outputs


def convolutions() -> list[Conv]:
    return [STEM, *(c for b in blocks() for c in (*b.convs, b.shortcut) if c is not None)]


def weights(rng: np.random.Generator, statistics: bool) -> dict[str, np.ndarray]:
    """Random weights of convolutions, norms and the classifier; with `statistics` a mean and variance for each norm."""
    result = {}
    for c in convolutions():
        deviation = np.sqrt(2 / (c.inputs * c.kernel**2))
        result[c.name] = rng.normal(0, deviation, (c.outputs, c.inputs, c.kernel, c.kernel))
        result[f"{c.name}_scale"] = rng.uniform(0.5, 1, c.outputs)
        result[f"{c.name}_shift"] = rng.normal(0, 0.1, c.outputs)
        if statistics:
            result[f"{c.name}_mean"] = rng.normal(0, 0.1, c.outputs)
            result[f"{c.name}_var"] = rng.uniform(0.5, 2, c.outputs)
    features = STAGES[-1][0] * EXPANSION
    result["fc"] = rng.normal(0, 1 / np.sqrt(features), (features, CLASSES))
    result["fc_b"] = np.zeros(CLASSES)
    return {name: value.astype(np.float32) for name, value in result.items()}


def flops_of_convolutions(image: int) -> Iterator[tuple[Conv, float]]:
    """Floating-point operations of each convolution's forward pass on one image."""
    size = image // STEM.stride
    yield STEM, 2 * STEM.outputs * size**2 * STEM.inputs * STEM.kernel**2
    size //= 2
    for block in blocks():
        before, size = size, size // block.convs[1].stride
        for c in (*block.convs, block.shortcut):
            if c is not None:
                positions = before if c is block.convs[0] else size
                yield c, 2 * c.outputs * positions**2 * c.inputs * c.kernel**2


def batch_norm(t: popxl.Tensor, w: dict, name: str) -> popxl.Tensor:
    parameters = [w[f"{name}_{p}"] for p in ("scale", "shift", "mean", "var")]
    return ops.batch_norm_inference(t, *parameters, EPSILON)


def group_norm(t: popxl.Tensor, w: dict, name: str) -> popxl.Tensor:
    return ops.group_norm(t, w[f"{name}_scale"], w[f"{name}_shift"], GROUPS, EPSILON)


def network(x: popxl.Tensor, w: dict, norm: Norm) -> popxl.Tensor:
    """Logits (N, classes) of images."""

    def conv(t: popxl.Tensor, c: Conv) -> popxl.Tensor:
        padding = c.kernel // 2
        return norm(ops.conv(t, w[c.name], (c.stride, c.stride), (padding,) * 4), w, c.name)

    x = ops.max_pool(ops.relu(conv(x, STEM)), (3, 3), stride=(2, 2), padding=(1, 1, 1, 1))
    for block in blocks():
        shortcut = x if block.shortcut is None else conv(x, block.shortcut)
        for c in block.convs[:-1]:
            x = ops.relu(conv(x, c))
        x = ops.relu(conv(x, block.convs[-1]) + shortcut)
    return ops.mean(x, (2, 3)) @ w["fc"] + w["fc_b"]
