"""T5 behind `Seq2SeqLM`: the encoder runs once for a prompt, the decoder on a preallocated cache beside the prompt's
cross-attention keys and values.

The stock class does all the mathematics; here the cross-attention keys and values are made together with the encoder's
output, so that their time is the encoder's, and several caches can share them. Positions are relative in T5, so a draft
tree cannot be laid on its cache.

Shapes: m prompt tokens, n rows fed, V vocabulary, d hidden size, h heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from engines.core.errors import UserError
from engines.core.kinds import Encoded, Extended, KVCache, Tokenizer
from engines.core.trace import ModelRecord
from engines.models.adapters.base import HFModel
from engines.models.slots import SlotCache, check_room

POSITIONS = 512  # T5 has no table of positions and so no limit of its own; this is the length that it is published for


@dataclass(frozen=True)
class EncoderMemory:
    """The encoder's output [1, m, d] and the cross-attention keys and values [1, h, m, d / h] of every decoder
    layer."""

    hidden: Tensor
    cross: DynamicCache

    @property
    def length(self) -> int:
        """Prompt tokens."""
        return self.hidden.shape[1]


class DecoderCache(EncoderDecoderCache):
    """The decoder's own rows in slots, beside one memory. Counts positions of the board, as `Seq2SeqLM` says: row 0
    stands at `base` = m - 1."""

    def __init__(self, memory: EncoderMemory, layers: int, capacity: int) -> None:
        if capacity < memory.length:
            raise UserError(
                f"a cache for a prompt of {memory.length} tokens needs room for them; capacity={capacity} was given."
            )
        self.memory, self.base, self.capacity = memory, memory.length - 1, capacity
        super().__init__(SlotCache(layers, capacity - self.base), memory.cross)

    @property
    def length(self) -> int:
        """Positions that the cache holds: the prompt's but the last, and the rows fed."""
        return self.base + self.self_attention_cache.length

    def crop(self, length: int) -> None:
        """Forget everything from position `length` on. Raises ValueError if there is less, or for a position of the
        prompt."""
        if not self.base <= length <= self.length:
            raise ValueError(
                f"the cache holds {self.length} positions, {self.base} of them from the encoder; it cannot be cropped "
                f"to {length}"
            )
        self.self_attention_cache.crop(length - self.base)

    def keep(self, base: int, rows: Sequence[int]) -> None:
        """Keep the first `base` positions and, behind them, base + r for r in `rows` (ascending). Raises ValueError for
        rows it does not hold."""
        self.self_attention_cache.keep(base - self.base, rows)


class HFSeq2SeqLM(HFModel):
    """A transformers `T5ForConditionalGeneration` with its tokenizer: see `Seq2SeqLM`. `eos_ids`: the ids that end an
    answer."""

    def __init__(
        self, model: Any, tokenizer: Tokenizer, record: ModelRecord, eos_ids: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(model, tokenizer, record, eos_ids)
        config = model.config
        if config.decoder_start_token_id is None:
            raise UserError(
                f"{record.name} does not say what its decoder starts with; give decoder_start_token_id in its "
                "config.json."
            )
        self.start_id = config.decoder_start_token_id
        self.encoder_layers, self.decoder_layers = config.num_layers, config.num_decoder_layers
        self.max_positions = getattr(config, "n_positions", POSITIONS)
        self._cross = [block.layer[1].EncDecAttention for block in model.decoder.block]

    def _first_calls(self) -> None:
        cache = self.new_cache(self.encode([self.start_id] * 4), 8)
        self.extend([self.start_id], cache)
        self.extend([self.start_id], cache)

    @torch.no_grad()
    def encode(self, prompt: Sequence[int] | Tensor) -> EncoderMemory:
        """See `Seq2SeqLM`. Raises UserError if the prompt exceeds `max_positions`, ValueError if it is empty."""
        ids = self._ids(prompt)
        if not ids.shape[1]:
            raise ValueError("no token was given to the encoder")
        if ids.shape[1] > self.max_positions:
            raise UserError(
                f"{self.record.name} has {self.max_positions} positions and a prompt of {ids.shape[1]} was fed; use a "
                "shorter prompt."
            )
        hidden, cross = self.model.encoder(input_ids=ids).last_hidden_state, DynamicCache()
        for layer, attention in enumerate(self._cross):
            keys, values = (
                part(hidden).unflatten(-1, (attention.n_heads, -1)).transpose(1, 2)
                for part in (attention.k, attention.v)
            )
            cross.update(keys, values, layer)
        return EncoderMemory(hidden, cross)

    def new_cache(self, memory: Encoded, capacity: int) -> DecoderCache:
        """See `Seq2SeqLM`. Raises UserError if the capacity is less than the prompt."""
        assert isinstance(memory, EncoderMemory)
        return DecoderCache(memory, self.decoder_layers, capacity)

    @torch.no_grad()
    def extend(
        self, tokens: Sequence[int] | Tensor, cache: KVCache, *, last_only: bool = False, attention: bool = False
    ) -> Extended:
        """See `Seq2SeqLM`. Raises UserError if rows do not fit the cache or the model's positions, ValueError if there
        are none."""
        assert isinstance(cache, DecoderCache)
        ids = self._ids(tokens)
        n = ids.shape[1]
        if n == 0:
            raise ValueError("no token was given to the decoder")
        check_room(cache.length, n, cache.capacity)
        if (end := cache.length + n) > self.max_positions:
            raise UserError(
                f"{self.record.name} has {self.max_positions} positions and position {end - 1} was fed; use a shorter "
                "prompt or fewer new tokens."
            )
        asked: list[Tensor] = []  # [1, n, d], what the last layer looks up
        hook = (
            self._cross[-1].q.register_forward_hook(lambda _module, _inputs, q: asked.append(q)) if attention else None
        )
        try:
            out = self.model(
                encoder_outputs=BaseModelOutput(last_hidden_state=cache.memory.hidden),
                decoder_input_ids=ids,
                past_key_values=cache,
                use_cache=True,
            )
        finally:
            if hook is not None:
                hook.remove()
        logits = out.logits[0, -1:] if last_only else out.logits[0]
        return Extended(logits.float(), attention=self._looked_up(asked[0], cache.memory) if attention else None)

    def _looked_up(self, q: Tensor, memory: EncoderMemory) -> Tensor:
        """Attention [h, n, m] of the last layer's queries [1, n, d] over the prompt; T5 neither scales the scores nor
        adds a bias to them here."""
        keys = memory.cross.layers[-1].keys[0]  # [h, m, d / h]
        queries = q[0].unflatten(-1, (self._cross[-1].n_heads, -1)).transpose(0, 1)
        return (queries @ keys.mT).float().softmax(-1)
