"""`from engines.core.lazy import torch`: torch, imported at its first use, so that listing methods or starting the page
never waits for it. `Generator` and `Tensor` are its types, for annotations alone."""

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:
    import torch
    from torch import Generator, Tensor
else:

    class _Lazy:
        def __init__(self, module: str) -> None:
            self.__dict__["_module"] = module

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module(self._module), name)
            self.__dict__[name] = value  # the next access costs nothing
            return value

    torch = _Lazy("torch")
    Generator = Tensor = Any  # for annotations


def without_gradients(function: Callable[P, R]) -> Callable[P, R]:
    """`torch.inference_mode()` as a decorator that imports torch at the first call only."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.inference_mode():
            return function(*args, **kwargs)

    return called


__all__ = ["Generator", "Tensor", "torch", "without_gradients"]
