"""Our mixtures of four attentions behind `SplitLM`: the halves of a layer called one by one, for one row of several
texts; the feed-forward half in numpy, the same here and in a process of its own.

Shapes: B texts, h query heads on g key-value heads, e head size, m positions."""

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from engines.core.kinds import KVCache
from engines.models.adapters.base import check_position
from engines.models.adapters.sparse import HFMoELM
from engines.models.layers.feed_forward import EXPERTS, FeedForward
from engines.models.layers.slots import SlotCache

FOLDED = "decoding_explorer_folded"  # the name under which transformers finds our function


class HFSplitLM(HFMoELM):
    """See `SplitLM`. The attention of one row a text reads each key and value once, for all the query heads on it."""

    def __init__(self, *given: Any) -> None:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        super().__init__(*given)
        config = self.config
        self.attention = str(config.attention)
        width = config.kv_rank + config.head_dim if self.attention == "mla" else config.head_dim
        self.position_operations = 4 * self.num_layers * config.num_attention_heads * width
        self.feed_forwards = tuple(_feed_forward(layer.mlp) for layer in self._layers)
        usual = ALL_ATTENTION_FUNCTIONS.get_interface(config._attn_implementation, None)
        for layer in self._layers:
            layer.self_attn.usual = usual
            layer.self_attn.config = copy.copy(config)
            layer.self_attn.config._attn_implementation_internal = FOLDED
        with torch.no_grad():
            places = torch.arange(self.max_positions, device=self.device)[None]
            self._turns = self._rotary(self._embedding.weight[:1], position_ids=places)  # cos and sin [1, positions, e]

    def spread(self, cache: KVCache, B: int, capacity: int) -> SlotCache:
        """See `SplitLM`."""
        assert isinstance(cache, SlotCache)
        made = SlotCache(self.num_layers, capacity)
        for old, new in zip(cache.layers, made.layers, strict=True):
            if old.length:
                expanded = (buffer[:, :, : old.length].expand(B, -1, -1, -1) for buffer in (old.keys, old.values))
                new.update(*expanded)
        return made

    @torch.no_grad()
    def attend(self, x: Tensor, cache: KVCache, layer: int) -> tuple[Tensor, Tensor]:
        """See `SplitLM`. Raises UserError where cache or model have no room left."""
        assert isinstance(cache, SlotCache)
        half: Any = self._layers[layer]
        check_position(self, at := cache.layers[layer].length)
        read, _ = half.self_attn(
            hidden_states=half.input_layernorm(x[:, None]),
            position_embeddings=tuple(rotation[:, at : at + 1] for rotation in self._turns),
            past_key_values=cache,
        )
        x = x + read[:, 0]
        return x, half.post_attention_layernorm(x)

    @torch.no_grad()
    def feed(self, u: Tensor, layer: int) -> Tensor:
        """See `SplitLM`."""
        out = self.feed_forwards[layer](u.float().cpu().numpy())
        return torch.from_numpy(out).to(u)


def _feed_forward(part: Any) -> FeedForward:
    """The weights of a feed-forward half, as arrays that share the memory of float32 ones."""
    own = {name: getattr(part, name) for name in EXPERTS}
    shared = {f"shared_{name}": getattr(part.shared_expert, name) for name in EXPERTS}
    weights = {"router": part.gate.weight, **own, **shared}
    return FeedForward({name: w.detach().float().cpu().numpy() for name, w in weights.items()}, part.gate.k)


def _folded(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """Queries [B, h, n, e] over keys [B, g, m, e] and values [B, g, m, w] to [B, n, h, w]. For one row a text that sees
    everything the h / g query heads on a key head are the rows of one product; else transformers' own function."""
    B, h, n, _ = query.shape
    if n > 1 or attention_mask is not None:
        output: tuple[Tensor, Tensor | None] = module.usual(module, query, key, value, attention_mask, **options)
        return output
    q = query.reshape(B, key.shape[1], -1, query.shape[-1])  # [B, g, h / g, e]
    scale = options.get("scaling") or query.shape[-1] ** -0.5
    out = ((q @ key.mT) * scale).softmax(-1) @ value
    return out.reshape(B, 1, h, -1), None


AttentionInterface.register(FOLDED, _folded)
