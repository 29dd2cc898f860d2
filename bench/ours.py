"""The benchmark programs in popxl. Each function returns a step: a callable that runs once and returns what is compared."""

from collections.abc import Callable

import gpt2
import numpy as np
import resnet
from work import ADAM_RATE, GPT2_RATE, Arrays, TrainingStep, Work, decoding

import popxl
import popxl.ops as ops
import popxl.transforms as transforms

RATE = 0.01
Update = Callable[[popxl.Ir], Callable[[popxl.Tensor, popxl.Tensor], None]]


def variables_of(work: Work) -> dict[str, popxl.Tensor]:
    return {name: popxl.variable(value, name=name) for name, value in work.weights.items()}


def inputs_of(work: Work) -> dict[str, popxl.Tensor]:
    return {name: popxl.graph_input(value.shape, popxl.float32, name) for name, value in work.weights.items()}


def sgd(ir: popxl.Ir) -> Callable[[popxl.Tensor, popxl.Tensor], None]:
    return lambda variable, gradient: ops.scaled_add_(variable, gradient, b=-RATE)


def adam_rule(ir: popxl.Ir) -> Callable[[popxl.Tensor, popxl.Tensor], None]:
    return gpt2.Adam(ir, ADAM_RATE).update


def _classifier(
    work: Work, network: Callable[[popxl.Tensor, dict], popxl.Tensor], optimizer: Update = sgd
) -> TrainingStep:
    """A training step of a network with softmax cross-entropy."""
    ir = popxl.Ir()
    update = optimizer(ir)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream(work.data["x"].shape, popxl.float32, "x")
        labels = popxl.h2d_stream(work.data["labels"].shape, popxl.int32, "labels")
        weights: dict[str, popxl.Tensor] = {}

        def build(x: popxl.Tensor) -> popxl.Tensor:
            weights.update(inputs_of(work))
            return network(x, weights)

        loaded = ops.host_load(x)
        graph = ir.create_graph(build, loaded)
        variables = variables_of(work)
        forward = ops.call_with_info(graph, loaded, inputs_dict={t: variables[n] for n, t in weights.items()})
        probabilities = ops.softmax(forward.outputs[0], axis=-1)
        loss, gradient = ops.nll_loss_with_softmax_grad(probabilities, ops.host_load(labels))
        backward = transforms.autodiff(graph, grads_required=list(weights.values()))
        grads = ops.call(backward.graph, gradient, inputs_dict=backward.inputs_dict(forward))
        for variable, grad in zip(variables.values(), grads):
            update(variable, grad)
        result = popxl.d2h_stream((), popxl.float32, "loss")
        ops.host_store(result, loss)
    session = popxl.Session(ir, "cpu")
    session.__enter__()
    feed = {x: work.data["x"], labels: work.data["labels"]}

    def read() -> Arrays:
        values = session.get_tensors_data(variables.values())
        return {name: values[variable] for name, variable in variables.items()}

    return TrainingStep(lambda: float(session.run(feed)[result]), read)


def _two_layers(x: popxl.Tensor, w: dict) -> popxl.Tensor:
    return ops.relu(x @ w["w0"] + w["b0"]) @ w["w1"] + w["b1"]


def mlp(work: Work) -> TrainingStep:
    return _classifier(work, _two_layers)


def mlp_adam(work: Work) -> TrainingStep:
    return _classifier(work, _two_layers, adam_rule)


def lenet(work: Work) -> TrainingStep:
    def network(x: popxl.Tensor, w: dict) -> popxl.Tensor:
        for i in range(2):
            x = ops.max_pool(ops.relu(ops.conv(x, w[f"c{i}"]) + w[f"d{i}"]), (2, 2), stride=(2, 2))
        x = ops.relu(x.reshape((x.shape[0], -1)) @ w["w0"] + w["b0"])
        return x @ w["w1"] + w["b1"]

    return _classifier(work, network)


