"""How much memory the models take that stay loaded, and how much they may."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

from engines.core.errors import UserError

MEGABYTE = 1_000_000
BUDGET = 450  # megabytes: SmolLM2 and its draft take about 440


def budget() -> int:
    """Bytes of weights that stay loaded: EXPLORER_KEEP_MB, 450 MB by default. Raises UserError for what is none."""
    setting = os.environ.get("EXPLORER_KEEP_MB") or str(BUDGET)
    if not setting.isdecimal():
        raise UserError(
            f"EXPLORER_KEEP_MB={setting!r:.40} is not a whole number of megabytes; give one, for example {BUDGET}."
        )
    return int(setting) * MEGABYTE


def held(things: Iterable[Any]) -> int:
    """Bytes of the weights of these models and drafters, shared ones once: of tensors, and what a GGUF file holds in
    llama.cpp (`weight_bytes`)."""
    things = list(things)
    return sum(dict(_storages(list(things))).values()) + sum(getattr(holder, "weight_bytes", 0) for holder in things)


def _storages(waiting: list[Any]) -> Iterator[tuple[Any, int]]:
    """(where it lies, bytes) of every tensor that is reached through modules, containers and objects of ours."""
    import torch

    seen = set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, torch.Tensor):
            if node.is_mkldnn:
                yield id(node), node.numel() * node.element_size()
            elif node.device.type != "meta":
                yield (node.device, node.untyped_storage().data_ptr()), node.untyped_storage().nbytes()
        elif isinstance(node, dict):
            waiting += node.values()
        elif isinstance(node, list | tuple):
            waiting += node
        elif isinstance(node, torch.nn.Module) or type(node).__module__.startswith("engines."):
            waiting += getattr(node, "__dict__", {}).values()
