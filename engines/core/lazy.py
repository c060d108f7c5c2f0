"""`from engines.core.lazy import torch`: torch, imported at its first use, so that listing methods or starting the page
never waits for it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
else:

    class _Lazy:
        def __init__(self, module: str) -> None:
            self.__dict__["_module"] = module

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module(self._module), name)
            self.__dict__[name] = value  # the next access costs nothing
            return value

    torch = _Lazy("torch")

__all__ = ["torch"]
