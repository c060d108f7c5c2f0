"""Models with memory layers behind `MemoryLM`: a layered model that knows its memories, where they stand as
`mlp.memory`."""

from __future__ import annotations

from typing import Any

from torch import nn

from engines.core.kinds.memory import MemoryTable
from engines.models.adapters.layered import HFLayeredLM


class HFMemoryLM(HFLayeredLM):
    """See `MemoryLM`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        parts = [(i, layer.mlp) for i, layer in enumerate(self._layers)]
        self.memories = tuple(table(i, part) for i, part in parts if getattr(part, "memory", None) is not None)


def table(layer: int, part: Any) -> MemoryTable:
    """What there is of a memory in such a part, in the type that its weights have."""
    memory, pool = part.memory, part.memory.pool
    slot = sum(tensor.shape[1] * tensor.element_size() for tensor in pool.parameters())
    return MemoryTable(layer, memory.K, memory.m, len(pool.values), memory.offset, slot, size(part))


def size(part: nn.Module) -> int:
    """Bytes of the weights of a part; the pool is no part of it. Matrices may be packed, then no parameters show."""
    matrices = [m for m in part.modules() if hasattr(m, "in_features")]
    inside = {id(p) for m in matrices for p in m.parameters()}
    numbers = sum(m.in_features * m.out_features for m in matrices)
    numbers += sum(p.numel() for p in part.parameters() if id(p) not in inside)
    return int(numbers * part.memory.pool.values.element_size())
