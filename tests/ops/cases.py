"""The op test table: a row or more for every op that programs can make."""

from typing import Any, List

from ops import (
    cases_collectives,
    cases_control,
    cases_dense,
    cases_elementwise,
    cases_float8,
    cases_images,
    cases_movement,
    cases_reduce,
    cases_updates,
)
from ops.case import Case

_MODULES: List[Any] = [
    cases_elementwise,
    cases_reduce,
    cases_movement,
    cases_dense,
    cases_float8,
    cases_images,
    cases_updates,
    cases_control,
    cases_collectives,
]

CASES: List[Case] = [case for module in _MODULES for case in module.CASES]
