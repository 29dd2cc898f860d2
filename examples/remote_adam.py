"""Trains a deep network whose optimiser state is kept off the device, in files, with only a part of it in RAM.

Each layer's moments of Adam are an entry of two remote buffers. As soon as a layer has its gradient, its moments are
loaded, the weights updated, and the moments stored again; the next layer's are read meanwhile.
"""

import argparse
import pathlib
import time
from typing import Union

import numpy as np

import popxl
from popxl import ops, transforms

BETA1, BETA2, EPSILON = 0.9, 0.99, 1e-8


class Training:
    """The program of one step, and its session."""

    def __init__(
        self,
        layers: int,
        width: int,
        batch: int,
        rate: float = 1e-3,
        storage: Union[None, str, popxl.RemoteStorage] = None,
    ) -> None:
        self.state_bytes = 2 * layers * width * width * 4
        self.layers, self.rate = layers, rate
        self.ir = popxl.Ir()
        rng = np.random.default_rng(0)
        scale = (2 / width) ** 0.5
        with self.ir.main_graph, popxl.in_sequence():
            self.x = popxl.h2d_stream((batch, width), popxl.float32, "x")
            self.y = popxl.h2d_stream((batch, width), popxl.float32, "y")
            self.loss = popxl.d2h_stream((), popxl.float32, "loss")
            first, second = (popxl.remote_buffer((width, width), popxl.float32, layers) for _ in range(2))
            self.moments = first, second
            self.weights = [
                popxl.variable(rng.normal(0, scale, (width, width)).astype(np.float32), name=f"w{i}")
                for i in range(layers)
            ]
            self.step()
        self.session = popxl.Session(self.ir, remote_storage=storage)

    @staticmethod
    def layer(x: popxl.Tensor, w: popxl.Tensor) -> popxl.Tensor:
        return ops.relu(x @ w)

    def update(self, w: popxl.TensorByRef, gradient: popxl.Tensor, layer: popxl.Tensor, steps: popxl.Tensor) -> None:
        """Adam on the weights of one layer."""
        with popxl.in_sequence():
            first, second = (ops.remote_load(buffer, layer) for buffer in self.moments)
            first = ops.var_updates.accumulate_moving_average_(first, gradient, BETA1)
            second = ops.var_updates.accumulate_moving_average_square_(second, gradient, BETA2)
            for buffer, moment in zip(self.moments, (first, second)):
                ops.remote_store(buffer, layer, moment)
            delta = ops.var_updates.adam_updater(first, second, time_step=steps, beta1=BETA1, beta2=BETA2, epsilon=EPSILON)
            ops.scaled_add_(w, delta, b=-self.rate)

    def step(self) -> None:
        """Forward, loss, and back again, layer by layer."""
        x = ops.host_load(self.x)
        graph = self.ir.create_graph(self.layer, x, self.weights[0])
        gradient_graph = transforms.autodiff(graph)
        calls = []
        for w in self.weights:
            calls.append(ops.call_with_info(graph, x, w))
            x = calls[-1].outputs[0]
        difference = x - ops.host_load(self.y)
        ops.host_store(self.loss, ops.mean(difference * difference))
        gradient = difference * (2 / difference.nelms)
        steps = popxl.variable(0.0, popxl.float32, name="steps")
        number = popxl.constant(0, popxl.uint32)
        update = self.ir.create_graph(self.update, self.weights[0], self.weights[0].spec, number, steps)
        for i in reversed(range(self.layers)):
            inputs = gradient_graph.inputs_dict(calls[i])
            gradient, dw = ops.call(gradient_graph.graph, gradient, inputs_dict=inputs)
            ops.call(update, self.weights[i], dw, popxl.constant(i, popxl.uint32), steps)
        ops.var_updates.accumulate_(steps, popxl.constant(1.0))

    def data(self, seed: int) -> dict:
        rng = np.random.default_rng(seed)
        x = rng.normal(size=self.x.shape).astype(np.float32)
        return {self.x: x, self.y: np.abs(np.roll(x, 1, 1))}

    def run(self, data: dict) -> float:
        return float(self.session.run(data)[self.loss])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--directory", type=pathlib.Path, help="of the optimiser's state; in RAM if not given")
    parser.add_argument("--ram-bytes", type=int, default=24 << 20, help="the most RAM that it takes")
    options = parser.parse_args()
    storage = popxl.RemoteStorage(options.directory, options.ram_bytes) if options.directory else None
    training = Training(options.layers, options.width, options.batch, storage=storage)
    print(f"optimiser state: {training.state_bytes / 1e6:.0f} MB")
    with training.session:
        for step in range(options.steps):
            begun = time.perf_counter()
            loss = training.run(training.data(step))
            print(f"step {step}: loss {loss:.5f}, {(time.perf_counter() - begun) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
