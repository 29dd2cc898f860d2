"""Training loops and a transformer layer against the same in NumPy, float64, written out."""

import numpy as np
import pytest

import popxl
from popxl import ops, transforms
from popxl.ops import var_updates

BATCH, INPUTS, HIDDEN, OUTPUTS = 8, 5, 7, 3


def initial(rng: np.random.Generator) -> dict[str, np.ndarray]:
    shapes = {"w1": (INPUTS, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, OUTPUTS), "b2": (OUTPUTS,)}
    return {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def mlp(x, w1, b1, w2, b2):
    return ops.tanh(x @ w1 + b1) @ w2 + b2


def mlp_step(p: dict, x: np.ndarray, target: np.ndarray) -> tuple[float, dict]:
    """Half the mean squared error of a row, and gradients."""
    h = np.tanh(x @ p["w1"] + p["b1"])
    error = (h @ p["w2"] + p["b2"] - target) / len(x)
    dh = (error @ p["w2"].T) * (1 - h * h)
    grads = {"w1": x.T @ dh, "b1": dh.sum(axis=0), "w2": h.T @ error, "b2": error.sum(axis=0)}
    return float(0.5 * len(x) * np.sum(error * error)), grads


class Adam:
    """Kingma and Ba, arXiv:1412.6980, algorithm 1."""

    def __init__(self, rate: float) -> None:
        self.rate, self.t, self.m, self.v = rate, 0, {}, {}

    def step(self, p: dict, grads: dict) -> None:
        self.t += 1
        for name, g in grads.items():
            self.m[name] = 0.9 * self.m.get(name, 0) + 0.1 * g
            self.v[name] = 0.99 * self.v.get(name, 0) + 0.01 * g * g
            m, v = self.m[name] / (1 - 0.9**self.t), self.v[name] / (1 - 0.99**self.t)
            p[name] = p[name] - self.rate * m / (np.sqrt(v) + 1e-6)


class Sgd:
    def __init__(self, rate: float) -> None:
        self.rate = rate

    def step(self, p: dict, grads: dict) -> None:
        for name, g in grads.items():
            p[name] = p[name] - self.rate * g


def update(optimiser: object, variable: popxl.Tensor, gradient: popxl.Tensor) -> None:
    """The ops of one step of an optimiser."""
    if isinstance(optimiser, Sgd):
        ops.scaled_add_(variable, gradient, b=-optimiser.rate)
        return
    zeros = np.zeros(variable.shape, np.float32)
    first, second = popxl.variable(zeros), popxl.variable(zeros)
    step = popxl.variable(0.0, popxl.float32)
    var_updates.accumulate_moving_average_(first, gradient, 0.9)
    var_updates.accumulate_moving_average_square_(second, gradient, 0.99)
    delta = var_updates.adam_updater(first, second, time_step=step, beta1=0.9, beta2=0.99, epsilon=1e-6)
    ops.scaled_add_(variable, delta, b=-optimiser.rate)


def loss_and_gradients(ir, x, target, variables):
    """Calls the network and its gradient graph in the current graph."""
    graph = ir.create_graph(mlp, x, *variables)
    site = ops.call_with_info(graph, x, *variables)
    error = (site.outputs[0] - target) * (1 / BATCH)
    loss = ops.sum(error * error) * (0.5 * BATCH)
    backward = transforms.autodiff(graph, grads_required=graph.inputs[1:])
    return loss, ops.call(backward.graph, error, inputs_dict=backward.inputs_dict(site))


def batches(rng: np.random.Generator, steps: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(steps, BATCH, INPUTS)).astype(np.float32)
    return x, np.stack([np.sin(x[..., 0] + x[..., 1]), x[..., 2] ** 2, np.abs(x[..., 3])], axis=-1)


@pytest.mark.parametrize("optimiser", [Sgd(0.3), Adam(0.02)], ids=["sgd", "adam"])
def test_network_learns_as_in_float64(optimiser):
    rng = np.random.default_rng(0)
    start = initial(rng)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        xs = popxl.h2d_stream((BATCH, INPUTS), popxl.float32, "x")
        targets = popxl.h2d_stream((BATCH, OUTPUTS), popxl.float32, "target")
        out = popxl.d2h_stream((), popxl.float32, "loss")
        variables = {name: popxl.variable(value, name=name) for name, value in start.items()}
        x, target = ops.host_load(xs), ops.host_load(targets)
        loss, gradients = loss_and_gradients(ir, x, target, variables.values())
        ops.host_store(out, loss)
        for variable, gradient in zip(variables.values(), gradients, strict=True):
            update(optimiser, variable, gradient)

    p = {name: value.astype(np.float64) for name, value in start.items()}
    losses = []
    with popxl.Session(ir, "cpu") as session:
        for i, (x, target) in enumerate(zip(*batches(rng, 60))):
            got = session.run({xs: x, targets: target.astype(np.float32)})[out]
            wanted, grads = mlp_step(p, x.astype(np.float64), target)
            optimiser.step(p, grads)
            losses.append(wanted)
            np.testing.assert_allclose(got, wanted, rtol=1e-4, err_msg=f"step {i}")
            if i % 10 == 9:
                for name, variable in variables.items():
                    have = session.get_tensor_data(variable)
                    np.testing.assert_allclose(have, p[name], 2e-4, 2e-5, err_msg=f"{name}, step {i}")
    assert np.mean(losses[-10:]) < 0.6 * np.mean(losses[:10]), "the reference does not learn"


def looped(ir: popxl.Ir, variables, xs, targets, out, steps: int) -> None:
    """`steps` batches in a repeat: the body reads and writes streams, and the variables by reference."""

    def body(w1: popxl.TensorByRef, b1: popxl.TensorByRef, w2: popxl.TensorByRef, b2: popxl.TensorByRef):
        own = (w1, b1, w2, b2)
        x, target = ops.host_load(xs), ops.host_load(targets)
        loss, gradients = loss_and_gradients(ir, x, target, own)
        ops.host_store(out, loss)
        for variable, gradient in zip(own, gradients, strict=True):
            ops.scaled_add_(variable, gradient, b=-0.3)

    with popxl.in_sequence():
        graph = ir.create_graph(body, *variables)
    ops.repeat(graph, steps, *variables)


def unrolled(ir: popxl.Ir, variables, xs, targets, out, steps: int) -> None:
    for _ in range(steps):
        x, target = ops.host_load(xs), ops.host_load(targets)
        loss, gradients = loss_and_gradients(ir, x, target, variables)
        ops.host_store(out, loss)
        for variable, gradient in zip(variables, gradients, strict=True):
            ops.scaled_add_(variable, gradient, b=-0.3)


def train(write, start: dict, steps: int, x: np.ndarray, target: np.ndarray):
    """Losses and final weights of len(x) / steps runs of a program."""
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    with ir.main_graph, popxl.in_sequence():
        xs = popxl.h2d_stream((BATCH, INPUTS), popxl.float32, "x")
        targets = popxl.h2d_stream((BATCH, OUTPUTS), popxl.float32, "target")
        out = popxl.d2h_stream((), popxl.float32, "loss")
        variables = [popxl.variable(value, name=name) for name, value in start.items()]
        write(ir, variables, xs, targets, out, steps)
    losses = []
    with popxl.Session(ir, "cpu") as session:
        for at in range(0, len(x), steps):
            losses.append(session.run({xs: x[at : at + steps], targets: target[at : at + steps]})[out].copy())
    return np.concatenate(losses), [session.get_tensor_data(v) for v in variables]


def test_loop_is_the_unrolled_loop():
    rng = np.random.default_rng(1)
    start, steps = initial(rng), 6
    x, target = batches(rng, 3 * steps)
    inputs = x, target.astype(np.float32)
    losses, weights = train(looped, start, steps, *inputs)
    unrolled_losses, unrolled_weights = train(unrolled, start, steps, *inputs)
    np.testing.assert_array_equal(losses, unrolled_losses)
    for have, want in zip(weights, unrolled_weights, strict=True):
        np.testing.assert_array_equal(have, want)
    p = {name: value.astype(np.float64) for name, value in start.items()}
    for at in range(len(x)):
        wanted, grads = mlp_step(p, x[at].astype(np.float64), target[at])
        Sgd(0.3).step(p, grads)
        np.testing.assert_allclose(losses[at], wanted, rtol=1e-4, err_msg=f"step {at}")
    for have, want in zip(weights, p.values(), strict=True):
        np.testing.assert_allclose(have, want, rtol=2e-4, atol=2e-5)


def test_two_sessions_of_one_program():
    """They share what the host has and run on variables of their own."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        source, sink = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        total = popxl.variable(np.zeros(2, np.float32), name="total")
        var_updates.accumulate_(total, ops.host_load(source))
        ops.host_store(sink, total)
    one, two = (popxl.Session(ir, "cpu", weights_to_host_on_exit=False) for _ in range(2))
    with one, two:
        for i in range(1, 4):
            np.testing.assert_array_equal(one.run({source: [1, 2]})[sink], [i, 2 * i])
            np.testing.assert_array_equal(two.run({source: [10, 20]})[sink], [10 * i, 20 * i])
        np.testing.assert_array_equal(two.get_tensor_data(total), [30, 60])
        np.testing.assert_array_equal(one.run({source: [1, 2]})[sink], [4, 8])
    np.testing.assert_array_equal(one.get_tensor_data(total), [30, 60])


# A pre-norm transformer layer with one sequence: attention, then a feed-forward network.
TOKENS, WIDTH, HEADS, INNER = 6, 8, 2, 12
LAYER = {
    "g1": (WIDTH,),
    "c1": (WIDTH,),
    "qkv": (WIDTH, 3 * WIDTH),
    "o": (WIDTH, WIDTH),
    "g2": (WIDTH,),
    "c2": (WIDTH,),
    "up": (WIDTH, INNER),
    "bias": (INNER,),
    "down": (INNER, WIDTH),
}


def layer(x, g1, c1, qkv, o, g2, c2, up, bias, down):
    parts = ops.split(ops.layer_norm(x, g1, c1) @ qkv, 3, axis=1)
    q, k, v = (part.reshape((TOKENS, HEADS, WIDTH // HEADS)).transpose((1, 0, 2)) for part in parts)
    scores = (q @ k.transpose((0, 2, 1))) * (WIDTH // HEADS) ** -0.5
    mixed = (ops.softmax(scores, axis=-1) @ v).transpose((1, 0, 2)).reshape((TOKENS, WIDTH))
    x = x + mixed @ o
    return x + ops.gelu(ops.layer_norm(x, g2, c2) @ up + bias) @ down


def numpy_layer(x, g1, c1, qkv, o, g2, c2, up, bias, down):
    def norm(t, g, c):
        centred = t - t.mean(axis=-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * g + c

    parts = np.split(norm(x, g1, c1) @ qkv, 3, axis=1)
    q, k, v = (part.reshape(TOKENS, HEADS, -1).transpose(1, 0, 2) for part in parts)
    scores = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(WIDTH // HEADS))
    weights = scores / scores.sum(axis=-1, keepdims=True)
    x = x + (weights @ v).transpose(1, 0, 2).reshape(TOKENS, WIDTH) @ o
    z = norm(x, g2, c2) @ up + bias
    return x + 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))) @ down


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-6), (np.float32, 2e-3)])
def test_transformer_layer(dtype, tolerance):
    """Two calls of one graph; values in NumPy, gradients by central differences."""
    rng = np.random.default_rng(2)
    values = [rng.normal(0, 1, (TOKENS, WIDTH))] + [rng.normal(0, 0.4, shape) for shape in LAYER.values()]
    seed = rng.uniform(-1, 1, (TOKENS, WIDTH))
    element = popxl.dtype.as_dtype(dtype)
    ir = popxl.Ir()
    with ir.main_graph:
        x, *weights = (popxl.variable(value, element) for value in values)
        graph = ir.create_graph(layer, x, *weights)
        first = ops.call_with_info(graph, x, *weights)
        second = ops.call_with_info(graph, first.outputs[0], *weights)
        backward = transforms.autodiff(graph)
        dy = popxl.constant(seed, element)
        dx, *two = ops.call(backward.graph, dy, inputs_dict=backward.inputs_dict(second))
        dx, *one = ops.call(backward.graph, dx, inputs_dict=backward.inputs_dict(first))
        results = [second.outputs[0], dx] + [a + b for a, b in zip(one, two, strict=True)]
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in results]
        for stream, t in zip(streams, results):
            ops.host_store(stream, t)
    with popxl.Session(ir, "cpu") as session:
        got = session.run()
    y, *gradients = (got[stream] for stream in streams)

    def twice(values):
        return numpy_layer(numpy_layer(*values), *values[1:])

    np.testing.assert_allclose(y, twice(values), rtol=tolerance, atol=tolerance)
    for i, gradient in enumerate(gradients):
        wanted = np.zeros(values[i].shape)
        for at in np.ndindex(*wanted.shape):
            sums = []
            for change in (1e-5, -1e-5):
                moved = [v.copy() for v in values]
                moved[i][at] += change
                sums.append(np.sum(seed * twice(moved)))
            wanted[at] = (sums[0] - sums[1]) / 2e-5
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(gradient, wanted, tolerance, tolerance * scale, err_msg=f"input {i}")
