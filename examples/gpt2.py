"""GPT-2 (Radford et al., 2019) as popxl programs: one that trains, one that writes text.

All layers are calls of one graph, and their gradients calls of one gradient graph. Run as a script, this trains a small
model on the bytes of a text and lets it continue a prompt.
"""

import abc
import argparse
import pathlib
import time
from typing import NamedTuple

import numpy as np

import popxl
import popxl.ops as ops
import popxl.transforms as transforms

MASKED = -1e4  # added to the scores of keys that a query must not see
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

Arrays = dict[str, np.ndarray]
Tensors = dict[str, popxl.Tensor]


class Config(NamedTuple):
    """Sizes of a model; the defaults are those of GPT-2 small."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    vocabulary: int = 50257
    positions: int = 1024


def layer_shapes(width: int) -> dict[str, tuple[int, ...]]:
    return {
        "norm1.scale": (width,), "norm1.shift": (width,),
        "qkv.weight": (width, 3 * width), "qkv.bias": (3 * width,),
        "out.weight": (width, width), "out.bias": (width,),
        "norm2.scale": (width,), "norm2.shift": (width,),
        "up.weight": (width, 4 * width), "up.bias": (4 * width,),
        "down.weight": (4 * width, width), "down.bias": (width,),
    }  # fmt: skip


def initial_weights(config: Config, seed: int) -> Arrays:
    """Scales 1, shifts and biases 0, the rest normal; products that are added to the residual stream start smaller."""
    rng = np.random.default_rng(seed)
    shapes = {"tokens": (config.vocabulary, config.width), "positions": (config.positions, config.width)}
    for i in range(config.layers):
        shapes |= {f"layer{i}.{name}": shape for name, shape in layer_shapes(config.width).items()}
    shapes |= {"norm.scale": (config.width,), "norm.shift": (config.width,)}
    residual = ("out.weight", "down.weight")

    def value(name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name.endswith(("scale", "shift", "bias")):
            return np.full(shape, name.endswith("scale"), np.float32)
        deviation = 0.02 / np.sqrt(2 * config.layers) if name.endswith(residual) else 0.02
        return rng.standard_normal(shape, np.float32) * np.float32(deviation)

    return {name: value(name, shape) for name, shape in shapes.items()}


def norm(x: popxl.Tensor, scale: popxl.Tensor, shift: popxl.Tensor) -> popxl.Tensor:
    """Layer norm over the last dimension."""
    return ops.layer_norm(x.reshape((-1, x.shape[-1])), scale, shift, 1e-5).reshape(x.shape)


class Layer(popxl.Module, abc.ABC):
    """A transformer layer with the norms before attention and before the feed-forward network.

    Its weights are inputs of the graph. Subclasses say what attention reads.
    """

    def __init__(self, config: Config) -> None:
        self.heads = config.heads
        self.weights: Tensors = {}

    def transform(self, x: popxl.Tensor) -> popxl.Tensor:
        """The layer on x (batch, tokens, width)."""
        shapes = layer_shapes(x.shape[-1])
        w = self.weights = {name: popxl.graph_input(s, popxl.float32, name) for name, s in shapes.items()}
        parts = ops.split(norm(x, w["norm1.scale"], w["norm1.shift"]) @ w["qkv.weight"] + w["qkv.bias"], 3, axis=2)
        mixed = self.attend(*map(self.split_heads, parts)).transpose((0, 2, 1, 3)).reshape(x.shape)
        x = x + (mixed @ w["out.weight"] + w["out.bias"])
        hidden = ops.gelu(norm(x, w["norm2.scale"], w["norm2.shift"]) @ w["up.weight"] + w["up.bias"])
        return x + (hidden @ w["down.weight"] + w["down.bias"])

    def split_heads(self, x: popxl.Tensor) -> popxl.Tensor:
        """(batch, tokens, width) as (batch, heads, tokens, width / heads)."""
        batch, tokens, width = x.shape
        return x.reshape((batch, tokens, self.heads, width // self.heads)).transpose((0, 2, 1, 3))

    @abc.abstractmethod
    def attend(self, q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> popxl.Tensor:
        """Mixes the values; operands and result are (batch, heads, tokens, width / heads)."""

    @staticmethod
    def mix(q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor, mask: popxl.Tensor) -> popxl.Tensor:
        scores = (q @ k.transpose((0, 1, 3, 2))) * q.shape[-1] ** -0.5 + mask
        return ops.softmax(scores, axis=-1) @ v


class TrainingLayer(Layer):
    """Every token attends to itself and to those before it."""

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return self.transform(x)

    def attend(self, q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> popxl.Tensor:
        later = np.triu(np.full((q.shape[2], q.shape[2]), MASKED, np.float32), 1)
        return self.mix(q, k, v, popxl.constant(later, name="mask"))


class DecodingLayer(Layer):
    """One new token attends to the keys and values of those before it, and adds its own to them."""

    def build(
        self,
        x: popxl.Tensor,
        mask: popxl.Tensor,
        position: popxl.Tensor,
        keys: popxl.TensorByRef,
        values: popxl.TensorByRef,
    ) -> popxl.Tensor:
        self.mask, self.position, self.keys, self.values = mask, position, keys, values
        return self.transform(x)

    def attend(self, q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> popxl.Tensor:
        for cache, new in ((self.keys, k), (self.values, v)):
            ops.dynamic_update_(cache, self.position, new, [2], [1], True)
        return self.mix(q, self.keys, self.values, self.mask)


def layer_inputs(layer: Layer, tensors: Tensors, index: int) -> dict[popxl.Tensor, popxl.Tensor]:
    """What a call of the layer's graph gets for its weights."""
    return {own: tensors[f"layer{index}.{name}"] for name, own in layer.weights.items()}


