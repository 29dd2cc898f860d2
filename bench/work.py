"""What the benchmarks compute: sizes, initial weights and data, the same for everyone, from one seed."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import resnet

Arrays = dict[str, np.ndarray]


class Work(NamedTuple):
    """One row of the table."""

    name: str
    weights: Arrays
    data: Arrays
    flops: float  # multiply-adds of products and convolutions counted twice, forward and backward


class TrainingStep(NamedTuple):
    """A step that changes weights: runs once and returns the loss before it."""

    run: Callable[[], float]
    weights: Callable[[], Arrays]

    def __call__(self) -> float:
        return self.run()


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    fan_in = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
    return rng.normal(0, 1 / np.sqrt(fan_in), shape).astype(np.float32)


def mlp(batch: int = 64, sizes: tuple[int, ...] = (784, 512, 10), seed: int = 1) -> Work:
    """Two linear layers with relu between, softmax cross-entropy, one step of plain gradient descent."""
    rng = np.random.default_rng(seed)
    weights = {}
    for i, (n, m) in enumerate(zip(sizes, sizes[1:])):
        weights[f"w{i}"] = _normal(rng, n, m)
        weights[f"b{i}"] = np.zeros(m, np.float32)
    data = {
        "x": rng.normal(size=(batch, sizes[0])).astype(np.float32),
        "labels": rng.integers(0, sizes[-1], batch).astype(np.int32),
    }
    products = sum(2 * batch * n * m for n, m in zip(sizes, sizes[1:]))
    return Work("MLP 784-512-10 SGD step, batch 64", weights, data, 3 * products - 2 * batch * sizes[0] * sizes[1])


def lenet(batch: int = 64, seed: int = 2) -> Work:
    """The demo's network: two 5x5 convolutions with 2x2 max pooling, two linear layers, one SGD step."""
    rng = np.random.default_rng(seed)
    weights = {
        "c0": _normal(rng, 16, 1, 5, 5), "d0": np.zeros((16, 1, 1), np.float32),
        "c1": _normal(rng, 32, 16, 5, 5), "d1": np.zeros((32, 1, 1), np.float32),
        "w0": _normal(rng, 512, 96), "b0": np.zeros(96, np.float32),
        "w1": _normal(rng, 96, 10), "b1": np.zeros(10, np.float32),
    }  # fmt: skip
    data = {
        "x": rng.normal(size=(batch, 1, 28, 28)).astype(np.float32),
        "labels": rng.integers(0, 10, batch).astype(np.int32),
    }
    first = 2 * batch * 16 * 24 * 24 * 25
    rest = 2 * batch * (32 * 8 * 8 * 16 * 25 + 512 * 96 + 96 * 10)
    return Work("MNIST (LeNet) SGD step, batch 64", weights, data, 2 * first + 3 * rest)


def encoder(batch: int = 8, tokens: int = 128, width: int = 768, heads: int = 12, seed: int = 3) -> Work:
    """A post-norm transformer encoder layer, forward and gradients of all weights and the input."""
    rng = np.random.default_rng(seed)
    inner = 4 * width
    weights = {
        "qkv": _normal(rng, width, 3 * width), "qkv_b": np.zeros(3 * width, np.float32),
        "out": _normal(rng, width, width), "out_b": np.zeros(width, np.float32),
        "up": _normal(rng, width, inner), "up_b": np.zeros(inner, np.float32),
        "down": _normal(rng, inner, width), "down_b": np.zeros(width, np.float32),
        "n0": np.ones(width, np.float32), "n0_b": np.zeros(width, np.float32),
        "n1": np.ones(width, np.float32), "n1_b": np.zeros(width, np.float32),
    }  # fmt: skip
    data = {
        "x": rng.normal(size=(batch, tokens, width)).astype(np.float32),
        "dy": rng.normal(size=(batch, tokens, width)).astype(np.float32),
        "heads": np.int64(heads),
    }
    rows = batch * tokens
    products = 2 * rows * width * (3 * width + width + 2 * inner) + 2 * 2 * batch * tokens * tokens * width
    return Work("encoder layer forward + backward (768, 12 heads, 8 x 128)", weights, data, 3 * products)


def _resnet(name: str, batch: int, image: int, training: bool, seed: int) -> Work:
    rng = np.random.default_rng(seed)
    data = {"x": rng.normal(size=(batch, 3, image, image)).astype(np.float32)}
    if training:
        data["labels"] = rng.integers(0, resnet.CLASSES, batch).astype(np.int32)
    flops = sum(f * (3 if training else 1) for _, f in resnet.flops_of_convolutions(image))
    if training:
        flops -= next(resnet.flops_of_convolutions(image))[1]  # nobody asks for the gradient of the images
    return Work(name, resnet.weights(rng, not training), data, batch * flops)


def resnet_forward(batch: int = 1, image: int = 224, seed: int = 4) -> Work:
    """ResNet-50 with inference batch norm: logits of a batch of images."""
    return _resnet(f"ResNet-50 forward, batch norm, batch {batch}", batch, image, False, seed)


def resnet_step(batch: int = 8, image: int = 224, seed: int = 5) -> Work:
    """ResNet-50 with group norm: one SGD step."""
    return _resnet(f"ResNet-50 SGD step, group norm, batch {batch}", batch, image, True, seed)


ALL = {
    "mlp": mlp,
    "lenet": lenet,
    "encoder": encoder,
    "resnet_forward": resnet_forward,
    "resnet_forward_8": functools.partial(resnet_forward, 8),
    "resnet_step": resnet_step,
}
