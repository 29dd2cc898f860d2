"""What can be wrong with ops of a program's own, and with what their functions give."""

import numpy as np
import pytest

import popart
import popxl
from api.leaky import fresh, leaky_array, leaky_array_gradient, leaky_tensor, leaky_tensor_gradient
from popxl import _core, ops, transforms


def run(function, x: np.ndarray) -> None:
    """Runs a program of one op."""
    ir = popxl.Ir()
    with ir.main_graph:
        ops.print_tensor(function(popxl.variable(x, popxl.dtype.as_dtype(x.dtype))))
    with popxl.Session(ir, "cpu") as session:
        session.run()


array_op = popxl.custom_op("wrong_calls", forward=leaky_array)


@pytest.mark.parametrize(
    "result, text",
    [
        (lambda x: x.astype(np.float64), r"is float64 of shape \(2,\); it has to be float32"),
        (lambda x: x[:1], r"of shape \(1,\); it has to be float32 of shape \(2,\)"),
        (lambda x: (x, x), "has to return 1 arrays, it returned 2"),
        (lambda x: "text", "it has to be float32"),
        (lambda x: None, "result 0 of the function is None"),
    ],
)
def test_wrong_results_of_a_function(result, text):
    op = popxl.custom_op(fresh("wrong_result"), forward=result)
    with pytest.raises(popart.poplar_application_runtime_error, match=text):
        run(lambda t: op(t), np.ones(2, np.float32))


