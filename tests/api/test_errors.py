"""Wrong uses: which exception, what it says, which line it names, and that nothing has changed afterwards."""

import os
import re

import numpy as np
import pytest

import popart
import popxl
from popxl import ops, transforms
from popxl.ops import var_updates

HERE = re.escape(os.path.basename(__file__))
USER_ERRORS = (ValueError, TypeError, IndexError, NotImplementedError, popart.popart_exception)


def ones(*shape, dtype=popxl.float32):
    return popxl.variable(np.ones(shape), dtype)


def spec(*shape, dtype=popxl.float32):
    return popxl.TensorSpec(shape, dtype)


OTHER = popxl.Ir()
with OTHER.main_graph:
    FOREIGN_BUFFER = popxl.remote_buffer((2,), popxl.float32)
    FOREIGN_TENSOR = popxl.variable(np.ones(2, np.float32))
FOREIGN_GRAPH = OTHER.create_graph(lambda: None)


def buffer():
    return popxl.remote_buffer((2,), popxl.float32)


def called(call, *args, body=lambda x, y: x + y, **kwargs):
    """A call of a graph of two vectors."""
    return call(popxl.gir().create_graph(body, spec(2), spec(2)), *args, **kwargs)


# The use in the main graph, the exception, a piece of its message.
ERRORS = {
    "broadcast": (lambda: ones(2) + ones(3), popart.popart_exception, r"\(2,\).*\(3,\)|\(3,\).*\(2,\)"),
    "dtypes": (lambda: ones(2) * ones(2, dtype=popxl.float16), popart.popart_exception, "same dtype"),
    "call shape": (lambda: called(ops.call, ones(2), ones(3)), popart.popart_exception, r"\(3,\)"),
    "call dtype": (
        lambda: called(ops.call, ones(2), ones(2, dtype=popxl.int32)),
        popart.popart_exception,
        "int32",
    ),
    "repeat shape": (lambda: called(ops.repeat, 2, ones(3), ones(2)), popart.popart_exception, r"\(3,\)"),
    "reshape size": (lambda: ones(4).reshape((3,)), popart.popart_exception, "4 elements"),
    "concat rank": (lambda: ops.concat([ones(2), ones(2, 2)]), popart.popart_exception, "rank"),
    "split sizes": (lambda: ops.split(ones(4), [1, 2]), popart.popart_exception, "add up"),
    "split equally": (lambda: ops.split(ones(4), 3), ValueError, "3 equal"),
    "axis": (lambda: ops.softmax(ones(2, 2), 2), ValueError, "axis 2"),
    "matmul": (lambda: ones(2, 3) @ ones(2, 3), popart.popart_exception, "3.*2"),
    "large": (lambda: ops.softmax(ones(2), 2**70), ValueError, "64 bits"),
    "attribute": (lambda: ops.softmax(ones(2), "last"), TypeError, "`axis` must be an integer"),
    "name": (lambda: ops.identity(ones(2), 3), TypeError, "must be a string, not 3"),
    "no operand": (lambda: ops.maximum(), ValueError, "`ts` is missing"),
    "empty": (lambda: ops.argmax(ones(0, 3), 0), ValueError, "no elements on axis 0"),
    "empty median": (lambda: ops.median(ones(0)), ValueError, "no elements on axis 0"),
    "nan bound": (lambda: ops.clip(ones(2, dtype=popxl.int32), float("nan")), ValueError, "`min` is NaN"),
    "fraction": (
        lambda: ops.increment_mod(ones(2, dtype=popxl.int32), 0.5, 2.0),
        ValueError,
        "`increment` is 0.5",
    ),
    "logsumexp": (lambda: ops.logsumexp(ones(2, dtype=popxl.int32)), TypeError, "int32"),
    "update": (lambda: var_updates.accumulate_(ones(2), ones(3)), popart.popart_exception, "same shape"),
    "cumsum": (lambda: ops.cumsum(ones(2), 2**70), ValueError, "out of range"),
    "cast": (lambda: ops.cast(ones(2), "float32"), TypeError, "such as popxl.float32"),
    "dtype of data": (lambda: popxl.variable(1.0, "float32"), TypeError, "such as popxl.float32"),
    "transpose": (
        lambda: ops.transpose(ones(1, 1, 1), (5, 4, 3)),
        ValueError,
        r"Values in permutation must be less than.*rank 3.*\(5, 4, 3\)",
    ),
    "reshape zero": (
        lambda: ones(4).reshape((0, 4)),
        ValueError,
        r"Invalid shape value in reshape.*\(0, 4\)",
    ),
    "reshape two": (lambda: ones(4).reshape((-1, -1)), ValueError, r"at most one '-1' value.*\(-1, -1\)"),
    "few inputs": (lambda: called(ops.call, ones(2)), ValueError, "^Not enough inputs"),
    "loop inputs": (lambda: called(ops.repeat, 1, ones(2)), ValueError, "^Not enough inputs have been"),
    "many inputs": (
        lambda: called(ops.repeat, 1, *[ones(2)] * 3),
        ValueError,
        "^Too many inputs have been provided",
    ),
    "text as input": (lambda: called(ops.call, ones(2), "a"), TypeError, "can't be made a constant"),
    "count": (lambda: called(ops.repeat, -1, ones(2), ones(2)), ValueError, "^Repeat count must be >= 0"),
    "outputs": (
        lambda: called(ops.repeat, 1, ones(2), ones(2), body=lambda x, y: (x, y, x + y)),
        ValueError,
        "^To repeat the subgraph",
    ),
    "branches": (
        lambda: ops.conditional(
            popxl.variable(True),
            popxl.gir().create_graph(lambda: popxl.constant(1)),
            popxl.gir().create_graph(lambda: None),
        ),
        ValueError,
        "outputs",
    ),
    "missing branch input": (
        lambda: ops.conditional(
            popxl.variable(True), *[popxl.gir().create_graph(lambda x: x + 1, spec(2))] * 2
        ),
        ValueError,
        "^Not enough inputs",
    ),
    "reduction": (
        lambda: ops.nll_loss(ones(2, 3), popxl.variable([0, 1]), reduction="foo"),
        ValueError,
        "foo",
    ),
    "scale rank": (
        lambda: ops.matmul_pow2scaled(*[popxl.variable(np.zeros(2, np.uint8).view(F8))] * 2, ones(2)),
        ValueError,
        "must be a scalar tensor",
    ),
    "scale dtype": (
        lambda: ops.matmul_pow2scaled(*[popxl.variable(np.zeros(2, np.uint8).view(F8))] * 2, ones()),
        TypeError,
        "must be of type popxl.int32",
    ),
    "seed": (lambda: ops.split_random_seed(ones(2)), ValueError, "uint32"),
    "in-place gradient": (
        lambda: transforms.autodiff(popxl.gir().create_graph(lambda x: ops.gelu_(x), spec(2))),
        popart.popart_exception,
        r"^The graph .*_subgraph\(\d\) contains a modifying op",
    ),
    "no value": (lambda: ones(2) + None, TypeError, "Data is expected"),
    "no index": (lambda: ones(2)[2], IndexError, "Index 2 is out of range for axis 0"),
    "no tensor": (lambda: ops.concat([ones(2), None]), TypeError, "`ts` must be a popxl.Tensor"),
    "no graph": (lambda: ops.call(None, ones(2)), TypeError, "`graph` must be a popxl.Graph"),
    "no body": (lambda: ops.repeat(None, 2, ones(2)), TypeError, "`graph` must be a popxl.Graph"),
    "no stream": (lambda: ops.host_load(None), TypeError, "`h2d_stream` must be a popxl.HostToDeviceStream"),
    "no stored tensor": (
        lambda: ops.host_store(popxl.d2h_stream((2,), popxl.float32), None),
        TypeError,
        "`t` must be a popxl.Tensor",
    ),
    "no entry": (lambda: ops.remote_load(buffer(), 0.5), TypeError, "`offset` must be an integer"),
    "entry before": (lambda: ops.remote_store(buffer(), -1, ones(2)), ValueError, "`offset` is -1"),
    "entry beyond": (lambda: ops.remote_load(buffer(), 2**32), ValueError, "`offset` is 4294967296"),
    "buffer shape": (lambda: popxl.remote_buffer((-2,), popxl.float32), ValueError, "negative dimension"),
    "foreign buffer": (
        lambda: ops.remote_load(FOREIGN_BUFFER, 0),
        ValueError,
        "belongs to another Ir",
    ),
    "foreign code": (
        lambda: ops.remote_code_load(FOREIGN_GRAPH, "executable"),
        ValueError,
        "belongs to another Ir",
    ),
    "no code": (lambda: ops.remote_code_load(None, "executable"), TypeError, "must be a popxl.Graph"),
    "number as power": (
        lambda: ops.pow2scale_cast_to_fp8(ones(2), 1, popxl.float8_143),
        TypeError,
        "`log2_scale` must be a popxl.Tensor",
    ),
    "no float8": (
        lambda: ops.pow2scale_cast_from_fp8(None, ones(), popxl.float32),
        TypeError,
        "`t` must be a popxl.Tensor",
    ),
    "samples": (
        lambda: ops.roi_align(ones(1, 1, 2, 2), ones(1, 4), popxl.variable([0]), (1, 1), 1.0, 2**40),
        ValueError,
        "`sampling_ratio` is",
    ),
    "huge": (lambda: ops.interpolate(ones(1, 1, 2, 2), (1e12, 1.0, 1.0, 1.0)), ValueError, r"2\^31"),
    "stream dtype": (lambda: popxl.h2d_stream((2,), None), TypeError, "such as popxl.float32"),
    "stream shape": (lambda: popxl.h2d_stream(3, popxl.float32), TypeError, "`shape` must be a sequence"),
    "input shape": (
        lambda: popxl.gir().create_graph(lambda x: x, popxl.TensorSpec(3, popxl.float32)),
        TypeError,
        "`shape` must be a sequence of integers, such as .* not 3",
    ),
    "input dtype": (lambda: popxl.TensorSpec((3,), np.float32), TypeError, "such as popxl.float32"),
    "buffer of a number": (lambda: popxl.remote_buffer(3, popxl.float32), TypeError, "`shape` must be a sequence"),
    "shape of init": (lambda: ops.init(3, popxl.float32), TypeError, "`shape` must be a sequence"),
    "dtype of init": (lambda: ops.init((3,), np.float32), TypeError, "such as popxl.float32"),
    "name of a variable": (lambda: popxl.variable(1, name=3), TypeError, "name of a tensor must be a string, not 3"),
    "name of a constant": (lambda: popxl.constant(1, name=3), TypeError, "name of a tensor must be a string, not 3"),
    "name of a stream": (
        lambda: popxl.h2d_stream((), popxl.float32, 3),
        TypeError,
        "name of a stream must be a string, not 3",
    ),
    "no printed tensor": (lambda: ops.print_tensor(None), TypeError, "`t` must be a popxl.Tensor"),
    "ipu": (lambda: popxl.ipu(-3).__enter__(), ValueError, "integer from 0 up, or None, not -3"),
    "seed of seeds": (lambda: popxl.create_seeds(-1), ValueError, "an integer that is not negative"),
    "truth": (lambda: bool(ones()), ValueError, "no value while the program is built.*ops.where"),
    "comparison": (lambda: ones(2) < 1, TypeError, "ops.greater"),
    "array": (lambda: np.asarray(ones(2)), TypeError, "no value while the program is built"),
    "variable of a tensor": (lambda: popxl.variable(ones(2)), TypeError, "no value while"),
    "ellipsis": (lambda: ones(2, 2)[..., 0], TypeError, "can be indexed with"),
    "rounded operand": (lambda: ones(2, dtype=popxl.int32) + 0.5, ValueError, "0.5 would be rounded"),
    "number as operand": (
        lambda: ops.maximum(ones(2), 0.0),
        TypeError,
        "operand `ts` of `maximum` must be a tensor, not a value of type float",
    ),
    "foreign tensor": (lambda: ones(2) + FOREIGN_TENSOR, ValueError, "`rhs`.*belongs to another Ir"),
    "foreign input": (lambda: called(ops.call, FOREIGN_TENSOR, ones(2)), ValueError, "belongs to another Ir"),
    "tensors apart": (lambda: ops.concat(ones(2), ones(2)), TypeError, "a list of tensors"),
    "scope": (lambda: popxl.name_scope(None).__enter__(), TypeError, "scope must be a string"),
    "count as tensor": (
        lambda: called(ops.repeat, ones(), ones(2), ones(2)),
        ValueError,
        "give `max_repeat_count`",
    ),
    "count as number": (lambda: called(ops.repeat, 1.5, ones(2), ones(2)), TypeError, "an integer or a tensor"),
    "branch inputs": (
        lambda: ops.conditional(
            popxl.variable(True), *[popxl.gir().create_graph(lambda x: x + 1, spec(2))] * 2, ones(2), ones(2)
        ),
        TypeError,
        "given in a list",
    ),
    "inputs by name": (
        lambda: called(ops.call, inputs_dict={"x": ones(2)}),
        TypeError,
        "graph.inputs_by_name",
    ),
    "class of a module": (lambda: popxl.gir().create_graph(popxl.Module), TypeError, r"Module\(...\)"),
    "array for an input": (
        lambda: popxl.gir().create_graph(lambda x: x + 1, np.ones(1000)),
        ValueError,
        "passed as tensors or as popxl.TensorSpec",
    ),
    "no graph to differentiate": (lambda: transforms.autodiff(called), TypeError, "must be a popxl.Graph"),
    "one gradient": (
        lambda: transforms.autodiff(called(lambda graph: graph), grads_required=ones()),
        TypeError,
        "`grads_required` is a list",
    ),
    "info for its graph": (
        lambda: called(lambda graph: ops.call(transforms.autodiff(graph), ones(2))),
        TypeError,
        "of a GradGraphInfo pass its `graph`",
    ),
    "gradients without the forward call": (
        lambda: called(lambda graph: ops.call(transforms.autodiff(graph).graph, ones(2)), body=lambda x, y: x * y),
        ValueError,
        "in `inputs_dict.call.` of its GradGraphInfo",
    ),
    "results for a call": (
        lambda: called(lambda graph: transforms.autodiff(graph).inputs_dict(ops.call(graph, ones(2), ones(2)))),
        TypeError,
        "what `ops.call_with_info` returns",
    ),
    "store": (
        lambda: ops.host_store(popxl.d2h_stream((3,), popxl.float32), ones(2)),
        ValueError,
        r"\(3,\).*\(2,\)",
    ),
}
F8 = popxl.float8_143.as_numpy()


