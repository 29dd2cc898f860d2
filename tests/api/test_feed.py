"""Session.feed: inputs made while the program runs."""

import threading
import time
from typing import Any, Iterator

import numpy as np
import popxl
import popxl.ops as ops
import pytest


@pytest.fixture
def doubling() -> Iterator[tuple]:
    """A program that doubles its input and counts its runs."""
    ir = popxl.Ir()
    with ir.main_graph:
        x, y = popxl.h2d_stream((3,), popxl.float32), popxl.d2h_stream((3,), popxl.float32)
        ops.host_store(y, ops.host_load(x) * 2)
        count = popxl.variable(0)
        ops.add_(count, popxl.constant(1))
    with popxl.Session(ir, "cpu") as session:
        yield session, x, y, count


def feed_threads() -> list:
    return [t for t in threading.enumerate() if t.name == "popxl-feed"]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_outputs_in_order(doubling: tuple, depth: int) -> None:
    session, x, y, count = doubling
    rows = np.random.default_rng(3).standard_normal((20, 3)).astype(np.float32)
    feed = session.feed(({x: row} for row in rows), depth)
    np.testing.assert_array_equal([outputs[y] for outputs in feed], rows * 2)
    assert session.get_tensor_data(count) == feed.report.runs == 20
    assert not feed_threads()


def test_inputs_are_converted_as_for_run(doubling: tuple) -> None:
    session, x, y, _ = doubling
    (outputs,) = session.feed([{x: [1, 2, 3]}])
    np.testing.assert_array_equal(outputs[y], [2, 4, 6])


def test_no_inputs(doubling: tuple) -> None:
    session, *_ = doubling
    feed = session.feed([])
    assert list(feed) == []
    assert feed.report.runs == 0
    assert "0 runs" in str(feed.report)


def test_inputs_are_made_ahead(doubling: tuple) -> None:
    """The next inputs are made before the loop asks for them, but no more than `depth` and the one at hand."""
    session, x, *_ = doubling
    made = []
    all_made = threading.Event()

    def batches() -> Iterator[dict]:
        for i in range(10):
            made.append(i)
            if i == 3:
                all_made.set()
            yield {x: np.zeros(3, np.float32)}

    runs = iter(session.feed(batches(), depth=2))
    next(runs)
    assert all_made.wait(10)  # 0 was run, 1 and 2 are ready, 3 waits for room
    assert made == [0, 1, 2, 3]
    runs.close()


def test_iterator_that_fails(doubling: tuple) -> None:
    session, x, _, count = doubling

    def batches() -> Iterator[dict]:
        yield {x: np.zeros(3, np.float32)}
        raise KeyError("no more files")

    with pytest.raises(KeyError, match="no more files"):
        list(session.feed(batches()))
    assert session.get_tensor_data(count) == 1
    assert not feed_threads()


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [({"shape": (2,)}, ValueError, "shape"), ({"dtype": np.complex64}, TypeError, "must be"), (None, ValueError, "Missing")],
)
def test_bad_input(doubling: tuple, bad: Any, error: type, message: str) -> None:
    session, x, _, count = doubling
    batch = {} if bad is None else {x: np.zeros(**{"shape": (3,), "dtype": np.float32, **bad})}
    with pytest.raises(error, match=message):
        list(session.feed([{x: np.zeros(3, np.float32)}, batch]))
    assert session.get_tensor_data(count) == 1
    assert not feed_threads()


def test_loop_that_ends_early(doubling: tuple) -> None:
    session, x, _, count = doubling

    def forever() -> Iterator[dict]:
        while True:
            yield {x: np.zeros(3, np.float32)}

    for i, _ in enumerate(session.feed(forever())):
        if i == 4:
            break
    assert not feed_threads()
    assert session.get_tensor_data(count) == 5


def test_verdict(doubling: tuple) -> None:
    """Tells who waits for whom; the times here differ by far."""
    session, x, *_ = doubling

    def slow() -> Iterator[dict]:
        for _ in range(5):
            time.sleep(0.05)
            yield {x: np.zeros(3, np.float32)}

    feed = session.feed(slow())
    list(feed)
    assert feed.report.bound == "host"
    assert str(feed.report).startswith("host-bound: making inputs is slower than running. 5 runs in ")
    feed = session.feed({x: np.zeros(3, np.float32)} for _ in range(8))
    for _ in feed:
        time.sleep(0.05)
    assert feed.report.bound == "device"
    assert str(feed.report).startswith("device-bound: inputs are ready in time. 8 runs in ")


def test_once(doubling: tuple) -> None:
    session, *_ = doubling
    feed = session.feed([])
    list(feed)
    with pytest.raises(RuntimeError, match="once"):
        iter(feed)
    with pytest.raises(ValueError, match="not 0"):
        session.feed([], depth=0)