@pytest.mark.parametrize(
    "compose, text",
    [
        (lambda x: ops.relu_(x), "can't hold ops that work in place, call graphs or have effects"),
        (lambda x: ops.print_tensor(x), "can't hold ops that work in place, call graphs or have effects"),
        (lambda x: ops.call(popxl.gcg().ir.create_graph(lambda a: a + a, x), x)[0], "can't hold ops"),
        (lambda x: (x, x), "has 1 results; its composition gave 2"),
        (lambda x: None, "has 1 results; its composition gave 0"),
        (lambda x: 3, "a tensor is expected, not a value of type int"),
        (lambda x: popxl.variable([1.0]), "variables live in the main graph"),
        (lambda x: ops.matmul(x, popxl.constant([[1.0]])), "(?s)matmul.*in op `wrong_composed_"),
        (lambda x: x + popxl.graph_input((2,), popxl.float32), "uses `graph_input`: the op's inputs and outputs are"),
        (lambda x: popxl.graph_output(x) or x, "uses `graph_output`: the op's inputs and outputs are"),
        (lambda x: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_wrong_compositions(compose, text):
    op = popxl.custom_op(fresh("wrong_composed"), compose=compose)
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable([1.0, 2.0])
        with pytest.raises((popart.popart_exception, TypeError), match=text):
            op(x)
        assert not ir.main_graph._pb_graph.getOps()
        assert popxl.gcg() is ir.main_graph


def test_composition_of_tensors_from_outside():
    ir = popxl.Ir()
    with ir.main_graph:
        outside = popxl.variable([1.0])
        op = popxl.custom_op(fresh("wrong_outside"), compose=lambda x: x + outside)
        with pytest.raises(popart.popart_exception, match="not in (the current )?graph"):
            op(popxl.variable([1.0]))


def test_composition_that_contains_itself():
    made = []
    name, other = fresh("wrong_self"), fresh("other")
    made.append(popxl.custom_op(name, compose=lambda x: made[1](x)))
    made.append(popxl.custom_op(other, compose=lambda x: made[0](x)))
    message = f"`{name}` uses `{other}` uses `{name}`"
    with popxl.Ir().main_graph, pytest.raises(popart.popart_exception, match=message):
        made[0](popxl.variable([1.0]))


@pytest.mark.parametrize(
    "gradient, text",
    [
        (lambda grad, x: x[:, 0], r"`x` is float32 \(2,\); it has to be like the operand, float32 \(2, 3\)"),
        (lambda grad, x: (x, x), "one tensor for each of 1 floating-point operands; it gave 2"),
    ],
)
def test_wrong_gradients(gradient, text):
    op = popxl.custom_op(fresh("wrong_graded"), forward=lambda x: x, compose_gradient=gradient)
    ir = popxl.Ir()
    with ir.main_graph:
        graph = ir.create_graph(op, popxl.TensorSpec((2, 3), popxl.float32))
        with pytest.raises(popart.popart_exception, match=text):
            transforms.autodiff(graph)


def test_op_without_a_gradient():
    op = popxl.custom_op(fresh("wrong_flat"), forward=lambda x: x)
    ir = popxl.Ir()
    with ir.main_graph:
        graph = ir.create_graph(op, popxl.TensorSpec((2,), popxl.float32))
        with pytest.raises(popart.popart_exception, match="`wrong_flat_.* has no gradient"):
            transforms.autodiff(graph)


def variadic(*xs):
    return xs[0]


def unannotated(x, *, a):
    return x


def without_value(x, *, a: int = None):
    return x


def empty_tuple(x, *, a=()):
    return x


@pytest.mark.parametrize(
    "keywords, error, text",
    [
        ({}, ValueError, "needs `forward`, a function on arrays, or `compose`"),
        ({"forward": leaky_array, "compose": leaky_tensor}, ValueError, "and not both"),
        (
            {"forward": leaky_array, "gradient": leaky_array_gradient, "compose_gradient": leaky_tensor_gradient},
            ValueError,
            "two gradients",
        ),
        ({"forward": lambda: 1}, ValueError, "no operands, so `infer` has to say"),
        ({"forward": lambda x, y: x, "results": ("x",)}, ValueError, "`x` is the name of two"),
        ({"forward": lambda X: X}, ValueError, "`X` is no name"),
        ({"forward": leaky_array, "results": ()}, ValueError, "has no results"),
        (
            {"forward": leaky_array, "gradient": lambda dy: dy},
            ValueError,
            "its gradient reads `dy`; there are grad_out, x, out",
        ),
        ({"forward": variadic}, TypeError, r"takes no \*args"),
        ({"forward": unannotated}, TypeError, "attribute `a` needs an annotation"),
        ({"forward": without_value}, TypeError, "attribute `a` has the default None, but an attribute always has"),
        ({"forward": empty_tuple}, TypeError, "attribute `a` needs an annotation"),
        ({"forward": lambda x, *, nan=1.0: x}, ValueError, "`nan` is no name"),
        ({"forward": lambda variable: variable}, ValueError, "`variable` is no name"),
    ],
)
def test_wrong_descriptions(keywords, error, text):
    with pytest.raises(error, match=text):
        popxl.custom_op(fresh("wrong_described"), **keywords)


@pytest.mark.parametrize(
    "name",
    ["", "Leaky", "leaky_", "9lives", "a b", "variable", "constant", "stream_handle", "nan", "inf"],
)
def test_wrong_names(name):
    with pytest.raises(ValueError, match="is no name of an op"):
        popxl.custom_op(name, forward=leaky_array)


def test_names_are_taken_once():
    name = fresh("wrong_taken")
    popxl.custom_op(name, forward=lambda x: x, gradient=lambda grad: grad)
    for taken in (name, name + "_grad", "add", "relu"):
        with pytest.raises(ValueError, match=f"there is an op `{taken}` already"):
            popxl.custom_op(taken, forward=leaky_array)
    # A gradient whose name is taken leaves nothing behind.
    half = fresh("wrong_half_taken")
    popxl.custom_op(half + "_grad", forward=lambda x: x)
    with pytest.raises(ValueError, match="already"):
        popxl.custom_op(half, forward=lambda x: x, gradient=lambda grad: grad)
    with pytest.raises(KeyError):
        _core.op_signature(half)


def test_wrong_calls():
    with popxl.Ir().main_graph:
        x = popxl.variable([1.0])
        with pytest.raises(TypeError, match="missing a required argument: 'x'"):
            array_op()
        with pytest.raises(TypeError, match="got an unexpected keyword argument 'beta'"):
            array_op(x, beta=1.0)
        with pytest.raises(TypeError, match="`alpha` must be a number"):
            array_op(x, alpha="much")
    with pytest.raises(ValueError, match="can't load ops"):
        popxl.load_ops("/nowhere/libnothing.so")


def test_text_with_an_unknown_op():
    ir = popxl.Ir()
    with ir.main_graph:
        array_op(popxl.variable([1.0]))
    with pytest.raises(ValueError, match="no op"):
        popxl.Ir.from_text(ir.to_text().replace("wrong_calls", "nobodys_op"))


def test_function_that_uses_a_session():
    ir = popxl.Ir()
    other = popxl.Ir()
    with other.main_graph:
        ops.print_tensor(popxl.variable([1.0]))
    session = popxl.Session(other, "cpu")
    session.__enter__()

    def forward(x):
        session.run()
        return x

    op = popxl.custom_op(fresh("wrong_nested"), forward=forward)
    with pytest.raises(popart.poplar_application_runtime_error, match="the function of an op can't use a session"):
        run(lambda t: op(t), np.ones(1, np.float32))
    session.__exit__(None, None, None)
    assert ir.id != other.id
