"""What the benchmarks compute: sizes, initial weights and data, the same for everyone, from one seed."""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import gpt2
import numpy as np
import resnet

Arrays = dict[str, np.ndarray]


class Work(NamedTuple):
    """One row of the table."""

    name: str
    weights: Arrays
    data: Arrays
    flops: float = 0  # multiply-adds of products and convolutions counted twice, forward and backward
    bytes: float = 0  # that have to come from memory where that, and not arithmetic, is the bound
    config: Any = None


class TrainingStep(NamedTuple):
    """A step that changes tensors: runs once and returns the loss before it.

    `weights` gives tensors that it changes, to compare; those that the work has no weight for were zero before.
    """

    run: Callable[[], float]
    weights: Callable[[], Arrays]

    def __call__(self) -> float:
        return self.run()


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    fan_in = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
    return rng.normal(0, 1 / np.sqrt(fan_in), shape).astype(np.float32)


def mlp(batch: int = 64, sizes: tuple[int, ...] = (784, 512, 10), seed: int = 1, optimizer: str = "SGD") -> Work:
    """Two linear layers with relu between, softmax cross-entropy, one step of plain gradient descent or of Adam."""
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
    name = f"MLP {'-'.join(map(str, sizes))} {optimizer} step, batch {batch}"
    return Work(name, weights, data, 3 * products - 2 * batch * sizes[0] * sizes[1])


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


GPT2_RATE = 1e-4
ADAM_RATE = 1e-5  # so small that gradients stay normal numbers: a batch that is learnt by heart makes them denormal
GPT2_SMALL = gpt2.Config(positions=256)


def gpt2_step(config: gpt2.Config = GPT2_SMALL, batch: int = 1, seed: int = 6) -> Work:
    """One Adam step of GPT-2 small on random tokens."""
    shape = (batch, config.positions + 1)
    data = {"tokens": np.random.default_rng(seed).integers(0, config.vocabulary, shape).astype(np.int32)}
    rows, width = batch * config.positions, config.width
    layer = 2 * rows * 12 * width * width + 2 * 2 * rows * config.positions * width
    flops = 3 * (config.layers * layer + 2 * rows * width * config.vocabulary)
    name = f"GPT-2 small Adam step, {batch} x {config.positions} tokens"
    return Work(name, gpt2.initial_weights(config, seed), data, flops, config=config)


def gpt2_decode(config: gpt2.Config = GPT2_SMALL, seed: int = 7) -> Work:
    """The logits after one more token, with the keys and values of those before it in a cache."""
    tokens = np.random.default_rng(seed).integers(0, config.vocabulary, config.positions)
    weights = gpt2.initial_weights(config, seed)
    seen = sum(value.size for name, value in weights.items() if name != "positions")
    seen += 2 * config.layers * config.width * config.positions * 3 // 4  # half to all of the cache
    return Work("GPT-2 small, one more token", weights, {"tokens": tokens}, bytes=4.0 * seen, config=config)


def decoding(work: Work, run: Callable[[int, int], np.ndarray]) -> Callable[[], Arrays]:
    """A step of decoding: the tokens of the second half in turn, over and over, once the first half is in the cache."""
    tokens = [int(t) for t in work.data["tokens"]]
    half = len(tokens) // 2
    for position in range(half):
        run(tokens[position], position)
    positions = itertools.cycle(range(half, len(tokens)))

    def step() -> Arrays:
        position = next(positions)
        return {"logits": run(tokens[position], position)}

    return step


def _tensors(name: str, shapes: dict[str, tuple[int, ...]], flops: float = 0) -> Work:
    """Work on normal tensors; those whose names begin with `out` are results and 0 before."""
    rng = np.random.default_rng(8)
    tensors = {
        n: np.zeros(s, np.float32) if n.startswith("out") else rng.standard_normal(s, np.float32)
        for n, s in shapes.items()
    }
    return Work(name, tensors, {}, flops)


def gelu(rows: int = 1024, width: int = 3072) -> Work:
    """The tanh form of gelu, of a tensor plus a bias."""
    shapes = {"x": (rows, width), "bias": (width,), "out": (rows, width)}
    return _tensors(f"gelu of a biased {rows} x {width}", shapes)


def softmax(rows: int = 1536, width: int = 128) -> Work:
    return _tensors(f"softmax {rows} x {width}", {"x": (rows, width), "out": (rows, width)})


def layer_norm(rows: int = 1024, width: int = 768) -> Work:
    shapes = {"x": (rows, width), "scale": (width,), "shift": (width,), "out": (rows, width)}
    return _tensors(f"layer norm {rows} x {width}", shapes)


def adam(size: int = 10_000_000) -> Work:
    """A step of Adam on one tensor, with a gradient that stays the same."""
    return _tensors(f"Adam on {size / 1e6:g}M parameters", {"w": (size,), "gradient": (size,)})


class Row(NamedTuple):
    """A row of the table: how its work is made, and what is aimed at."""

    make: Callable[..., Work]
    ratio: float  # time of the fastest peer over ours
    small: dict[str, Any]  # arguments of a size for tests, with work for several threads
    eager: bool = False  # whether PyTorch eager is the only peer


_SMALL_GPT2 = gpt2.Config(layers=2, heads=2, width=64, vocabulary=900, positions=48)

ALL = {
    "mlp": Row(mlp, 1.7, {"batch": 96}),
    "mlp_adam": Row(functools.partial(mlp, optimizer="Adam"), 2.0, {"batch": 96}),
    "lenet": Row(lenet, 1.3, {"batch": 6}),
    "encoder": Row(encoder, 1.15, {"batch": 2, "tokens": 48, "width": 128, "heads": 4}),
    "gpt2_step": Row(gpt2_step, 1.15, {"config": _SMALL_GPT2, "batch": 2}),
    "gpt2_decode": Row(gpt2_decode, 1.2, {"config": _SMALL_GPT2}),
    "resnet_forward": Row(resnet_forward, 1.1, {"image": 32}),
    "resnet_forward_8": Row(functools.partial(resnet_forward, 8), 1.1, {"image": 32}),
    "resnet_step": Row(resnet_step, 1.1, {"batch": 2, "image": 32}),
    "gelu": Row(gelu, 2.0, {"rows": 100}, eager=True),
    "softmax": Row(softmax, 2.0, {"rows": 700}, eager=True),
    "layer_norm": Row(layer_norm, 2.0, {"rows": 300}, eager=True),
    "adam": Row(adam, 2.0, {"size": 100_000}, eager=True),
}