def embed(tokens: popxl.Tensor, table: popxl.Tensor, positions: popxl.Tensor) -> popxl.Tensor:
    return ops.tied_gather(table, tokens) + positions[: tokens.shape[1]]


def head(x: popxl.Tensor, scale: popxl.Tensor, shift: popxl.Tensor, table: popxl.Tensor) -> popxl.Tensor:
    """Logits (tokens, vocabulary) of x (tokens, width); the table of the embedding serves again."""
    return norm(x, scale, shift) @ table.transpose()


class Adam:
    """Steps of Adam (Kingma and Ba, arXiv:1412.6980): one graph for each shape, called for each variable."""

    def __init__(self, ir: popxl.Ir, rate: float) -> None:
        self.ir, self.rate = ir, rate
        self.graphs: dict[tuple[int, ...], popxl.Graph] = {}
        self.moments: Tensors = {}

    def update(self, variable: popxl.Tensor, gradient: popxl.Tensor) -> None:
        zeros = np.broadcast_to(np.float32(0), variable.shape)
        state = [popxl.variable(zeros, name=f"{variable.name}.{moment}") for moment in ("first", "second")]
        self.moments[variable.name] = state[0]
        step = popxl.variable(0.0, popxl.float32, name=f"{variable.name}.step")
        if variable.shape not in self.graphs:
            self.graphs[variable.shape] = self.ir.create_graph(self.build, variable, gradient, *state, step)
        ops.call(self.graphs[variable.shape], variable, gradient, *state, step)

    def build(
        self,
        variable: popxl.TensorByRef,
        gradient: popxl.Tensor,
        first: popxl.TensorByRef,
        second: popxl.TensorByRef,
        step: popxl.TensorByRef,
    ) -> None:
        first = ops.var_updates.accumulate_moving_average_(first, gradient, BETA1)
        second = ops.var_updates.accumulate_moving_average_square_(second, gradient, BETA2)
        delta = ops.var_updates.adam_updater(first, second, time_step=step, beta1=BETA1, beta2=BETA2, epsilon=EPSILON)
        ops.scaled_add_(variable, delta, b=-self.rate)


