"""Any Llama-like left-to-right transformer behind `CausalLM`: chains and draft trees on a preallocated cache.

A chain goes without a mask of ours (one row needs none, a prefill takes the causal kernel); measured on SmolLM2, an explicit mask is neither
faster nor slower. `no_grad` rather than inference mode, so that a method may write into the logits it gets.

Shapes: L cached positions, n rows fed, V vocabulary, d hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.core.events import ModelRecord
from engines.core.models import Extended, KVCache, Tokenizer, row_depths
from engines.models.adapter import HFModel
from engines.models.slots import SlotCache, check_room


class HFCausalLM(HFModel):
    """A transformers causal model with its tokenizer. `eos_ids`: the ids that end an answer."""

    def __init__(self, model: Any, tokenizer: Tokenizer, record: ModelRecord, eos_ids: frozenset[int] = frozenset()) -> None:
        super().__init__(model, tokenizer, record, eos_ids)
        self.num_layers, self.max_positions = self.config.num_hidden_layers, self.config.max_position_embeddings
        self._layer_types = layer_types(self.config)

    def _first_calls(self) -> None:
        cache = self.new_cache(4)
        self.extend([0, 0, 0], cache)
        self.extend([0], cache)

    def new_cache(self, capacity: int) -> SlotCache:
        """An empty cache for up to `capacity` positions. Raises UserError for models whose layers keep a state instead of keys and values."""
        other = self._layer_types - {"full_attention", "sliding_attention"}
        if other:
            raise UserError(f"{self.record.name} has {', '.join(sorted(other))} layers, which keep no keys and values; choose a Llama- or Qwen-like model.")
        return SlotCache(self.num_layers, capacity)

    @torch.no_grad()
    def extend(
        self, tokens: Sequence[int] | Tensor, cache: KVCache, *, parents: Sequence[int] | None = None, hidden: Sequence[int] = (), last_only: bool = False
    ) -> Extended:
        """See `CausalLM`. Logits [n, V] (or [1, V]) in float32. Raises UserError if rows do not fit the cache or the model's positions.

        hidden: numbers of layers; i gives the stream [n, d] behind i layers, 0 the embeddings, `num_layers` the stream behind the final norm,
        which is what the output head reads (transformers' `hidden_states`).
        """
        assert isinstance(cache, SlotCache)
        ids = self._ids(tokens)
        n = ids.shape[1]
        early = len(parents) - n if parents is not None else 0  # rows of the tree that are in the cache already
        past = cache.length - early
        depths = list(range(n)) if parents is None else row_depths(parents)
        chain = parents is None or depths == list(range(n + early))
        self._check(n, early, depths, cache, chain)
        out = self.model(
            input_ids=ids,
            position_ids=torch.tensor([depths[early:]], device=self.device) + past,
            attention_mask=None if chain else tree_mask(parents or (), past, self.model.dtype, self.device)[:, :, early:],
            past_key_values=cache,
            use_cache=True,
            output_hidden_states=bool(hidden),
            logits_to_keep=1 if last_only else 0,
        )
        return Extended(out.logits[0].float(), {i: out.hidden_states[i][0] for i in hidden})

    def _check(self, n: int, early: int, depths: Sequence[int], cache: SlotCache, chain: bool) -> None:
        if n == 0 or not 0 <= early <= cache.length:
            raise ValueError(f"{n} tokens and {len(depths)} parents were fed; at least one token, and a parent for each and for the tree's rows in the cache")
        if not chain and self._layer_types != {"full_attention"}:
            kinds = ", ".join(sorted(self._layer_types))
            raise UserError(f"{self.record.name} has {kinds} layers, which cannot take a draft tree; choose a model with full attention in all layers.")
        check_room(cache.length, n, cache.capacity)
        if (last := cache.length - early + max(depths)) >= self.max_positions:
            raise UserError(f"{self.record.name} has {self.max_positions} positions and position {last} was fed; use a shorter prompt or fewer new tokens.")


def tree_mask(parents: Sequence[int], past: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Additive mask [1, 1, n, past + n]: row i sees the cache, its ancestors and itself.

    Never boolean: eager attention would add True and False to the scores, silently.
    """
    n = len(parents)
    sees = torch.eye(n, dtype=torch.bool)
    for row, parent in enumerate(parents):
        if parent >= 0:
            sees[row] |= sees[parent]
    mask = torch.zeros(1, 1, n, past + n, dtype=dtype)
    mask[0, 0, :, past:].masked_fill_(~sees, torch.finfo(dtype).min)
    return mask.to(device)


def layer_types(config: Any) -> set[str]:
    """The kinds of layers that a transformers config declares: full_attention, sliding_attention, linear_attention ..."""
    from transformers.cache_utils import get_layer_types_and_kwargs

    return set(get_layer_types_and_kwargs(config)[0])
