"""Classes of ops, for `isinstance`: `AddOp` is the class of all ops of type Add.

The names come from the op table. A name that the table does not have gives a class without members.
"""

import enum
import sys
from types import ModuleType
from typing import Any, Dict

from popxl import _core

_CLASSES: Dict[str, type] = {}
_TYPES: Dict[str, str] = {}


class MatMulPartialsType(enum.Enum):
    """Precision of the sums in a matrix product."""

    HALF = 0
    FLOAT = 1


class _ClassOfOps(type):
    """Makes `isinstance(op, cls)` ask for the op's type."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _core.Op) and instance.op_type == cls.op_type


class _Namespace(ModuleType):
    """A module in which every class of ops is found, whichever module the original keeps it in."""

    def __getattr__(self, name: str) -> Any:
        return class_of_ops(name)


def class_of_ops(name: str) -> type:
    """The class of a name.

    Args:
        name: "AddOp", "AddLhsInplaceOp", ...

    Raises:
        AttributeError: It starts with an underscore or in lower case: no class does.
    """
    if not name[:1].isupper():
        raise AttributeError(f"There is no class of ops named {name!r}.")
    if name not in _TYPES:
        _TYPES.update(_core.op_classes())  # a program may have added ops
    if name not in _CLASSES:
        _CLASSES[name] = _ClassOfOps(name, (), {"op_type": _TYPES.get(name), "__module__": __name__})
    return _CLASSES[name]


def __getattr__(name: str) -> Any:
    return class_of_ops(name)


exchange = _Namespace(__name__ + ".exchange")
collectives = _Namespace(__name__ + ".collectives")
dynamic = _Namespace(__name__ + ".dynamic")
for _module in (exchange, collectives, dynamic):
    sys.modules[_module.__name__] = _module
