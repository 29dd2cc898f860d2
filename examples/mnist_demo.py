"""Trains a small convolutional network on MNIST with popxl and shows what it learnt.

Two programs are built: one that trains a batch (forward, backward by autodiff, Adam), one that classifies. Each is an Ir
with a Session; the weights go from one to the other through the host.
"""

import argparse
import pathlib
import time

import numpy as np
from tqdm import tqdm

import mnist_data
import popxl
import popxl.ops as ops
import popxl.transforms as transforms

BATCH = 40
BETA1, BETA2 = 0.9, 0.99


class LeNet(popxl.Module):
    """Two convolutions with pooling, then two linear layers. The weights are inputs of the graph."""

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        self.weights: dict[str, popxl.Tensor] = {}
        x = ops.max_pool(ops.relu(self.conv("conv1", x, 16, 5)), (2, 2), stride=(2, 2))
        x = ops.max_pool(ops.relu(self.conv("conv2", x, 32, 5)), (2, 2), stride=(2, 2))
        x = ops.relu(self.linear("fc1", x.reshape((x.shape[0], -1)), 96))
        return self.linear("fc2", x, 10)

    def weight(self, name: str, *shape: int) -> popxl.Tensor:
        self.weights[name] = popxl.graph_input(shape, popxl.float32, name)
        return self.weights[name]

    def conv(self, name: str, x: popxl.Tensor, channels: int, size: int) -> popxl.Tensor:
        y = ops.conv(x, self.weight(f"{name}.weight", channels, x.shape[1], size, size))
        return y + self.weight(f"{name}.bias", channels, 1, 1)

    def linear(self, name: str, x: popxl.Tensor, features: int) -> popxl.Tensor:
        return x @ self.weight(f"{name}.weight", x.shape[1], features) + self.weight(f"{name}.bias", features)


