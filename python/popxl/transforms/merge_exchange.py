"""Transfers to and from the host and remote buffers, merged."""

import contextlib
from typing import Iterator, List

from popxl import _core
from popxl.context import get_current_graph, in_sequence, io_tiles


@contextlib.contextmanager
def io_tile_exchange(verify_overlap: bool = True) -> Iterator[None]:
    """Runs the transfers made inside on IO tiles, in any order, merged into one.

    Args:
        verify_overlap: Whether to check that one op is left; only then can they run while others compute.

    Raises:
        RuntimeError: More than one is left: a transfer depends on another.
    """
    graph = get_current_graph()
    made: List["_core.Op"] = []
    handle = graph.register_op_created_hook(made.append)
    try:
        with io_tiles(), merge_exchange(), in_sequence(False):
            yield
    finally:
        graph.remove_op_created_hook(handle)
    left = [op for op in made if not op.erased and op.table_name != "init"]
    if verify_overlap and len(left) > 1:
        names = ", ".join(op.debugName() for op in left)
        raise RuntimeError(
            f"More than one op is left of io_tile_exchange, so they can't all run beside others: {names}."
        )


@contextlib.contextmanager
def merge_exchange() -> Iterator[None]:
    """Merges the transfers made inside, of the current graph, into one op where they do not depend on each
    other.

    Transfers that `in_sequence` orders depend on each other; `in_sequence(False)` inside the block leaves
    them free.
    """
    graph = get_current_graph()
    made: List["_core.Op"] = []
    handle = graph.register_op_created_hook(made.append)
    try:
        yield
    finally:
        graph.remove_op_created_hook(handle)
    _core.merge_exchange(graph._pb_graph, [op for op in made if not op.erased])
