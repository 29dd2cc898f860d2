"""Attention as programs write it, forward and gradients, against NumPy in float64."""

import numpy as np
import pytest

import popxl
from popxl import ops, transforms

BATCH, TOKENS, HEADS, SIZE = 2, 6, 3, 4
WIDTH = HEADS * SIZE
CAUSAL = np.tril(np.ones((TOKENS, TOKENS), bool))
PADDING = np.where(np.arange(TOKENS) < 4, 0, -1000).astype(np.float32).reshape(1, 1, 1, TOKENS)


def heads_of(t: popxl.Tensor) -> popxl.Tensor:
    return t.reshape((BATCH, TOKENS, HEADS, SIZE)).transpose((0, 2, 1, 3))


def by_split(x: popxl.Tensor, w: popxl.Tensor) -> list[popxl.Tensor]:
    return [heads_of(t) for t in ops.split(x @ w, 3, axis=2)]


def by_slices(x: popxl.Tensor, w: popxl.Tensor) -> list[popxl.Tensor]:
    qkv = x @ w
    return [heads_of(qkv[:, :, i * WIDTH : (i + 1) * WIDTH]) for i in range(3)]


def by_products(x: popxl.Tensor, w: popxl.Tensor) -> list[popxl.Tensor]:
    return [heads_of(x @ part) for part in ops.split(w, 3, axis=1)]


def by_rows(x: popxl.Tensor, w: popxl.Tensor) -> list[popxl.Tensor]:
    """All tokens of all sequences as rows of one matrix."""
    return [heads_of(t) for t in ops.split(x.reshape((BATCH * TOKENS, WIDTH)) @ w, 3, axis=1)]


def no_mask(scores: popxl.Tensor) -> popxl.Tensor:
    return scores


def added_causal(scores: popxl.Tensor) -> popxl.Tensor:
    return scores + popxl.constant(np.where(CAUSAL, 0, -1e4).astype(np.float32))


def added_padding(scores: popxl.Tensor) -> popxl.Tensor:
    return ops.add(popxl.constant(PADDING), scores)


def where_causal(scores: popxl.Tensor) -> popxl.Tensor:
    return ops.where(popxl.constant(CAUSAL), scores, popxl.constant(-1e4, popxl.float32))


def where_hidden(scores: popxl.Tensor) -> popxl.Tensor:
    hidden = popxl.constant(~CAUSAL.reshape(1, 1, TOKENS, TOKENS))
    return ops.where(hidden, popxl.constant(-1e9, popxl.float32), scores)


def scaled_after(q: popxl.Tensor, k: popxl.Tensor) -> popxl.Tensor:
    return (q @ k.transpose((0, 1, 3, 2))) * SIZE**-0.5


def divided_after(q: popxl.Tensor, k: popxl.Tensor) -> popxl.Tensor:
    return (q @ k.transpose((0, 1, 3, 2))) / SIZE**0.5


def scaled_before(q: popxl.Tensor, k: popxl.Tensor) -> popxl.Tensor:
    return (q * SIZE**-0.5) @ k.transpose((0, 1, 3, 2))


BIAS = {
    no_mask: np.zeros((1, 1, TOKENS, TOKENS)),
    added_causal: np.where(CAUSAL, 0, -1e4),
    added_padding: PADDING.astype(np.float64),
    where_causal: np.where(CAUSAL, 0, -1e9),
    where_hidden: np.where(CAUSAL, 0, -1e9),
}