class Training:
    """The program of one step on `batch` sequences of `tokens` tokens, and its session."""

    def __init__(self, config: Config, weights: Arrays, batch: int, tokens: int, rate: float) -> None:
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            self.tokens = popxl.h2d_stream((batch, tokens), popxl.int32, "token_ids")
            self.labels = popxl.h2d_stream((batch * tokens,), popxl.int32, "labels")
            self.loss = popxl.d2h_stream((), popxl.float32, "loss")
            self.variables = {name: popxl.variable(value, name=name) for name, value in weights.items()}
            self.adam = Adam(self.ir, rate)
            self.step(config)
        self.session = popxl.Session(self.ir, "cpu")

    def step(self, config: Config) -> None:
        """Forward, loss, and back again; each weight is updated as soon as its gradient is there."""
        w, create = self.variables, self.ir.create_graph
        tokens = ops.host_load(self.tokens)
        embedding = create(embed, tokens, w["tokens"], w["positions"])
        embedded = ops.call_with_info(embedding, tokens, w["tokens"], w["positions"])
        x = embedded.outputs[0]
        layer = TrainingLayer(config)
        graph = create(layer, x)
        calls = []
        for i in range(config.layers):
            calls.append(ops.call_with_info(graph, x, inputs_dict=layer_inputs(layer, w, i)))
            x = calls[-1].outputs[0]
        last = [x.reshape((-1, config.width)), w["norm.scale"], w["norm.shift"], w["tokens"]]
        logits_graph = create(head, *last)
        logits = ops.call_with_info(logits_graph, *last)
        probabilities = ops.softmax(logits.outputs[0], axis=-1)
        loss, gradient = ops.nll_loss_with_softmax_grad(probabilities, ops.host_load(self.labels))
        ops.host_store(self.loss, loss)

        # The gradient of the table is the largest tensor of all: it is left until little else is alive.
        given = logits_graph.outputs[:1]
        to_input = transforms.autodiff(logits_graph, given, logits_graph.inputs[:3])
        to_table = transforms.autodiff(logits_graph, given, logits_graph.inputs[3:])
        dx, *d_norm = ops.call(to_input.graph, gradient, inputs_dict=to_input.inputs_dict(logits))
        for name, d in zip(("norm.scale", "norm.shift"), d_norm):
            self.adam.update(w[name], d)
        dx = dx.reshape(embedded.outputs[0].shape)
        back = transforms.autodiff(graph)
        for i in reversed(range(config.layers)):
            info = ops.call_with_info(back.graph, dx, inputs_dict=back.inputs_dict(calls[i]))
            grads = back.fwd_graph_ins_to_grad_parent_outs(info)
            dx = grads[graph.inputs[0]]
            for own, variable in layer_inputs(layer, w, i).items():
                self.adam.update(variable, grads[own])
        to_positions = transforms.autodiff(embedding, grads_required=embedding.inputs[2:])
        (d_positions,) = ops.call(to_positions.graph, dx, inputs_dict=to_positions.inputs_dict(embedded))
        self.adam.update(w["positions"], d_positions)
        (d_table,) = ops.call(to_table.graph, gradient, inputs_dict=to_table.inputs_dict(logits))
        ops.var_updates.sparse_accumulate_(d_table, dx, tokens)
        self.adam.update(w["tokens"], d_table)

    def run(self, tokens: np.ndarray, labels: np.ndarray) -> float:
        """One step; the loss before it."""
        return float(self.session.run({self.tokens: tokens, self.labels: labels.reshape(-1)})[self.loss])