@pytest.mark.parametrize("use", ERRORS)
def test_error(use):
    call, error, text = ERRORS[use]
    with popxl.Ir().main_graph, pytest.raises(error, match=text) as caught:
        call()
    assert not isinstance(caught.value, popart.popart_internal_exception)
    # An exception that shape inference raises names the line: it may be shown far from a traceback.
    if type(caught.value) is popart.popart_exception and use != "in-place gradient":
        assert re.search(HERE + r":\d+", str(caught.value))


def test_line_is_that_of_the_use():
    def scale(x):
        return x * popxl.constant(np.ones(3, np.float32))  # here

    with open(__file__) as file:
        line = next(i for i, text in enumerate(file, 1) if text.endswith("# here\n"))
    with pytest.raises(popart.popart_exception, match=HERE + f":{line}"):
        popxl.Ir().create_graph(scale, spec(2))


# Uses that fail with the variables x (2, 3) and i (2) int32.
UNCHANGED = {
    "maximum": lambda x, i: ops.maximum(x, x, i),
    "axes": lambda x, i: ops.sum(x, [0, -2]),
    "dtypes": lambda x, i: ops.add(x, i),
    "reshape": lambda x, i: x.reshape((4,)),
    "matmul": lambda x, i: x @ x,
    "softmax": lambda x, i: ops.softmax(x, 5),
    "split": lambda x, i: ops.split(x, [1, 2, 3]),
    "slice": lambda x, i: ops.slice(x, [1, 1], [2]),
    "concat": lambda x, i: ops.concat([x, i]),
    "update": lambda x, i: var_updates.copy_var_update_(x, i),
    "in place": lambda x, i: ops.add_(i, x),
    "store": lambda x, i: ops.host_store(popxl.gir().stream, x),
    "seed": lambda x, i: ops.split_random_seed(i, 3),
    "cumsum": lambda x, i: ops.cumsum(x, 7),
    "graph": lambda x, i: popxl.gir().create_graph(lambda t: ops.relu(t) @ t, x),
    "nested graphs": lambda x, i: popxl.gir().create_graph(
        lambda t: ops.call(popxl.gir().create_graph(lambda s: s @ s, t), t), x
    ),
    "variable": lambda x, i: popxl.variable("text"),
    "cast for where": lambda x, i: ops.where(i, x, x),
    "casts for and": lambda x, i: ops.logical_and(x, i),
    "casts for or": lambda x, i: i | x,
    "constant exponent": lambda x, i: x ** np.ones(4),
    "constant factor": lambda x, i: np.ones((4, 5)) @ x,
    "constant step": lambda x, i: var_updates.accumulate_mean_(x, i, 3),
    "constant gradient": lambda x, i: ops.nll_loss_with_softmax_grad(x, x),
    "empty operand": lambda x, i: x + [],
    "index": lambda x, i: x[0, 3],
    "index list": lambda x, i: x[[0.5]],
}