def reference(x: np.ndarray, w: np.ndarray, dy: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, ...]:
    """The output, and the gradients of x and w."""
    x, w, dy = (a.astype(np.float64) for a in (x, w, dy))

    def split(t: np.ndarray) -> np.ndarray:
        return t.reshape(BATCH, TOKENS, HEADS, SIZE).transpose(0, 2, 1, 3)

    def join(t: np.ndarray) -> np.ndarray:
        return t.transpose(0, 2, 1, 3).reshape(BATCH, TOKENS, WIDTH)

    q, k, v = (split(t) for t in np.split(x @ w, 3, axis=2))
    scores = q @ k.transpose(0, 1, 3, 2) * SIZE**-0.5 + bias
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    dout = split(dy)
    dp = dout @ v.transpose(0, 1, 3, 2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * SIZE**-0.5
    parts = [ds @ k, ds.transpose(0, 1, 3, 2) @ q, p.transpose(0, 1, 3, 2) @ dout]
    dqkv = np.concatenate([join(t) for t in parts], axis=2)
    return join(p @ v), dqkv @ w.T, np.tensordot(x, dqkv, axes=((0, 1), (0, 1)))


@pytest.mark.parametrize("mask", BIAS)
@pytest.mark.parametrize("product", [scaled_after, divided_after, scaled_before])
@pytest.mark.parametrize("parts", [by_split, by_slices, by_products, by_rows])
def test_attention_matches_numpy(parts, product, mask) -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)
    w = rng.normal(0, WIDTH**-0.5, (WIDTH, 3 * WIDTH)).astype(np.float32)
    dy = rng.normal(size=x.shape).astype(np.float32)

    def build(x: popxl.Tensor, w: popxl.Tensor) -> popxl.Tensor:
        q, k, v = parts(x, w)
        mixed = ops.softmax(mask(product(q, k)), axis=-1) @ v
        return mixed.transpose((0, 2, 1, 3)).reshape((BATCH, TOKENS, WIDTH))

    ir = popxl.Ir()
    with ir.main_graph:
        inputs = [popxl.variable(x, name="x"), popxl.variable(w, name="w")]
        graph = ir.create_graph(build, *inputs)
        forward = ops.call_with_info(graph, *inputs)
        backward = transforms.autodiff(graph)
        dx, dw = ops.call(backward.graph, popxl.constant(dy), inputs_dict=backward.inputs_dict(forward))
        results = [forward.outputs[0], dx, dw]
        streams = [popxl.d2h_stream(t.shape, popxl.float32) for t in results]
        for stream, t in zip(streams, results):
            ops.host_store(stream, t)
    with popxl.Session(ir, "cpu") as session:
        got = session.run()
    for stream, want in zip(streams, reference(x, w, dy, BIAS[mask])):
        np.testing.assert_allclose(got[stream], want, rtol=1e-5, atol=1e-5)
    text = session.ir_.to_text()
    assert " = attention " in text and " = attention_grad " in text
    assert "= softmax" not in text


@pytest.mark.parametrize("past", [0, 5, 40])
def test_one_token_with_a_cache_of_keys_and_values_matches_numpy(past) -> None:
    """Decoding: the token's key and value are put into the cache in place, then it attends to all before it."""
    rng = np.random.default_rng(past)
    length = 48
    cache = rng.normal(size=(2, BATCH, length, HEADS, SIZE)).astype(np.float32)
    q, k, v = rng.normal(size=(3, BATCH, 1, HEADS, SIZE)).astype(np.float32)
    bias = np.where(np.arange(length) <= past, 0, -1e4).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        keys, values = (popxl.variable(c) for c in cache)
        at = popxl.constant([past], popxl.uint32)
        now = []
        for variable, new in ((keys, k), (values, v)):
            ops.dynamic_update_(variable, at, popxl.constant(new), axes=[1], sizes=[1], no_overlap=True)
            now.append(variable.transpose((0, 2, 1, 3)))
        query = popxl.constant(q).transpose((0, 2, 1, 3))
        scores = (query @ now[0].transpose((0, 1, 3, 2))) * SIZE**-0.5 + popxl.constant(bias)
        out = (ops.softmax(scores, axis=-1) @ now[1]).transpose((0, 2, 1, 3)).reshape((BATCH, 1, WIDTH))
        stream = popxl.d2h_stream(out.shape, popxl.float32)
        ops.host_store(stream, out)
    with popxl.Session(ir, "cpu") as session:
        got = session.run()[stream]
    assert " = attention " in session.ir_.to_text()
    cache[0][:, past], cache[1][:, past] = k[:, 0], v[:, 0]
    before = cache[:, :, : past + 1].astype(np.float64)
    scores = np.einsum("bohd,bthd->bht", q.astype(np.float64), before[0]) * SIZE**-0.5
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    want = np.einsum("bht,bthd->bhd", p, before[1]).reshape(BATCH, 1, WIDTH)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
