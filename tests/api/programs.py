"""Small programs for tests of graphs that run graphs, and a check of their gradients."""

import numpy as np

import popxl
from popxl import ops
from popxl.transforms import autodiff


def make_graph(function, *inputs):
    return popxl.gcg().ir.create_graph(function, *inputs)


def less(t, bound):
    return ops.greater(popxl.constant(bound, dtype=t.dtype), t)


class Program:
    """A function of variables as a program: its results, and how they change with the variables."""

    def __init__(self, function, arrays):
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            self.variables = [popxl.variable(a, dtype=popxl.float64) for a in arrays]
            results = function(*self.variables)
            self.streams = [popxl.d2h_stream(t.shape, t.dtype) for t in results]
            for stream, t in zip(self.streams, results):
                ops.host_store(stream, t)
        # Programs read back as they print, and graphs that only the text shows unused still verify.
        assert popxl.Ir.from_text(self.ir.to_text()).to_text() == self.ir.to_text()
        self.session = popxl.Session(self.ir)

    def __call__(self, *arrays):
        with self.session:
            self.session.write_variables_data(dict(zip(self.variables, arrays)))
            outputs = self.session.run()
        return [np.array(outputs[s]) for s in self.streams]


def differentiable(function, times=1):
    """The value of a scalar function and its gradients, or of those of a weighted sum of its gradients."""
    if times == 0:
        return lambda *inputs: function(*inputs)

    def with_gradients(*inputs):
        graph = make_graph(function, *inputs)
        info = autodiff(graph)
        call = ops.call_with_info(graph, *inputs)
        seed = popxl.constant(np.ones(()), dtype=popxl.float64)
        grads = ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))
        return [call.outputs[0], *grads]

    if times == 1:
        return with_gradients

    def weighted(*inputs):
        total = None
        for i, grad in enumerate(with_gradients(*inputs)[1:]):
            weights = np.cos(np.arange(grad.nelms) + i).reshape(grad.shape)
            term = ops.sum(grad * popxl.constant(weights, dtype=popxl.float64))
            total = term if total is None else total + term
        return total

    return differentiable(weighted, times - 1)


def check_gradients(function, *arrays, times=1, seed=0):
    """Compares gradients with central differences along random directions."""
    rng = np.random.default_rng(seed)
    gradients = Program(differentiable(function, times), arrays)
    value = Program(lambda *inputs: [differentiable(function, times)(*inputs)[0]], arrays)
    computed = gradients(*arrays)
    np.testing.assert_array_equal(computed[0], value(*arrays)[0])
    step = 1e-6
    for i, grad in enumerate(computed[1:]):
        assert grad.shape == np.shape(arrays[i])
        for _ in range(3):
            direction = rng.normal(size=grad.shape)
            ends = []
            for sign in (1, -1):
                moved = list(arrays)
                moved[i] = arrays[i] + sign * step * direction
                ends.append(value(*moved)[0])
            expected = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(np.sum(grad * direction), expected, rtol=2e-6, atol=2e-7)


RNG = np.random.default_rng(7)
X, W, B = RNG.normal(size=(2, 3)), 0.5 * RNG.normal(size=(3, 3)), RNG.normal(size=(3,))
XS = RNG.normal(size=(4, 2, 3))


def cell(h, w, b):
    return ops.tanh(h @ w + b)