def text_of(ir: popxl.Ir) -> str:
    """The text without numbers that count upwards: those in a graph that failed are not given again."""
    return re.sub(r", counters = \[[\d, ]*\]|#\d+ |(?<=__t)\d+", "", ir.to_text(locations=False))


@pytest.mark.parametrize("use", UNCHANGED)
def test_nothing_has_changed(use):
    """A program with a failed use in the middle is the program without it, up to the numbers of graphs."""
    data = np.arange(6, dtype=np.float32).reshape(2, 3)

    def build(fails: bool):
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            x = popxl.variable(data, name="x")
            i = popxl.variable([1, 2], popxl.int32, name="i")
            ir.stream = popxl.d2h_stream((2,), popxl.int32, "sink")
            before = text_of(ir)
            if fails:
                with pytest.raises(USER_ERRORS):
                    UNCHANGED[use](x, i)
            assert text_of(ir) == before
            assert popxl.gcg() is ir.main_graph and len(ir._pb_ir.getAllGraphs()) == 1
            total = ops.sum(ops.relu(x) + x, 1) + ops.cast(i, popxl.float32)
            out = popxl.d2h_stream((2,), popxl.float32, "out")
            ops.host_store(out, total)
        return ir, out

    ir, out = build(True)
    assert text_of(ir) == text_of(build(False)[0])
    np.testing.assert_array_equal(data, np.arange(6).reshape(2, 3))
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_array_equal(session.run()[out], 2 * data.sum(axis=1) + [1, 2])


