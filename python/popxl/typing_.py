"""Helpers for annotations that mean something while a program is built."""

from typing import Any, TypeVar

T = TypeVar("T")


def NewAliasAnnotation(name: str, tp: T) -> T:
    """Makes a marker to annotate parameters with: a type checker sees `tp`, a program recognises the marker
    itself.

    Args:
        name: Name of the marker.
        tp: Type that it stands for.

    Returns:
        The marker, an object of its own.
    """

    def marker(*args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{name} only marks parameters; make or check values with {tp!r} instead.")

    marker.__name__ = marker.__qualname__ = name
    return marker  # type: ignore[return-value]
