"""The same work in PyTorch (eager and compiled) and JAX (jit). Functions return steps as in ours.py."""

from collections.abc import Callable, Iterable

import gpt2
import gpt2_peers
import numpy as np
import resnet
from work import ADAM_RATE, Arrays, TrainingStep, Work

RATE = 0.01


class Torch:
    name = "PyTorch"

    def __init__(self, threads: int) -> None:
        import torch

        self.torch = torch
        torch.set_num_threads(threads)
        self.version = torch.__version__

    def _parameters(self, work: Work) -> dict:
        return {n: self.torch.from_numpy(v.copy()).requires_grad_() for n, v in work.weights.items()}

    def _compile(self, function: Callable) -> Callable:
        return function

    def _adam(self, parameters: Iterable):
        return self.torch.optim.Adam(parameters, ADAM_RATE, (gpt2.BETA1, gpt2.BETA2), gpt2.EPSILON)

    def _classifier(self, work: Work, network: Callable, optimizer: Callable | None = None) -> TrainingStep:
        torch = self.torch
        w = self._parameters(work)
        optimizer = optimizer(w.values()) if optimizer else torch.optim.SGD(w.values(), lr=RATE)
        x = torch.from_numpy(work.data["x"])
        labels = torch.from_numpy(work.data["labels"]).long()
        loss_of = self._compile(lambda x, w: torch.nn.functional.cross_entropy(network(x, w), labels))

        def step() -> float:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(x, w)
            loss.backward()
            optimizer.step()
            return loss.item()

        return TrainingStep(step, lambda: {n: t.detach().numpy().copy() for n, t in w.items()})

    def _two_layers(self, x, w: dict):
        return self.torch.relu(x @ w["w0"] + w["b0"]) @ w["w1"] + w["b1"]

    def mlp(self, work: Work) -> TrainingStep:
        return self._classifier(work, self._two_layers)

    def mlp_adam(self, work: Work) -> TrainingStep:
        return self._classifier(work, self._two_layers, self._adam)

    def lenet(self, work: Work) -> TrainingStep:
        f = self.torch.nn.functional

        def network(x, w: dict):
            for i in range(2):
                x = f.max_pool2d(f.relu(f.conv2d(x, w[f"c{i}"], w[f"d{i}"].flatten())), 2)
            return f.relu(x.flatten(1) @ w["w0"] + w["b0"]) @ w["w1"] + w["b1"]

        return self._classifier(work, network)

    def encoder(self, work: Work) -> Callable[[], Arrays]:
        torch, f = self.torch, self.torch.nn.functional
        w = self._parameters(work)
        x, dy = torch.from_numpy(work.data["x"].copy()).requires_grad_(), torch.from_numpy(work.data["dy"])
        batch, tokens, width = x.shape
        heads = int(work.data["heads"])

        def step() -> dict[str, np.ndarray]:
            for t in (x, *w.values()):
                t.grad = None
            q, k, v = (
                t.view(batch, tokens, heads, -1).transpose(1, 2) for t in (x @ w["qkv"] + w["qkv_b"]).chunk(3, dim=2)
            )
            mixed = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
            a = f.layer_norm(x + (mixed @ w["out"] + w["out_b"]), (width,), w["n0"], w["n0_b"], 1e-5)
            up = f.gelu(a @ w["up"] + w["up_b"])
            y = f.layer_norm(a + (up @ w["down"] + w["down_b"]), (width,), w["n1"], w["n1_b"], 1e-5)
            y.backward(dy)
            return {"y": y.detach().numpy(), "x": x.grad.numpy(), **{n: t.grad.numpy() for n, t in w.items()}}

        return step

    def _resnet(self, x, w: dict, norm: Callable):
        f = self.torch.nn.functional

        def conv(t, c: resnet.Conv):
            return norm(f.conv2d(t, w[c.name], None, c.stride, c.kernel // 2), w, c.name)

        x = f.max_pool2d(f.relu(conv(x, resnet.STEM)), 3, 2, 1)
        for block in resnet.blocks():
            shortcut = x if block.shortcut is None else conv(x, block.shortcut)
            for c in block.convs[:-1]:
                x = f.relu(conv(x, c))
            x = f.relu(conv(x, block.convs[-1]) + shortcut)
        return x.mean((2, 3)) @ w["fc"] + w["fc_b"]

    def resnet_forward(self, work: Work) -> Callable[[], Arrays]:
        torch = self.torch
        w = {n: torch.from_numpy(v) for n, v in work.weights.items()}
        x = torch.from_numpy(work.data["x"])

        def norm(t, w: dict, name: str):
            mean, var, scale, shift = (w[f"{name}_{p}"] for p in ("mean", "var", "scale", "shift"))
            return torch.nn.functional.batch_norm(t, mean, var, scale, shift, eps=resnet.EPSILON)

        forward = self._compile(lambda x, w: self._resnet(x, w, norm))

        def step() -> Arrays:
            with torch.inference_mode():
                return {"y": forward(x, w).numpy()}

        return step

    resnet_forward_8 = resnet_forward

    def resnet_step(self, work: Work) -> TrainingStep:
        def norm(t, w: dict, name: str):
            scale, shift = w[f"{name}_scale"], w[f"{name}_shift"]
            return self.torch.nn.functional.group_norm(t, resnet.GROUPS, scale, shift, resnet.EPSILON)

        return self._classifier(work, lambda x, w: self._resnet(x, w, norm))

    def gpt2_step(self, work: Work) -> TrainingStep:
        return gpt2_peers.torch_step(self.torch, self._compile, work)

    def gpt2_decode(self, work: Work) -> Callable[[], Arrays]:
        return gpt2_peers.torch_decode(self.torch, self._compile, work)

    def _on_tensors(self, work: Work, function: Callable) -> TrainingStep:
        tensors = {n: self.torch.from_numpy(v.copy()) for n, v in work.weights.items()}

        def run() -> float:
            with self.torch.inference_mode():
                tensors["out"] = function(tensors)
            return 0.0

        return TrainingStep(run, lambda: {n: t.numpy() for n, t in tensors.items()})

    def gelu(self, work: Work) -> TrainingStep:
        return self._on_tensors(work, lambda t: self.torch.nn.functional.gelu(t["x"] + t["bias"], approximate="tanh"))

    def softmax(self, work: Work) -> TrainingStep:
        return self._on_tensors(work, lambda t: self.torch.softmax(t["x"], -1))

    def layer_norm(self, work: Work) -> TrainingStep:
        norm = self.torch.nn.functional.layer_norm
        return self._on_tensors(work, lambda t: norm(t["x"], t["scale"].shape, t["scale"], t["shift"], 1e-5))

    def adam(self, work: Work) -> TrainingStep:
        w, gradient = (self.torch.from_numpy(work.weights[n].copy()) for n in ("w", "gradient"))
        w.requires_grad_()
        w.grad = gradient
        optimizer = self._adam([w])

        def run() -> float:
            optimizer.step()
            return 0.0

        return TrainingStep(run, lambda: {"w": w.detach().numpy().copy()})

    def peak_bytes(self, step: Callable, before: int) -> int:
        """The most bytes of tensors during a step that begins with `before` of them."""
        profiler = self.torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            step()
        events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
        peak = now = before
        for event in sorted(events, key=lambda e: e.start_ns()):
            now += event.nbytes()
            peak = max(peak, now)
        return peak


class TorchCompiled(Torch):
    name = "compiled"

    def _compile(self, function: Callable) -> Callable:
        return self.torch.compile(function)


class Jax:
    name = "JAX"

    def __init__(self, threads: int) -> None:
        import jax

        self.jax = jax
        self.version = jax.__version__

    def _classifier(self, work: Work, network: Callable, optimizer: tuple[Callable, Callable] | None = None) -> TrainingStep:
        jax, jnp = self.jax, self.jax.numpy
        x, labels = jnp.asarray(work.data["x"]), jnp.asarray(work.data["labels"])
        initial, update = optimizer or (lambda w: (), self._descend)

        def loss(w: dict, x, labels):
            return -jnp.mean(jax.nn.log_softmax(network(x, w))[jnp.arange(len(labels)), labels])

        @jax.jit
        def train(w: dict, state: tuple, x, labels):
            value, grads = jax.value_and_grad(loss)(w, x, labels)
            return value, *update(w, grads, state)

        w = {n: jnp.asarray(v) for n, v in work.weights.items()}
        state = initial(w)

        def step() -> float:
            nonlocal w, state
            value, w, state = train(w, state, x, labels)
            jax.block_until_ready(w)
            return float(value)

        return TrainingStep(step, lambda: {n: np.asarray(v) for n, v in w.items()})

    def _descend(self, w: dict, grads: dict, state: tuple) -> tuple[dict, tuple]:
        return self.jax.tree.map(lambda p, g: p - RATE * g, w, grads), state

    def _two_layers(self, x, w: dict):
        return self.jax.nn.relu(x @ w["w0"] + w["b0"]) @ w["w1"] + w["b1"]

    def mlp(self, work: Work) -> TrainingStep:
        return self._classifier(work, self._two_layers)

    def mlp_adam(self, work: Work) -> TrainingStep:
        return self._classifier(work, self._two_layers, gpt2_peers.jax_adam(self.jax, ADAM_RATE))

    def gpt2_step(self, work: Work) -> TrainingStep:
        return gpt2_peers.jax_step(self.jax, work)

    def gpt2_decode(self, work: Work) -> Callable[[], Arrays]:
        return gpt2_peers.jax_decode(self.jax, work)

    def lenet(self, work: Work) -> TrainingStep:
        jax, lax = self.jax, self.jax.lax

        def network(x, w: dict):
            for i in range(2):
                x = jax.nn.relu(lax.conv(x, w[f"c{i}"], (1, 1), "VALID") + w[f"d{i}"])
                x = lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
            return jax.nn.relu(x.reshape(len(x), -1) @ w["w0"] + w["b0"]) @ w["w1"] + w["b1"]

        return self._classifier(work, network)

    def encoder(self, work: Work) -> Callable[[], Arrays]:
        jax, jnp = self.jax, self.jax.numpy
        batch, tokens, width = work.data["x"].shape
        heads = int(work.data["heads"])

        def norm(t, scale, shift):
            centred = t - t.mean(-1, keepdims=True)
            return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift

        def layer(w: dict, x):
            def split(t):
                return t.reshape(batch, tokens, heads, -1).transpose(0, 2, 1, 3)

            q, k, v = (split(t) for t in jnp.split(x @ w["qkv"] + w["qkv_b"], 3, axis=2))
            scores = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) * (width // heads) ** -0.5)
            mixed = (scores @ v).transpose(0, 2, 1, 3).reshape(x.shape)
            a = norm(x + (mixed @ w["out"] + w["out_b"]), w["n0"], w["n0_b"])
            up = jax.nn.gelu(a @ w["up"] + w["up_b"], approximate=False)
            return norm(a + (up @ w["down"] + w["down_b"]), w["n1"], w["n1_b"])

        @jax.jit
        def both(w: dict, x, dy):
            y, pullback = jax.vjp(layer, w, x)
            grads, dx = pullback(dy)
            return {"y": y, "x": dx, **grads}

        w = {n: jnp.asarray(v) for n, v in work.weights.items()}
        x, dy = jnp.asarray(work.data["x"]), jnp.asarray(work.data["dy"])
        return lambda: {n: np.asarray(v) for n, v in jax.block_until_ready(both(w, x, dy)).items()}

    def _resnet(self, x, w: dict, norm: Callable):
        jax, lax = self.jax, self.jax.lax

        def conv(t, c: resnet.Conv):
            return norm(lax.conv(t, w[c.name], (c.stride,) * 2, ((c.kernel // 2,) * 2,) * 2), w, c.name)

        x = jax.nn.relu(conv(x, resnet.STEM))
        padding = ((0, 0), (0, 0), (1, 1), (1, 1))
        x = lax.reduce_window(x, -np.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), padding)
        for block in resnet.blocks():
            shortcut = x if block.shortcut is None else conv(x, block.shortcut)
            for c in block.convs[:-1]:
                x = jax.nn.relu(conv(x, c))
            x = jax.nn.relu(conv(x, block.convs[-1]) + shortcut)
        return x.mean((2, 3)) @ w["fc"] + w["fc_b"]

    def resnet_forward(self, work: Work) -> Callable[[], Arrays]:
        jax, jnp = self.jax, self.jax.numpy

        def norm(t, w: dict, name: str):
            mean, var, scale, shift = (w[f"{name}_{p}"][:, None, None] for p in ("mean", "var", "scale", "shift"))
            return (t - mean) * (scale * jax.lax.rsqrt(var + resnet.EPSILON)) + shift

        w = {n: jnp.asarray(v) for n, v in work.weights.items()}
        x = jnp.asarray(work.data["x"])
        forward = jax.jit(lambda x, w: self._resnet(x, w, norm))
        return lambda: {"y": np.asarray(forward(x, w))}

    resnet_forward_8 = resnet_forward

    def resnet_step(self, work: Work) -> TrainingStep:
        jax = self.jax

        def norm(t, w: dict, name: str):
            groups = t.reshape(len(t), resnet.GROUPS, -1)
            centred = groups - groups.mean(-1, keepdims=True)
            normal = centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + resnet.EPSILON)
            return normal.reshape(t.shape) * w[f"{name}_scale"][:, None, None] + w[f"{name}_shift"][:, None, None]

        return self._classifier(work, lambda x, w: self._resnet(x, w, norm))
