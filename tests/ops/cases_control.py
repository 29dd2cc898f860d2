"""Rows of ops that run graphs, and of traffic with the host."""

import numpy as np

import popxl
from ops.case import EVERY, FLOATS, Bad, Case, real
from popart import popart_exception
from popxl import ops
from popxl.context import get_current_context


def _graph(function, *inputs):
    return get_current_context().ir.create_graph(function, *inputs)


def _call(a, b):
    return ops.call(_graph(lambda x, y: (x * y, x - y), a, b), a, b)


def _repeat(a, b):
    return ops.repeat(_graph(lambda x, y: x * 0.5 + y, a, b), 3, a, b)


def _repeat_never(a, b):
    return ops.repeat(_graph(lambda x, y: x * 0.5 + y, a, b), 0, a, b)


def _repeat_up_to(count):
    def run(a, b):
        n = popxl.constant(count, popxl.int32)
        return ops.repeat(_graph(lambda x, y: x * 0.5 + y, a, b), n, a, b, max_repeat_count=4)

    return run


def _repeated(a, b, count):
    for _ in range(count):
        a = a * 0.5 + b
    return a


def _scan(a, b):
    """Runs over the rows of b from the last one, with one row of a as state."""

    def step(state, row, factor):
        state = state * 0.5 + row
        return state, state * factor

    start, half = ops.sum(a, axis=[0]), popxl.constant(0.5, a.dtype)
    (last,), (all_states,) = ops.scan(_graph(step, start, start, half), [start], [b], half, reverse=True)
    return last, all_states


def _scanned(a, b):
    state, states = a.sum(axis=0), np.zeros_like(b)
    for i in reversed(range(len(b))):
        state = state * 0.5 + b[i]
        states[i] = state * 0.5
    return state, states


def _while_loop(a, b):
    """Halves until the sum of squares is small."""
    body = _graph(lambda x, y: x * 0.5 + y * 0.125, a, b)
    cond = _graph(lambda x: ops.greater(ops.sumsquare(x), popxl.constant(0.5, a.dtype)), a)
    return ops.while_loop(cond, body, 3, a, b)


def _while_looped(a, b):
    for _ in range(3):
        if np.sum(a * a) > 0.5:
            a = a * 0.5 + b * 0.125
    return a


def _no_bound():
    a = popxl.variable(1.0)
    ops.repeat(_graph(lambda x: x + 1, a), popxl.variable(2), a)


def _conditional(value):
    def run(a, b):
        condition = popxl.constant(value, popxl.bool)
        return ops.conditional(condition, _graph(lambda x: x + 1, a), _graph(lambda y: y * 2, b), [a], [b])

    return run


def _by_reference(a, b):
    def change(x: popxl.TensorByRef, y: popxl.Tensor):
        ops.var_updates.accumulate_(x, y)

    own = a + 0
    ops.call(_graph(change, own, b), own, b)
    return own


def _too_many():
    a = popxl.variable(1.0)
    ops.call(_graph(lambda x: x + 1, a), a, a)


def _missing():
    a = popxl.variable(1.0)
    ops.repeat(_graph(lambda x, y: x + y, a, a), 2, a)


def _negative_count():
    a = popxl.variable(1.0)
    ops.repeat(_graph(lambda x: x + 1, a), -1, a)


def _load_code(a):
    graph = _graph(lambda x: x * 2, a)
    ops.remote_code_load(graph, "executable")
    return ops.call(graph, a)


def _growing():
    a = popxl.variable(1.0)
    ops.repeat(_graph(lambda x: (x, x + 1), a), 2, a)


def _wrong_type():
    a = popxl.variable(1.0)
    ops.call(_graph(lambda x: x + 1, a), popxl.variable([1.0, 2.0]))


def _uneven():
    a = popxl.variable(1.0)
    yes, no = _graph(lambda x: x, a), _graph(lambda x: (x, x), a)
    ops.conditional(popxl.variable(True), yes, no, [a], [a])


_TWO = [real(3, 4), real(3, 4)]