class Draw:
    """Arguments that are odd in most ways."""

    DTYPES = (
        *[popxl.float32] * 6,
        popxl.float64,
        popxl.float16,
        popxl.int32,
        popxl.uint32,
        popxl.int8,
        popxl.uint8,
        popxl.int64,
        popxl.bool,
    )

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def pick(self, *values):
        return values[self.rng.integers(len(values))]

    def tensor(self):
        shape = tuple(int(n) for n in self.rng.choice([0, 1, 1, 2, 2, 3, 4, 5], self.rng.integers(0, 5)))
        return popxl.variable(self.rng.integers(0, 4, shape), self.pick(*self.DTYPES))

    def tensors(self):
        return [self.tensor() for _ in range(self.rng.integers(0, 4))]

    def integer(self):
        usual = (0, 1, 2, 3, -1, -2, 5, np.int64(1))
        return self.pick(*usual, *usual, 2**31, -(2**63), 2**63, 2**70, 1.5, None, "a", True, (1,))

    def integers(self):
        several = [self.integer() for _ in range(self.rng.integers(0, 5))]
        return self.pick(None, self.integer(), several, (1, 1), (2, 2), (0, 1), "ab", [])

    def number(self):
        plain = (0.0, 1.0, -1.0, 0.5, 1e300, float("nan"), float("inf"), None, "a", True, 3)
        return self.pick(*plain, self.tensor())

    def flag(self):
        return self.pick(True, False, True, False, None, 2)

    def text(self):
        return self.pick("mean", "sum", "none", "not_set", "same_upper", "valid", "zero", "", None, 3, "\0")

    def dtype(self):
        return self.pick(*self.DTYPES, popxl.float8_143, None, "float32", np.float32, 3)


