"""Lists of element types."""

from typing import List

from popxl import dtypes


def get_all_dtypes() -> List[dtypes.dtype]:
    """All element types but bool."""
    return [t for t in dtypes._BY_CODE if t is not dtypes.bool]


def get_all_int_dtypes(include_signed: bool = True, include_unsigned: bool = True) -> List[dtypes.dtype]:
    """The integer types.

    Args:
        include_signed: Whether to list the signed ones.
        include_unsigned: Whether to list the unsigned ones.
    """
    return [t for t in dtypes._BY_CODE if t.is_int and (include_signed if t.is_signed else include_unsigned)]