def encoder_layer(x: popxl.Tensor, w: dict, heads: int) -> popxl.Tensor:
    """A post-norm transformer encoder layer on x (batch, tokens, width)."""
    batch, tokens, width = x.shape

    def split(t: popxl.Tensor) -> popxl.Tensor:
        return t.reshape((batch, tokens, heads, width // heads)).transpose((0, 2, 1, 3))

    def norm(t: popxl.Tensor, scale: popxl.Tensor, shift: popxl.Tensor) -> popxl.Tensor:
        return ops.layer_norm(t.reshape((-1, width)), scale, shift, 1e-5).reshape(t.shape)

    q, k, v = (split(t) for t in ops.split(x @ w["qkv"] + w["qkv_b"], 3, axis=2))
    scores = ops.softmax((q @ k.transpose((0, 1, 3, 2))) * (width // heads) ** -0.5, axis=-1)
    mixed = (scores @ v).transpose((0, 2, 1, 3)).reshape(x.shape)
    x = norm(x + (mixed @ w["out"] + w["out_b"]), w["n0"], w["n0_b"])
    up = ops.geluerf(x @ w["up"] + w["up_b"])
    return norm(x + (up @ w["down"] + w["down_b"]), w["n1"], w["n1_b"])


def encoder(work: Work) -> Callable[[], Arrays]:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        streams = {n: popxl.h2d_stream(work.data[n].shape, popxl.float32, n) for n in ("x", "dy")}
        weights: dict[str, popxl.Tensor] = {}

        def build(x: popxl.Tensor) -> popxl.Tensor:
            weights.update(inputs_of(work))
            return encoder_layer(x, weights, int(work.data["heads"]))

        x = ops.host_load(streams["x"])
        graph = ir.create_graph(build, x)
        variables = variables_of(work)
        forward = ops.call_with_info(graph, x, inputs_dict={t: variables[n] for n, t in weights.items()})
        backward = transforms.autodiff(graph)
        info = ops.call_with_info(
            backward.graph, ops.host_load(streams["dy"]), inputs_dict=backward.inputs_dict(forward)
        )
        grads = backward.fwd_parent_ins_to_grad_parent_outs(forward, info)
        results = {"y": forward.outputs[0], "x": grads[x], **{n: grads[variables[n]] for n in weights}}
        outputs = {n: popxl.d2h_stream(t.shape, popxl.float32, f"{n}_result") for n, t in results.items()}
        for name, t in results.items():
            ops.host_store(outputs[name], t)
    session = popxl.Session(ir, "cpu")
    session.__enter__()
    feed = {stream: work.data[name] for name, stream in streams.items()}
    arrays = {stream: np.empty(results[name].shape, np.float32) for name, stream in outputs.items()}

    def step() -> dict[str, np.ndarray]:
        session.run_with_outputs(feed, arrays)
        return {name: arrays[stream] for name, stream in outputs.items()}

    return step


def resnet_forward(work: Work) -> Callable[[], Arrays]:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream(work.data["x"].shape, popxl.float32, "x")
        y = resnet.network(ops.host_load(x), variables_of(work), resnet.batch_norm)
        result = popxl.d2h_stream(y.shape, popxl.float32, "y")
        ops.host_store(result, y)
    session = popxl.Session(ir, "cpu")
    session.__enter__()
    return lambda: {"y": session.run({x: work.data["x"]})[result]}


resnet_forward_8 = resnet_forward


def resnet_step(work: Work) -> TrainingStep:
    return _classifier(work, lambda x, w: resnet.network(x, w, resnet.group_norm))


def gpt2_training(work: Work) -> gpt2.Training:
    batch, tokens = work.data["tokens"].shape
    return gpt2.Training(work.config, work.weights, batch, tokens - 1, GPT2_RATE)


def gpt2_step(work: Work) -> TrainingStep:
    training = gpt2_training(work)
    session = training.session
    session.__enter__()
    pieces = work.data["tokens"]
    feed = {
        training.tokens: np.ascontiguousarray(pieces[:, :-1]),
        training.labels: np.ascontiguousarray(pieces[:, 1:].reshape(-1)),
    }
    moments = training.adam.moments

    def read() -> Arrays:
        values = session.get_tensors_data(moments.values())
        return {name: values[m] for name, m in moments.items()}

    return TrainingStep(lambda: float(session.run(feed)[training.loss]), read)


def gpt2_decode(work: Work) -> Callable[[], Arrays]:
    program = gpt2.Decoding(work.config, work.weights)
    program.session.__enter__()
    return decoding(work, program.run)


def _on_variables(work: Work, build: Callable[[popxl.Ir, dict], None]) -> TrainingStep:
    """A program on variables alone, without traffic with the host."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        variables = variables_of(work)
        build(ir, variables)
    session = popxl.Session(ir, "cpu")
    session.__enter__()

    def run() -> float:
        session.run()
        return 0.0

    return TrainingStep(run, lambda: {n: session.get_tensor_data(v) for n, v in variables.items()})


def gelu(work: Work) -> TrainingStep:
    def build(ir: popxl.Ir, v: dict) -> None:
        ops.var_updates.copy_var_update_(v["out"], ops.gelu(v["x"] + v["bias"]))

    return _on_variables(work, build)


def softmax(work: Work) -> TrainingStep:
    def build(ir: popxl.Ir, v: dict) -> None:
        ops.var_updates.copy_var_update_(v["out"], ops.softmax(v["x"], axis=-1))

    return _on_variables(work, build)


def layer_norm(work: Work) -> TrainingStep:
    def build(ir: popxl.Ir, v: dict) -> None:
        ops.var_updates.copy_var_update_(v["out"], ops.layer_norm(v["x"], v["scale"], v["shift"], 1e-5))

    return _on_variables(work, build)


def adam(work: Work) -> TrainingStep:
    return _on_variables(work, lambda ir, v: adam_rule(ir)(v["w"], v["gradient"]))