T, TS, I, IS = Draw.tensor, Draw.tensors, Draw.integer, Draw.integers
N, B, X, D = Draw.number, Draw.flag, Draw.text, Draw.dtype
USES = (
    (ops.add, T, T),
    (ops.add_, T, T),
    (ops.div, T, T),
    (ops.fmod, T, T),
    (ops.maximum, T, T, T),
    (ops.greater, T, T),
    (ops.pow, T, N),
    (ops.gelu_, T),
    (ops.log2, T),
    (ops.clip, T, N, N),
    (ops.increment_mod, T, N, N),
    (ops.scaled_add, T, T, N, N),
    (ops.matmul, T, T, N, X, D, D),
    (ops.conv, T, T, IS, IS, IS, I, X, B),
    (ops.conv_transpose, T, T, IS, IS, IS, I, X, IS, IS),
    (ops.interpolate, T, IS, X, X, X),
    (ops.roi_align, T, T, T, IS, N, I),
    (ops.scatter, T, T, T, I),
    (ops.scatter_reduce, T, T, X, T, I, I, B),
    (ops.groupedgather, T, T, I, I, N, B),
    (ops.shaped_dropout, T, T, IS, N),
    (ops.pow2scale_cast_to_fp8, T, T, D),
    (ops.pow2scale_cast_from_fp8, T, T, D),
    (var_updates.sparse_accumulate_, T, T, T, I, N, T),
    (ops.average_pool, T, IS, IS, IS, IS, IS, IS, X, B),
    (ops.max_pool, T, IS, IS, IS, IS, IS, IS, X, B),
    (ops.batch_norm_inference, T, T, T, T, T, N),
    (ops.group_norm, T, T, T, I, N),
    (ops.layer_norm, T, T, T, N),
    (ops.softmax, T, I),
    (ops.nll_loss, T, T, I, X, B),
    (ops.nll_loss_with_softmax_grad, T, T, N, I, X),
    (ops.gather, T, T, I, N, B),
    (ops.tied_gather, T, T, I, N, B),
    (ops.dynamic_slice, T, T, IS, IS, B),
    (ops.dynamic_update, T, T, T, IS, IS, B),
    (ops.onehot, T, T, T, I),
    (ops.argmax, T, I, B),
    (ops.topk, T, I, I, B, B),
    (ops.histogram, T, IS, B),
    (ops.random_normal, T, IS, N, N, D),
    (ops.dropout, T, T, N),
    (ops.cast, T, D),
    (ops.sum, T, IS, B),
    (ops.median, T, IS, B),
    (ops.logsumexp, T, IS, B),
    (ops.cumsum, T, I),
    (ops.reshape, T, IS),
    (ops.squeeze, T, IS),
    (ops.transpose, T, IS),
    (ops.slice, T, IS, IS, IS, IS),
    (ops.subsample, T, IS),
    (ops.concat, TS, I),
    (ops.split, T, IS, I),
    (ops.identity, T, X),
    (ops.where, T, T, T),
    (ops.isfinite, T),
    (ops.init, IS, D, X, X),
    (ops.split_random_seed, T, I),
    (var_updates.accumulate_, T, T, N),
    (var_updates.accumulate_mean_, T, T, N),
    (var_updates.accumulator_scale_, T, N),
    (var_updates.copy_var_update_, T, T),
    (var_updates.adam_updater, T, T, T, T, N, N, N, N),
    (popxl.variable, N, D, X),
    (popxl.constant, N, D, X),
)


