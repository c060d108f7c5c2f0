"""Mixtures of experts behind `MoELM`: a layered model that knows its routers, ours and the stock ones of transformers
alike, where they stand as `mlp.gate`."""

from __future__ import annotations

from typing import Any

from torch import nn

from engines.core.kinds.moe import Mixture
from engines.models.adapters.layered import HFLayeredLM


class HFMoELM(HFLayeredLM):
    """See `MoELM`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.mixtures = tuple(mixture(i, layer.mlp) for i, layer in enumerate(self._layers) if has_router(layer.mlp))


def has_router(part: nn.Module) -> bool:
    """Whether a feed-forward part is a mixture: its router is a module called gate with a row for each expert."""
    gate = getattr(part, "gate", None)
    return isinstance(gate, nn.Module) and getattr(gate, "weight", None) is not None


def mixture(layer: int, part: Any) -> Mixture:
    """What there is of experts in such a part; experts shared by all rows do not count."""
    experts = len(part.gate.weight)
    apart = ("gate.", "shared_expert")
    size = sum(p.numel() * p.element_size() for name, p in part.named_parameters() if not name.startswith(apart))
    return Mixture(layer, experts, size // experts)