def initial_value(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Biases are zero, weights normal with variance 2 / (inputs of a unit): He et al., arXiv:1502.01852."""
    if name.endswith("bias"):
        return np.zeros(shape, np.float32)
    inputs = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
    return rng.normal(0, np.sqrt(2 / inputs), shape).astype(np.float32)


class Training:
    """The program that learns from one batch, and its session."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            self.images = popxl.h2d_stream((BATCH, 1, 28, 28), popxl.float32, "images")
            self.labels = popxl.h2d_stream((BATCH,), popxl.int32, "labels")
            self.rate = popxl.h2d_stream((), popxl.float32, "negative_learning_rate")
            x = ops.host_load(self.images)
            net = LeNet()
            graph = self.ir.create_graph(net, x)
            self.variables = {
                name: popxl.variable(initial_value(name, t.shape, rng), name=name) for name, t in net.weights.items()
            }
            inputs = {t: self.variables[name] for name, t in net.weights.items()}
            forward = ops.call_with_info(graph, x, inputs_dict=inputs)
            probabilities = ops.softmax(forward.outputs[0], axis=-1)
            loss, gradient = ops.nll_loss_with_softmax_grad(probabilities, ops.host_load(self.labels))

            backward = transforms.autodiff(graph, grads_required=list(net.weights.values()))
            gradients = ops.call(backward.graph, gradient, inputs_dict=backward.inputs_dict(forward))
            rate = ops.host_load(self.rate)
            for variable, grad in zip(self.variables.values(), gradients):
                self.update(variable, grad, rate)
            self.loss = popxl.d2h_stream((), popxl.float32, "loss")
            ops.host_store(self.loss, loss)
        self.session = popxl.Session(self.ir, "cpu")

    @staticmethod
    def update(variable: popxl.Tensor, gradient: popxl.Tensor, rate: popxl.Tensor) -> None:
        """One step of Adam: Kingma and Ba, arXiv:1412.6980."""
        zeros = np.zeros(variable.shape, np.float32)
        first = popxl.variable(zeros, name=f"{variable.name}.first_moment")
        second = popxl.variable(zeros, name=f"{variable.name}.second_moment")
        step = popxl.variable(0.0, popxl.float32, name=f"{variable.name}.step")
        ops.var_updates.accumulate_moving_average_(first, gradient, BETA1)
        ops.var_updates.accumulate_moving_average_square_(second, gradient, BETA2)
        delta = ops.var_updates.adam_updater(first, second, time_step=step, beta1=BETA1, beta2=BETA2, epsilon=1e-8)
        ops.scaled_add_(variable, delta, b=rate)

    def epoch(self, data: mnist_data.Digits, rates: np.ndarray, rng: np.random.Generator, bar: tqdm) -> list[float]:
        order = rng.permutation(len(data.labels))
        losses = []
        for i, rate in enumerate(rates):
            rows = order[i * BATCH : (i + 1) * BATCH]
            inputs = {
                self.images: shifted(data.images[rows], rng),
                self.labels: data.labels[rows],
                self.rate: np.float32(-rate),
            }
            losses.append(float(self.session.run(inputs)[self.loss]))
            bar.update(BATCH)
        bar.set_postfix(loss=f"{np.mean(losses):.4f}")
        return losses


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each image moved by up to two pixels in both directions."""
    padded = np.pad(images, ((0, 0), (0, 0), (2, 2), (2, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (28, 28), axis=(2, 3))
    down, right = rng.integers(0, 5, (2, len(images)))
    return np.ascontiguousarray(windows[np.arange(len(images)), :, down, right])


def classify(weights: dict[str, np.ndarray], images: np.ndarray) -> np.ndarray:
    """Probabilities (n, 10) of the digits of images (n, 1, 28, 28)."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream(images.shape, popxl.float32, "images")
        x = ops.host_load(stream)
        net = LeNet()
        graph = ir.create_graph(net, x)
        inputs = {t: popxl.variable(weights[name], name=name) for name, t in net.weights.items()}
        (logits,) = ops.call(graph, x, inputs_dict=inputs)
        result = popxl.d2h_stream(logits.shape, popxl.float32, "probabilities")
        ops.host_store(result, ops.softmax(logits, axis=-1))
    with popxl.Session(ir, "cpu") as session:
        return session.run({stream: images})[result]


def learning_rates(steps: int, peak: float) -> np.ndarray:
    """Linear warm-up over a twentieth of the steps, then half a cosine down to zero."""
    t = (np.arange(steps) + 0.5) / steps
    return peak * np.minimum(t / 0.05, 0.5 * (1 + np.cos(np.pi * t)))


def draw(path: pathlib.Path, losses: list[float], images: np.ndarray, probabilities: np.ndarray, labels: np.ndarray) -> None:
    """Writes the loss curve and twelve predictions, up to six of which are mistakes, in red."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    predictions = probabilities.argmax(axis=1)
    wrong, right = np.flatnonzero(predictions != labels), np.flatnonzero(predictions == labels)
    wrong = wrong[np.linspace(0, len(wrong) - 1, min(6, len(wrong)), dtype=int)]
    right = right[np.linspace(0, len(right) - 1, 12 - len(wrong), dtype=int)]
    figure = plt.figure(figsize=(11, 4.2), layout="constrained")
    curve, examples = figure.subfigures(1, 2, width_ratios=(1, 1.2))
    axes = curve.subplots()
    axes.plot(losses, linewidth=0.4, color="tab:blue", alpha=0.5)
    width = max(1, len(losses) // 50)
    axes.plot(np.arange(width - 1, len(losses)), np.convolve(losses, np.ones(width) / width, "valid"), color="tab:blue")
    axes.set(xlabel="step", ylabel="training loss", yscale="log")
    for cell, row in zip(examples.subplots(3, 4).flat, [*wrong, *right]):
        cell.imshow(images[row, 0], cmap="gray_r")
        mistake = predictions[row] != labels[row]
        title = f"{predictions[row]}  ({probabilities[row].max():.0%})" + (f", is {labels[row]}" if mistake else "")
        cell.set_title(title, fontsize=9, color="tab:red" if mistake else "black")
        cell.axis("off")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def train(train_set: mnist_data.Digits, seed: int, epochs: int, peak_rate: float, quiet: bool = False):
    """Trains and returns the weights by name, the losses, seconds of training and the session's memory in bytes."""
    training = Training(seed)
    rng = np.random.default_rng(seed + 1)
    steps = len(train_set.labels) // BATCH
    rates = learning_rates(epochs * steps, peak_rate).reshape(epochs, steps)
    losses: list[float] = []
    with training.session as session:
        started = time.perf_counter()
        with tqdm(total=epochs * steps * BATCH, unit=" images", unit_scale=True, disable=quiet) as bar:
            for epoch in range(epochs):
                bar.set_description(f"epoch {epoch + 1}/{epochs}")
                losses += training.epoch(train_set, rates[epoch], rng, bar)
        seconds = time.perf_counter() - started
        measured = session.touched_memory()
    names, variables = zip(*training.variables.items())
    weights = {name: np.array(value) for name, value in zip(names, training.session.get_tensors_data(variables).values())}
    return weights, losses, seconds, (training.session.memory().total, measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", metavar="DIR", help="folder with the four MNIST IDX files instead of the packaged set")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"), help="folder for picture and weights")
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=0.004)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    train_set, test_set = mnist_data.load(options.data)
    print(f"{len(train_set.labels)} images to learn from, {len(test_set.labels)} to test on")
    weights, losses, seconds, (planned, measured) = train(train_set, options.seed, options.epochs, options.learning_rate)
    images = options.epochs * (len(train_set.labels) // BATCH) * BATCH
    print(f"trained in {seconds:.1f} s: {images / seconds:.0f} images/s")
    print(f"peak memory: {planned / 2**20:.3f} MiB predicted before running, {measured / 2**20:.3f} MiB measured")

    probabilities = classify(weights, test_set.images)
    options.out.mkdir(parents=True, exist_ok=True)
    draw(options.out / "mnist_demo.png", losses, test_set.images, probabilities, test_set.labels)
    from safetensors.numpy import save_file

    save_file(weights, options.out / "mnist_demo.safetensors")
    print(f"wrote {options.out / 'mnist_demo.png'} and {options.out / 'mnist_demo.safetensors'}")
    accuracy = np.mean(probabilities.argmax(axis=1) == test_set.labels)
    print(f"test accuracy: {accuracy:.2%}".replace("%", " %"))


if __name__ == "__main__":
    main()
