"""Graphs written as classes."""

from typing import Any


class Module:
    """Base of a class whose `build` method describes a graph.

    An object of the class is passed to `Ir.create_graph` in place of a function; it may keep the graph's
    inputs, made with `popxl.graph_input`, as attributes.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `build`."""
        return self.build(*args, **kwargs)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Adds the ops of the graph to the current graph and returns its outputs.

        Raises:
            NotImplementedError: The class does not define it.
        """
        raise NotImplementedError(f"{type(self).__qualname__} has to define `build`.")