def test_odd_arguments_give_a_result_or_a_user_error():
    """Draws uses; those that are accepted are compiled and run."""
    first = int(os.environ.get("POPXL_FUZZ_SEED", 20240))
    accepted = refused = 0
    for seed in range(first, first + int(os.environ.get("POPXL_FUZZ_RUNS", 4000))):
        draw = Draw(seed)
        function, *makers = draw.pick(*USES)
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            args = [maker(draw) for maker in makers]
            print(f"POPXL_FUZZ_SEED={seed} POPXL_FUZZ_RUNS=1: {function.__name__}{tuple(args)}")
            if draw.rng.random() < 0.6:  # the rest by default
                del args[int(draw.rng.integers(1, len(args) + 1)) :]
            try:
                with np.errstate(all="ignore"):
                    results = function(*args)
            except USER_ERRORS as error:
                assert not isinstance(error, popart.popart_internal_exception)
                refused += 1
                continue
            accepted += 1
            for t in results if isinstance(results, (list, tuple)) else [results]:
                # A convolution with much padding taken away has a negative shape, which no stream has.
                if min(t.shape, default=0) >= 0:
                    ops.host_store(popxl.d2h_stream(t.shape, t.dtype), t)
        if sum(int(np.prod(t.shape)) for t in ir.main_graph.tensors) > 10**6:
            continue
        try:
            with popxl.Session(ir, "cpu") as session:
                session.run()
        except (popart.popart_exception, popart.poplar_exception, ValueError) as error:
            assert not isinstance(error, popart.popart_internal_exception)
    assert accepted and refused