_RUNNING = [
    Case(
        "call",
        _call,
        _TWO,
        lambda a, b: (a * b, a - b),
        dtypes=FLOATS,
        grad=(0, 1),
        bad=(
            Bad(_too_many, ValueError, "^Too many inputs have been provided"),
            Bad(_wrong_type, popart_exception, "must be equal"),
        ),
    ),
    Case("call", _by_reference, _TWO, lambda a, b: a + b, "by reference"),
    Case(
        "repeat",
        _repeat,
        _TWO,
        lambda a, b: _repeated(a, b, 3),
        grad=(0, 1),
        tolerance=2,
        bad=(
            Bad(_missing, ValueError, "^Not enough inputs have been provided"),
            Bad(_negative_count, ValueError, "^Repeat count must be >= 0"),
            Bad(_growing, ValueError, "^To repeat the subgraph"),
        ),
    ),
    Case("repeat", _repeat_never, _TWO, lambda a, b: a, "never", grad=(0, 1)),
    Case("repeat", _scan, _TWO, _scanned, "scan", dtypes=FLOATS, grad=(0, 1), tolerance=4),
    Case("repeat", _while_loop, _TWO, _while_looped, "while", grad=(0, 1), tolerance=2),
    Case(
        "repeat_up_to",
        _repeat_up_to(3),
        _TWO,
        lambda a, b: _repeated(a, b, 3),
        grad=(0, 1),
        tolerance=2,
        bad=(Bad(_no_bound, ValueError, "max_repeat_count"),),
    ),
    Case("repeat_up_to", _repeat_up_to(-1), _TWO, lambda a, b: a, "never", grad=(0, 1)),
    Case("repeat_up_to", _repeat_up_to(4), _TWO, lambda a, b: _repeated(a, b, 4), "most", tolerance=2),
    Case(
        "conditional",
        _conditional(True),
        _TWO,
        lambda a, b: a + 1,
        "then",
        grad=(0, 1),
        bad=(Bad(_uneven, ValueError, "same number of outputs"),),
    ),
    Case("conditional", _conditional(False), _TWO, lambda a, b: b * 2, "else", grad=(0, 1)),
]


def _load():
    return ops.host_load(popxl.h2d_stream((2, 3), popxl.float32, "x"))


def _store(t):
    ops.host_store(popxl.d2h_stream(t.shape, t.dtype, "first"), t)
    return t


def _store_misfit():
    ops.host_store(popxl.d2h_stream((2,), popxl.float32), popxl.variable(1.0))


def _load_own_code():
    ops.remote_code_load(get_current_context().graph, "executable")


def _load_code_to(destination):
    ops.remote_code_load(_graph(lambda x: x, popxl.variable(1.0)), destination)


_CODE = [
    Case(
        "remote_code_load",
        _load_code,
        [real(3)],
        lambda x: x * 2,
        dtypes=FLOATS,
        bad=(
            Bad(_load_own_code, ValueError, "cannot load the code"),
            Bad(lambda: _load_code_to("io_buffer"), NotImplementedError, "io_buffer"),
            Bad(lambda: _load_code_to("disk"), ValueError, "disk"),
        ),
    ),
]

_HOST = [
    Case(
        "init",
        lambda: ops.init((2, 3), popxl.int32, "made"),
        [],
        lambda: np.zeros((2, 3), "int32"),
        dtypes=("int32",),
        bad=(Bad(lambda: ops.init((2,), popxl.int32, init_type="one"), ValueError, "init_type"),),
    ),
    Case("host_load", _load, [], lambda: np.arange(6, dtype="float32").reshape(2, 3), dtypes=("float32",)),
    Case(
        "host_store",
        _store,
        [real(2, 3)],
        lambda x: x,
        dtypes=EVERY,
        bad=(Bad(_store_misfit, ValueError, "shape"),),
    ),
    Case(
        "print_tensor",
        lambda t: ops.print_tensor(t, "values", print_self=False),
        [real(2, 3)],
        lambda x: x,
        dtypes=EVERY,
        grad=(0,),
        bad=(Bad(lambda: ops.print_tensor(popxl.variable(1.0), separator=", "), ValueError, "separator"),),
    ),
]


def _remote_trip(t):
    """Stores at an entry known when the program is built, loads from one known when it runs."""
    buffer = popxl.remote_buffer(t.shape, t.dtype, 3)
    with popxl.in_sequence():
        ops.remote_store(buffer, 2, t)
        return ops.remote_load(buffer, popxl.variable([2], popxl.int16), "back")


def _remote_trip_in_place(t):
    buffer = popxl.remote_buffer(t.shape, t.dtype, 1)
    with popxl.in_sequence():
        ops.remote_store(buffer, 0, t)
        return ops.remote_load_(buffer, 0, ops.init(t.shape, t.dtype))


def _no_entry():
    with popxl.gir().main_graph:
        ops.remote_load(popxl.remote_buffer((2,), popxl.float32, 1), popxl.variable([1.5]))


_BUFFERS = [
    Case(
        "remote_store",
        _remote_trip,
        [real(2, 3)],
        lambda x: x,
        dtypes=EVERY,
        bad=(
            Bad(
                lambda: ops.remote_store(popxl.remote_buffer((2,), popxl.int8), 0, popxl.variable(1.0)),
                ValueError,
                "^Tensor .* does not match buffer",
            ),
        ),
    ),
    Case(
        "remote_load",
        _remote_trip_in_place,
        [real(2, 3)],
        lambda x: x,
        dtypes=EVERY,
        bad=(
            Bad(_no_entry, TypeError, "offset"),
            Bad(lambda: ops.remote_load(None, 0), TypeError, "must be a popxl.RemoteBuffer"),
            Bad(
                lambda: ops.remote_load(popxl.remote_buffer((2,), popxl.int8), popxl.constant([0, 1])),
                ValueError,
                "must be one integer",
            ),
        ),
    ),
]

CASES = _RUNNING + _CODE + _HOST + _BUFFERS
