"""Where graphs are called: how tensors inside and outside correspond, and what is checked."""

import pytest

import popxl
from popxl import ops
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set


@pytest.fixture
def main():
    with popxl.Ir().main_graph as graph:
        yield graph


def two(a, b):
    return a + b, a - b


def test_call_site(main):
    a, b = popxl.variable(1.0, name="a"), popxl.variable(2.0, name="b")
    graph = main.ir.create_graph(two, a, b)
    site = ops.call_with_info(graph, a, inputs_dict={graph.inputs[1]: b})
    assert site.called_graph == graph and site.inputs == (a, b) and len(site.outputs) == 2
    for i in range(2):
        assert site.graph_to_parent_input_index(i) == site.parent_to_graph_input_index(i) == i
        assert site.graph_to_parent_output_index(i) == site.parent_to_graph_output_index(i) == i
        assert site.graph_to_parent(graph.inputs[i]) == site.parent_input(i)
        assert site.graph_to_parent(graph.outputs[i]) == site.parent_output(i)
        assert site.parent_to_graph(site.inputs[i]) == graph.inputs[i]
    with pytest.raises(IndexError):
        site.parent_input(2)
    with pytest.raises(ValueError, match="no input and no output"):
        site.graph_to_parent(a)
    with pytest.raises(ValueError, match="not passed"):
        site.parent_to_graph(site.outputs[0])


def test_loop_counts_operands_from_two(main):
    a, b = popxl.variable(1.0), popxl.variable(2.0)
    graph = main.ir.create_graph(lambda x, y: x + y, a, b)
    site = ops.repeat_with_info(graph, 3, a, b)
    assert [site.graph_to_parent_input_index(i) for i in (0, 1)] == [2, 3]
    assert (
        site.parent_input(2) == a and site.parent_input(3) == b and site.parent_to_graph_input_index(3) == 1
    )
    assert site.parent_to_graph(b) == graph.inputs[1]
    with pytest.raises(IndexError):
        site.parent_input(0)


def test_conditional_site(main):
    condition, a, b = popxl.variable(True), popxl.variable(1.0), popxl.variable(2.0)
    yes, no = main.ir.create_graph(two, a, b), main.ir.create_graph(lambda x: (x, -x), a)
    site = ops.conditional_with_info(condition, yes, no, (a, b), (a,))
    assert site.called_graph == (yes, no) and site.inputs == (condition, a, b, a)
    assert [site.parent_to_graph_input_index(i) for i in (1, 2, 3)] == [0, 1, 0]
    assert [site.is_parent_index_in_then_branch(i) for i in (1, 2, 3)] == [True, True, False]
    assert site.graph_to_parent_input_index(0, False) == 3
    assert site.graph_to_parent(no.outputs[1]) == site.outputs[1]
    for call in (
        lambda: site.parent_to_graph_input_index(0),
        lambda: site.graph_to_parent_input_index(1, False),
        lambda: site.graph_to_parent_output_index(2),
    ):
        with pytest.raises(IndexError):
            call()
    with pytest.raises(NotImplementedError):
        site.set_parent_input_modified(a)


def test_branch_by_reference_is_refused(main):
    def change(x: popxl.TensorByRef):
        return ops.var_updates.accumulator_zero_(x)

    condition, a = popxl.variable(True), popxl.variable(1.0)
    graph = main.ir.create_graph(change, a)
    with pytest.raises(NotImplementedError, match="TensorByRef"):
        ops.conditional(condition, graph, graph, [a], [a])


@pytest.mark.parametrize("reference", [False, True])
def test_changes_reach_the_caller_by_reference_only(main, reference):
    a = popxl.variable(5.0)
    graph = main.ir.create_graph(lambda x: ops.var_updates.accumulator_zero_(x), a)
    site = ops.call_with_info(graph, a)
    if reference:
        site.set_parent_input_modified(a, infer_modified_regions=True)
    assert site._op.modifiesIndex(0) == reference
    with popxl.Session(main.ir, "cpu") as session:
        session.run()
        assert session.get_tensor_data(a) == (0 if reference else 5)


def test_unwritten_input_is_not_inferred_to_be_modified(main):
    a = popxl.variable(5.0)
    site = ops.call_with_info(main.ir.create_graph(lambda x: x + 1, a), a)
    site.set_parent_input_modified(a, infer_modified_regions=True)
    assert not site._op.modifiesIndex(0)


def test_arguments_of_a_call(main):
    a = popxl.variable([1, 2], popxl.int32)
    graph = main.ir.create_graph(lambda x, y: x + y, a, a)
    (out,) = ops.call(graph, [a, a])
    assert out.dtype == popxl.int32
    assert ops.call_with_info(graph, a, [[3, 4]]).inputs[1].shape == (2,)
    for inputs, mapping, error, text in (
        ((a, a, a), None, ValueError, "^Too many inputs"),
        ((a,), None, ValueError, "^Not enough inputs"),
        ((a, a), {graph.inputs[0]: a}, ValueError, "^Graph input tensor is specified twice"),
        ((a,), {a: a}, ValueError, "not in the called graph"),
        ((a, graph.inputs[0]), None, ValueError, "not in the current graph"),
        ((a, "b"), None, TypeError, "can't be made a constant"),
        ((a, None), None, TypeError, "can't be made a constant"),
    ):
        with pytest.raises(error, match=text):
            ops.call(graph, *inputs, inputs_dict=mapping)


def test_placement_of_operands(main):
    a = popxl.variable(1.0) + 0
    with popxl.ipu(1):
        b = popxl.variable(1.0) + 0
    with popxl.io_tiles():
        c = popxl.variable(1.0) + 0
    assert ops.ipu_copy(a, 1).ipu == 1 and (ops.ipu_copy(a, 1) + b).shape == ()
    assert ops.io_tile_copy(c).tile_set == "compute" and (ops.io_tile_copy(c) + a).shape == ()
    with pytest.raises(ValueError, match="`rhs`.*IPUs"):
        ops.add(a, b)
    with pytest.raises(ValueError, match="`rhs`.*tile sets"):
        ops.mul(a, c)
    with pytest.raises(ValueError, match="`second`.*IPUs"):
        check_tensor_ipu_and_tile_set(first=a, second=b)
    with pytest.raises(TypeError):
        check_tensor_ipu_and_tile_set(a)


def test_check_in_graph(main):
    a = popxl.variable(1.0)
    check_in_graph(main, a=a)
    with pytest.raises(TypeError, match="`b` must be a popxl.Tensor"):
        check_in_graph(main, b=1)
    with pytest.raises(ValueError, match="`a`.* is not in graph"):
        check_in_graph(main.ir.create_empty_graph("other"), a=a)
