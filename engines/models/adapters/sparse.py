"""Layered models of which a row uses a part: mixtures of experts behind `MoELM`, whose routers stand as `mlp.gate`,
ours and the stock ones of transformers alike, and memories behind `MemoryLM`, which stand as `mlp.memory`."""

from typing import Any

from torch import nn

from engines.core.kinds.memory import MemoryTable
from engines.core.kinds.moe import Mixture
from engines.models.adapters.layered import HFLayeredLM


class HFMoELM(HFLayeredLM):
    """See `MoELM`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        parts = [(i, layer.mlp) for i, layer in enumerate(self._layers)]
        gates = [getattr(part, "gate", None) for _, part in parts]  # of a mixture: a module with a row for each expert
        routed = [isinstance(gate, nn.Module) and getattr(gate, "weight", None) is not None for gate in gates]
        self.mixtures = tuple(mixture(*entry) for entry, has in zip(parts, routed, strict=True) if has)


def mixture(layer: int, part: Any) -> Mixture:
    """What there is of experts in such a part; experts shared by all rows do not count."""
    experts = len(part.gate.weight)
    apart = ("gate.", "shared_expert")
    size = sum(p.numel() * p.element_size() for name, p in part.named_parameters() if not name.startswith(apart))
    return Mixture(layer, experts, size // experts)


class HFMemoryLM(HFLayeredLM):
    """See `MemoryLM`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        parts = [(i, layer.mlp) for i, layer in enumerate(self._layers)]
        self.memories = tuple(table(i, part) for i, part in parts if getattr(part, "memory", None) is not None)


def table(layer: int, part: Any) -> MemoryTable:
    """What there is of a memory in such a part, in the type that its weights have."""
    memory, pool = part.memory, part.memory.pool
    slot_bytes = sum(tensor.shape[1] * tensor.element_size() for tensor in pool.parameters())
    return MemoryTable(layer, memory.K, memory.m, len(pool.values), memory.offset, slot_bytes, size(part))


def size(part: nn.Module) -> int:
    """Bytes of the weights of a part; the pool is no part of it. Matrices may be packed, then no parameters show."""
    matrices = [m for m in part.modules() if hasattr(m, "in_features")]
    inside = {id(p) for m in matrices for p in m.parameters()}
    numbers = sum(m.in_features * m.out_features for m in matrices)
    numbers += sum(p.numel() for p in part.parameters() if id(p) not in inside)
    return int(numbers * part.memory.pool.values.element_size())
