"""How much memory the models take that stay loaded, and how much they may."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

from engines.core.errors import UserError

MEGABYTE = 1_000_000
BUDGET = 450  # megabytes: SmolLM2 and its draft take about 440


def budget() -> int:
    """Bytes of weights that stay loaded: EXPLORER_KEEP_MB, 450 MB by default. Raises UserError for what is none."""
    told = os.environ.get("EXPLORER_KEEP_MB") or str(BUDGET)
    if not told.isdecimal():
        raise UserError(
            f"EXPLORER_KEEP_MB={told!r:.40} is not a whole number of megabytes; give one, for example {BUDGET}."
        )
    return int(told) * MEGABYTE


def held(things: Iterable[Any]) -> int:
    """Bytes of the weights of these models and drafters, shared ones once: of tensors, and what a GGUF file holds in
    llama.cpp (`weight_bytes`)."""
    things = list(things)
    return sum(dict(_storages(list(things))).values()) + sum(getattr(one, "weight_bytes", 0) for one in things)


def _storages(waiting: list[Any]) -> Iterator[tuple[Any, int]]:
    """(where it lies, bytes) of every tensor that is reached through modules, containers and objects of ours."""
    import torch

    seen = set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, torch.Tensor):
            if one.is_mkldnn:
                yield id(one), one.numel() * one.element_size()
            elif one.device.type != "meta":
                yield (one.device, one.untyped_storage().data_ptr()), one.untyped_storage().nbytes()
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        elif isinstance(one, torch.nn.Module) or type(one).__module__.startswith("engines."):
            waiting += getattr(one, "__dict__", {}).values()
