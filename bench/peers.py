"""The same work in PyTorch (eager) and JAX (jit). Functions return steps as in ours.py."""

from collections.abc import Callable

import numpy as np

from work import Work

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

    def _classifier(self, work: Work, network: Callable) -> Callable[[], float]:
        torch = self.torch
        w = self._parameters(work)
        optimizer = torch.optim.SGD(w.values(), lr=RATE)
        x = torch.from_numpy(work.data["x"])
        labels = torch.from_numpy(work.data["labels"]).long()

        def step() -> float:
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(network(x, w), labels)
            loss.backward()
            optimizer.step()
            return loss.item()

        return step

    def mlp(self, work: Work) -> Callable[[], float]:
        return self._classifier(work, lambda x, w: self.torch.relu(x @ w["w0"] + w["b0"]) @ w["w1"] + w["b1"])

    def lenet(self, work: Work) -> Callable[[], float]:
        f = self.torch.nn.functional

        def network(x, w: dict):
            for i in range(2):
                x = f.max_pool2d(f.relu(f.conv2d(x, w[f"c{i}"], w[f"d{i}"].flatten())), 2)
            return f.relu(x.flatten(1) @ w["w0"] + w["b0"]) @ w["w1"] + w["b1"]

        return self._classifier(work, network)

    def encoder(self, work: Work) -> Callable[[], dict[str, np.ndarray]]:
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


class Jax:
    name = "JAX"

    def __init__(self, threads: int) -> None:
        import jax

        self.jax = jax
        self.version = jax.__version__

    def _classifier(self, work: Work, network: Callable) -> Callable[[], float]:
        jax, jnp = self.jax, self.jax.numpy
        x, labels = jnp.asarray(work.data["x"]), jnp.asarray(work.data["labels"])

        def loss(w: dict, x, labels):
            return -jnp.mean(jax.nn.log_softmax(network(x, w))[jnp.arange(len(labels)), labels])

        @jax.jit
        def train(w: dict, x, labels):
            value, grads = jax.value_and_grad(loss)(w, x, labels)
            return value, jax.tree.map(lambda p, g: p - RATE * g, w, grads)

        state = {n: jnp.asarray(v) for n, v in work.weights.items()}

        def step() -> float:
            nonlocal state
            value, state = train(state, x, labels)
            jax.block_until_ready(state)
            return float(value)

        return step

    def mlp(self, work: Work) -> Callable[[], float]:
        jax = self.jax
        return self._classifier(work, lambda x, w: jax.nn.relu(x @ w["w0"] + w["b0"]) @ w["w1"] + w["b1"])

    def lenet(self, work: Work) -> Callable[[], float]:
        jax, lax = self.jax, self.jax.lax

        def network(x, w: dict):
            for i in range(2):
                x = jax.nn.relu(lax.conv(x, w[f"c{i}"], (1, 1), "VALID") + w[f"d{i}"])
                x = lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
            return jax.nn.relu(x.reshape(len(x), -1) @ w["w0"] + w["b0"]) @ w["w1"] + w["b1"]

        return self._classifier(work, network)

    def encoder(self, work: Work) -> Callable[[], dict[str, np.ndarray]]:
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
