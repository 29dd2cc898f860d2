"""A small ResNet with the benchmark's own network function, against the same in NumPy, float64."""

import pathlib
import sys

import numpy as np
import pytest

import popxl
from popxl import ops, transforms

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import resnet  # noqa: E402

IMAGE, BATCH = 32, 2


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Two stages of narrow blocks, as many classes as fit a test."""
    monkeypatch.setattr(resnet, "STAGES", ((8, 2), (16, 1)))
    monkeypatch.setattr(resnet, "STEM", resnet.Conv("stem", 3, 8, 7, 2))
    monkeypatch.setattr(resnet, "GROUPS", 4)
    monkeypatch.setattr(resnet, "CLASSES", 5)


def conv(x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    pad = w.shape[2] // 2
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwij,ocij->nohw", windows, w)


def max_pool(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2].max((4, 5))


def forward(x: np.ndarray, w: dict, norm) -> np.ndarray:
    def layer(x, c):
        return norm(conv(x, w[c.name], c.stride), w, c.name)

    x = max_pool(np.maximum(layer(x, resnet.STEM), 0))
    for block in resnet.blocks():
        shortcut = x if block.shortcut is None else layer(x, block.shortcut)
        for c in block.convs[:-1]:
            x = np.maximum(layer(x, c), 0)
        x = np.maximum(layer(x, block.convs[-1]) + shortcut, 0)
    return x.mean((2, 3)) @ w["fc"] + w["fc_b"]


def batch_norm(x: np.ndarray, w: dict, name: str) -> np.ndarray:
    scale, shift, mean, var = (w[f"{name}_{p}"][:, None, None] for p in ("scale", "shift", "mean", "var"))
    return (x - mean) / np.sqrt(var + resnet.EPSILON) * scale + shift


def group_norm(x: np.ndarray, w: dict, name: str) -> np.ndarray:
    groups = x.reshape(len(x), resnet.GROUPS, -1)
    normal = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + resnet.EPSILON)
    return normal.reshape(x.shape) * w[f"{name}_scale"][:, None, None] + w[f"{name}_shift"][:, None, None]


def doubles(w: dict) -> dict:
    return {name: value.astype(np.float64) for name, value in w.items()}


@pytest.mark.parametrize("batch", [1, 3])
def test_forward_with_batch_norm(batch):
    rng = np.random.default_rng(11)
    w = resnet.weights(rng, statistics=True)
    x = rng.normal(size=(batch, 3, IMAGE, IMAGE)).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream(x.shape, popxl.float32, "x")
        variables = {name: popxl.variable(value, name=name) for name, value in w.items()}
        y = resnet.network(ops.host_load(stream), variables, resnet.batch_norm)
        result = popxl.d2h_stream(y.shape, popxl.float32, "y")
        ops.host_store(result, y)
    with popxl.Session(ir, "cpu") as session:
        first = session.run({stream: x})[result]
        np.testing.assert_allclose(first, forward(x, doubles(w), batch_norm), rtol=1e-4, atol=1e-4)
        # Packed weights follow what the host writes.
        w["stem"] = rng.normal(0, 0.1, w["stem"].shape).astype(np.float32)
        session.write_variable_data(variables["stem"], w["stem"])
        second = session.run({stream: x})[result]
        np.testing.assert_allclose(second, forward(x, doubles(w), batch_norm), rtol=1e-4, atol=1e-4)


def test_gradients_with_group_norm():
    rng = np.random.default_rng(12)
    w = resnet.weights(rng, statistics=False)
    x = rng.normal(size=(BATCH, 3, IMAGE, IMAGE)).astype(np.float32)
    dy = rng.normal(size=(BATCH, resnet.CLASSES)).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        inputs: dict[str, popxl.Tensor] = {}

        def build(x: popxl.Tensor) -> popxl.Tensor:
            inputs.update({n: popxl.graph_input(v.shape, popxl.float32, n) for n, v in w.items()})
            return resnet.network(x, inputs, resnet.group_norm)

        image = popxl.variable(x, name="x")
        graph = ir.create_graph(build, image)
        variables = {name: popxl.variable(value, name=name) for name, value in w.items()}
        call = ops.call_with_info(graph, image, inputs_dict={t: variables[n] for n, t in inputs.items()})
        grad = transforms.autodiff(graph, grads_required=list(inputs.values()))
        grads = ops.call(grad.graph, popxl.constant(dy), inputs_dict=grad.inputs_dict(call))
        streams = {n: popxl.d2h_stream(t.shape, popxl.float32, n) for n, t in zip(inputs, grads)}
        for name, t in zip(inputs, grads):
            ops.host_store(streams[name], t)
    with popxl.Session(ir, "cpu") as session:
        results = session.run()
    exact = doubles(w)

    def loss() -> float:
        return float(np.sum(forward(x.astype(np.float64), exact, group_norm) * dy))

    # A direction through all elements of each weight; the step is small enough to cross few kinks of relu and pooling.
    for name, value in exact.items():
        direction = rng.normal(size=value.shape)
        direction *= 1e-6 / np.linalg.norm(direction)
        exact[name] = value + direction
        above = loss()
        exact[name] = value - direction
        below = loss()
        exact[name] = value
        expected = (above - below) / 2
        got = results[streams[name]]
        typical = 1e-6 * float(np.linalg.norm(got)) / np.sqrt(value.size)  # of a random direction
        assert abs(float(np.sum(got * direction)) - expected) < 0.05 * typical + 1e-11, name
