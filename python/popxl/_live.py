"""The Irs in use, by number. It lies apart so that tensors find their Ir without loading the module of
Irs."""

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from popxl.ir import Ir

irs: "weakref.WeakValueDictionary[int, Ir]" = weakref.WeakValueDictionary()
