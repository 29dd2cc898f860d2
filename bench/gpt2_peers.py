"""GPT-2 in PyTorch and JAX: the same arithmetic as examples/gpt2.py, for the rows that peers.py names."""

from collections.abc import Callable
from typing import Any

import numpy as np

import gpt2
from work import GPT2_RATE, Arrays, TrainingStep, Work, decoding


def batch_of(work: Work) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (batch, length) and the tokens after each, in one row."""
    return work.data["tokens"][:, :-1], work.data["tokens"][:, 1:].reshape(-1)


def torch_logits(torch: Any, w: dict, config: gpt2.Config, tokens: Any) -> Any:
    """Logits (batch, length, vocabulary)."""
    f = torch.nn.functional
    batch, length = tokens.shape

    def norm(x, name: str):
        return f.layer_norm(x, (config.width,), w[f"{name}.scale"], w[f"{name}.shift"], 1e-5)

    def linear(x, name: str):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["tokens"][tokens] + w["positions"][:length]
    for i in range(config.layers):
        p = f"layer{i}."
        parts = linear(norm(x, p + "norm1"), p + "qkv").chunk(3, dim=2)
        q, k, v = (t.view(batch, length, config.heads, -1).transpose(1, 2) for t in parts)
        mixed = f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + linear(mixed, p + "out")
        x = x + linear(f.gelu(linear(norm(x, p + "norm2"), p + "up"), approximate="tanh"), p + "down")
    return norm(x, "norm") @ w["tokens"].T


def torch_step(torch: Any, compiled: Callable, work: Work) -> TrainingStep:
    w = {n: torch.from_numpy(v.copy()).requires_grad_() for n, v in work.weights.items()}
    optimizer = torch.optim.Adam(w.values(), lr=GPT2_RATE, betas=(gpt2.BETA1, gpt2.BETA2), eps=gpt2.EPSILON)
    tokens, labels = (torch.from_numpy(np.ascontiguousarray(t)).long() for t in batch_of(work))

    def loss_of(w: dict, tokens, labels):
        logits = torch_logits(torch, w, work.config, tokens)
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels)

    loss_of = compiled(loss_of)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(w, tokens, labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    def moments() -> Arrays:
        return {n: optimizer.state[t]["exp_avg"].numpy().copy() for n, t in w.items()}

    return TrainingStep(step, moments)


def torch_decode(torch: Any, compiled: Callable, work: Work) -> Callable[[], Arrays]:
    config, f = work.config, torch.nn.functional
    w = {n: torch.from_numpy(v.copy()) for n, v in work.weights.items()}
    shape = (config.layers, config.heads, config.positions, config.width // config.heads)
    keys, values = torch.zeros(shape), torch.zeros(shape)
    places = torch.arange(config.positions)

    def norm(x, name: str):
        return f.layer_norm(x, (config.width,), w[f"{name}.scale"], w[f"{name}.shift"], 1e-5)

    def linear(x, name: str):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    def logits(keys, values, token, position, seen: int):
        """`seen`: how many places of the caches attention looks at."""
        x = w["tokens"][token] + w["positions"][position]
        mask = (places[:seen] <= position)[None]
        for i in range(config.layers):
            p = f"layer{i}."
            q, k, v = linear(norm(x, p + "norm1"), p + "qkv").view(3, config.heads, 1, -1).unbind()
            keys[i].index_copy_(1, position, k)
            values[i].index_copy_(1, position, v)
            mixed = f.scaled_dot_product_attention(q, keys[i, :, :seen], values[i, :, :seen], mask)
            x = x + linear(mixed.view(1, -1), p + "out")
            x = x + linear(f.gelu(linear(norm(x, p + "norm2"), p + "up"), approximate="tanh"), p + "down")
        return norm(x, "norm") @ w["tokens"].T

    eager = compiled(logits) is logits
    logits = compiled(logits)

    def run(token: int, position: int) -> np.ndarray:
        # A compiled function sees one shape; eager looks only at what there is.
        seen = position + 1 if eager else config.positions
        with torch.inference_mode():
            return logits(keys, values, torch.tensor([token]), torch.tensor([position]), seen).numpy()[0]

    return decoding(work, run)


def jax_layer(jax: Any, w: dict, config: gpt2.Config, prefix: str, x: Any, attend: Callable) -> Any:
    def norm(x, name: str):
        return jax_norm(jax, x, w[f"{prefix}{name}.scale"], w[f"{prefix}{name}.shift"])

    def linear(x, name: str):
        return x @ w[f"{prefix}{name}.weight"] + w[f"{prefix}{name}.bias"]

    x = x + linear(attend(*jax.numpy.split(linear(norm(x, "norm1"), "qkv"), 3, axis=-1)), "out")
    return x + linear(jax.nn.gelu(linear(norm(x, "norm2"), "up"), approximate=True), "down")


def jax_norm(jax: Any, x: Any, scale: Any, shift: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift


def jax_loss(jax: Any, w: dict, config: gpt2.Config, tokens: Any, labels: Any) -> Any:
    jnp = jax.numpy
    batch, length = tokens.shape
    visible = jnp.tri(length, dtype=bool)

    def attend(q, k, v):
        q, k, v = (t.reshape(batch, length, config.heads, -1).transpose(0, 2, 1, 3) for t in (q, k, v))
        scores = q @ k.transpose(0, 1, 3, 2) * q.shape[-1] ** -0.5
        mixed = jax.nn.softmax(jnp.where(visible, scores, gpt2.MASKED)) @ v
        return mixed.transpose(0, 2, 1, 3).reshape(batch, length, config.width)

    x = w["tokens"][tokens] + w["positions"][:length]
    for i in range(config.layers):
        x = jax_layer(jax, w, config, f"layer{i}.", x, attend)
    logits = jax_norm(jax, x, w["norm.scale"], w["norm.shift"]).reshape(-1, config.width) @ w["tokens"].T
    return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels])


def jax_adam(jax: Any, rate: float) -> tuple[Callable, Callable]:
    """The state that Adam begins with, from weights, and its step: (weights, gradients, state) to (weights, state)."""
    jnp = jax.numpy

    def initial(w: dict) -> tuple:
        return jax.tree.map(jnp.zeros_like, w), jax.tree.map(jnp.zeros_like, w), jnp.float32(0)

    def step(w: dict, grads: dict, state: tuple) -> tuple[dict, tuple]:
        first, second, steps = state
        steps = steps + 1
        first = jax.tree.map(lambda m, g: gpt2.BETA1 * m + (1 - gpt2.BETA1) * g, first, grads)
        second = jax.tree.map(lambda v, g: gpt2.BETA2 * v + (1 - gpt2.BETA2) * g * g, second, grads)

        def update(p, m, v):
            m, v = m / (1 - gpt2.BETA1**steps), v / (1 - gpt2.BETA2**steps)
            return p - rate * m / (jnp.sqrt(v) + gpt2.EPSILON)

        return jax.tree.map(update, w, first, second), (first, second, steps)

    return initial, step


def jax_step(jax: Any, work: Work) -> TrainingStep:
    jnp = jax.numpy
    tokens, labels = (jnp.asarray(t) for t in batch_of(work))
    initial, update = jax_adam(jax, GPT2_RATE)

    def train(w: dict, state: tuple, tokens, labels):
        loss, grads = jax.value_and_grad(lambda w: jax_loss(jax, w, work.config, tokens, labels))(w)
        return loss, *update(w, grads, state)

    train = jax.jit(train, donate_argnums=(0, 1))
    w = {n: jnp.array(v) for n, v in work.weights.items()}  # copies: their memory is given away
    state = initial(w)

    def step() -> float:
        nonlocal w, state
        loss, w, state = train(w, state, tokens, labels)
        jax.block_until_ready(w)
        return float(loss)

    return TrainingStep(step, lambda: {n: np.array(m) for n, m in state[0].items()})


def jax_decode(jax: Any, work: Work) -> Callable[[], Arrays]:
    jnp, config = jax.numpy, work.config
    w = {n: jnp.asarray(v) for n, v in work.weights.items()}
    shape = (config.heads, config.positions, config.width // config.heads)
    cache = [(jnp.zeros(shape), jnp.zeros(shape)) for _ in range(config.layers)]

    def logits(w: dict, cache: list, token, position):
        visible = jnp.arange(config.positions) <= position
        after = []

        def attend(q, k, v):
            q, k, v = (t.reshape(config.heads, 1, -1) for t in (q, k, v))
            keys, values = (
                jax.lax.dynamic_update_slice(old, new, (0, position, 0)) for old, new in zip(cache[len(after)], (k, v))
            )
            after.append((keys, values))
            scores = q @ keys.transpose(0, 2, 1) * q.shape[-1] ** -0.5
            return (jax.nn.softmax(jnp.where(visible, scores, gpt2.MASKED)) @ values).reshape(1, config.width)

        x = (w["tokens"][token] + w["positions"][position])[None]
        for i in range(config.layers):
            x = jax_layer(jax, w, config, f"layer{i}.", x, attend)
        return (jax_norm(jax, x, w["norm.scale"], w["norm.shift"]) @ w["tokens"].T)[0], after

    logits = jax.jit(logits, donate_argnums=1)

    def run(token: int, position: int) -> np.ndarray:
        nonlocal cache
        result, cache = logits(w, cache, np.int32(token), np.int32(position))
        return np.asarray(result)

    return decoding(work, run)
