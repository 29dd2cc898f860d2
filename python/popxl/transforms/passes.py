"""Rewrites of whole programs, by name."""

from typing import List

from popxl import _core
from popxl.ir import Ir


def pass_names() -> List[str]:
    """The names that `run_pass` knows. `popxl-opt --list-passes` says what each does."""
    return _core.pass_names()


def run_pass(ir: Ir, name: str) -> bool:
    """Runs a pass over all graphs of a program.

    A session runs the passes that it needs on a copy of the program; this changes the program itself.

    Args:
        ir: The program.
        name: Name of the pass: "cse", "inplace", "pre_alias", "prune", ...

    Returns:
        Whether the program changed.

    Raises:
        ValueError: There is no such pass.
    """
    return _core.run_pass(ir._pb_ir, name)
