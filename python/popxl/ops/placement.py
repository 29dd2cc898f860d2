"""Where values and code are: copies from one IPU, or one set of tiles, to another."""

from typing import Optional

from popxl import _core
from popxl.context import get_current_context
from popxl.graph import Graph
from popxl.ops._build import expect, many, one
from popxl.tensor import Tensor


def ipu_copy(t: Tensor, destination: int, source: Optional[int] = None) -> Tensor:
    """The same values on another IPU.

    Args:
        t: A tensor.
        destination: The IPU to copy to.
        source: The IPU to copy from; by default the one that `t` is on.

    Returns:
        The copy.

    Raises:
        ValueError: The source is not given and nothing determines where `t` is.
    """
    if source is None:
        source, _ = t._get_ipu_and_tile_set(raise_on_undefined_tile_set=False, raise_on_undefined_ipu=False)
        if source < 0:
            raise ValueError(
                f"Could not infer the ipu of tensor {t.id}: no op makes or uses it. Please specify `source`."
            )
    attributes = {"destination": destination, "source": source}
    return one("ipu_copy", (t,), attributes, False, (f"{t.name}_c{destination}",))


def io_tile_copy(t: Tensor) -> Tensor:
    """The same values on the other set of tiles of the IPU: from compute tiles to IO tiles or back.

    Args:
        t: A tensor.

    Returns:
        The copy.
    """
    ipu, tile_set = t._get_ipu_and_tile_set(raise_on_undefined_tile_set=False, raise_on_undefined_ipu=False)
    if tile_set == "undefined":
        target = _core.current_tile_set()
    else:
        target = _core.TileSet.IO if tile_set == "compute" else _core.TileSet.Compute
    _core.push_ipu(_core.current_ipu() if ipu < 0 else ipu)
    _core.push_tile_set(target)
    try:
        return one("io_tile_copy", (t,), names=(f"{t.name}_iotilecopy",))
    finally:
        _core.pop_tile_set()
        _core.pop_ipu()


def remote_code_load(graph: Graph, destination: str) -> None:
    """Says that the code of a graph is needed from here on.

    All code is in memory here, so nothing is done when the program runs.

    Args:
        graph: The graph.
        destination: "executable".

    Raises:
        ValueError: It is the graph that is being built, or the destination is unknown.
        NotImplementedError: The destination is "compute_buffer" or "io_buffer".
    """
    expect(graph, Graph, "graph")
    if graph == get_current_context().graph:
        raise ValueError(
            f"The {remote_code_load.__name__} op cannot load the code of the graph that it is in "
            f"({graph.id or 'main'})."
        )
    if graph.ir != get_current_context().graph.ir:
        raise ValueError(f"Graph {graph.id or 'main'} belongs to another Ir than the current graph.")
    if destination in ("compute_buffer", "io_buffer"):
        raise NotImplementedError(f"Code can't be loaded to {destination!r}, only to 'executable'.")
    if destination != "executable":
        raise ValueError(f"The destination of code must be 'executable', not {destination!r}.")
    many("remote_code_load", (), {"graph": graph.id, "destination": destination})