class Decoding:
    """The program that takes one token and gives the logits of the next, and its session.

    Keys and values of the tokens so far are variables. Run it inside `with decoding.session`.
    """

    def __init__(self, config: Config, weights: Arrays) -> None:
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            self.token = popxl.h2d_stream((1, 1), popxl.int32, "token")
            self.position = popxl.h2d_stream((1,), popxl.int32, "position")
            self.logits = popxl.d2h_stream((1, config.vocabulary), popxl.float32, "logits")
            w = {name: popxl.variable(value, name=name) for name, value in weights.items()}
            position = ops.host_load(self.position)
            place = ops.dynamic_slice(w["positions"], position, [0], [1], True)
            x = ops.tied_gather(w["tokens"], ops.host_load(self.token)) + place
            later = ops.greater(popxl.constant(np.arange(config.positions, dtype=np.int32)), position)
            mask = ops.where(later, popxl.constant(MASKED), popxl.constant(0.0))
            empty = np.zeros((1, config.heads, config.positions, config.width // config.heads), np.float32)
            layer = DecodingLayer(config)
            graph = None
            for i in range(config.layers):
                caches = [popxl.variable(empty, name=f"layer{i}.{name}") for name in ("keys", "values")]
                operands = (x, mask, position, *caches)
                graph = graph or self.ir.create_graph(layer, *operands)
                (x,) = ops.call(graph, *operands, inputs_dict=layer_inputs(layer, w, i))
            result = head(x.reshape((1, config.width)), w["norm.scale"], w["norm.shift"], w["tokens"])
            ops.host_store(self.logits, result)
        self.session = popxl.Session(self.ir, "cpu", weights_to_host_on_exit=False)

    def run(self, token: int, position: int) -> np.ndarray:
        """Logits (vocabulary) of the token at position + 1."""
        feed = {self.token: np.array([[token]], np.int32), self.position: np.array([position], np.int32)}
        return self.session.run(feed)[self.logits][0]

    def continued(self, prompt: list[int], length: int) -> list[int]:
        """`length` tokens after the prompt, each the most probable one."""
        tokens = list(prompt)
        for position in range(len(prompt) + length - 1):
            logits = self.run(tokens[position], position)
            if position + 1 == len(tokens):
                tokens.append(int(logits.argmax()))
        return tokens[len(prompt) :]


def train(config: Config, text: bytes, steps: int, batch: int, rate: float, seed: int) -> tuple[Arrays, list[float]]:
    """Weights and losses after steps on random pieces of a text, whose tokens are its bytes."""
    rng = np.random.default_rng(seed)
    data = np.frombuffer(text, np.uint8).astype(np.int32)
    training = Training(config, initial_weights(config, seed), batch, config.positions, rate)
    losses = []
    with training.session as session:
        for _ in range(steps):
            starts = rng.integers(0, len(data) - config.positions, batch)
            pieces = data[starts[:, None] + np.arange(config.positions + 1)]
            losses.append(training.run(pieces[:, :-1], pieces[:, 1:]))
        values = session.get_tensors_data(training.variables.values())
    return {name: values[variable] for name, variable in training.variables.items()}, losses


def main() -> None:
    here = pathlib.Path(__file__).resolve()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, default=here.parent.parent / "README.md", help="what to learn")
    parser.add_argument("--prompt", default="PopXL programs ")
    parser.add_argument("--length", type=int, default=80, help="bytes to write")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    config = Config(layers=3, heads=4, width=128, vocabulary=256, positions=128)
    prompt = list(options.prompt.encode())
    if not 1 <= len(prompt) <= config.positions - options.length:
        parser.error(f"prompt and --length must have 1 to {config.positions} bytes together")
    text = options.text.read_bytes()
    if len(text) <= config.positions:
        parser.error(f"{options.text} must have more than {config.positions} bytes")
    started = time.perf_counter()
    weights, losses = train(config, text, options.steps, options.batch, options.rate, options.seed)
    print(f"{options.steps} steps in {time.perf_counter() - started:.1f} s, loss {losses[0]:.3f} to {losses[-1]:.3f}")
    decoding = Decoding(config, weights)
    with decoding.session:
        written = bytes(decoding.continued(prompt, options.length))
    print(options.prompt + written.decode(errors="replace"))


if __name__ == "__main__":
    main()
