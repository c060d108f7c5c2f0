"""Encoder-decoders behind `Seq2SeqLM`: the encoder runs once for a prompt, the decoder on a preallocated cache beside
the prompt's cross-attention keys and values. T5 is transformers' own class, `mu.py` one of ours.

The cross-attention keys and values are made together with the encoder's output, so that their time is the encoder's,
and several caches can share them. Positions are relative in T5, so a draft tree cannot be laid on its cache.

Shapes: m prompt tokens, n rows fed, V vocabulary, d hidden size, h heads.
"""

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from engines.core.errors import UserError
from engines.core.kinds import Encoded, Extended, KVCache, Mark
from engines.core.kinds.base import Ids
from engines.core.meter import synchronise
from engines.models.adapters.base import HFModel, check_position
from engines.models.layers.slots import SlotCache, check_room

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


class EncoderDecoder(HFModel):
    """What both have: limits, caches, and the time that each layer took. `eos_ids`: the ids that end an answer.

    encoder, decoder: their layers. cross: of each decoder layer the matrices that make keys and values of the encoder's
    output. heads: of that attention."""

    encoder: Sequence[nn.Module]
    decoder: Sequence[nn.Module]
    cross: Sequence[tuple[nn.Linear, nn.Linear]]
    heads: int

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        if self.model.config.decoder_start_token_id is None:
            raise UserError(
                f"{self.record.name} does not say what its decoder starts with; give decoder_start_token_id in its "
                "config.json."
            )
        self.start_id = self.model.config.decoder_start_token_id

    @property
    def encoder_layers(self) -> int:
        """See `Seq2SeqLM`."""
        return len(self.encoder)

    @property
    def decoder_layers(self) -> int:
        """See `Seq2SeqLM`."""
        return len(self.decoder)

    @property
    def position_bytes(self) -> int:
        """Bytes of keys and values that a token takes in the decoder's layers, one of the prompt (cross-attention) as
        one of the answer."""
        numbers = sum(part.out_features for parts in self.cross for part in parts)
        return numbers * int(self.model.dtype.itemsize)

    @property
    def weights(self) -> dict[str, int]:
        """See `Seq2SeqLM`."""
        cross = sum(part.weight.numel() for parts in self.cross for part in parts)
        decoder = sum(p.numel() for block in self.decoder for p in block.parameters())
        return {
            "encode": sum(p.numel() for block in self.encoder for p in block.parameters()),
            "cross_kv": cross,
            "decode": decoder - cross,
            "unembed": self.model.get_output_embeddings().weight.numel(),
        }

    @abstractmethod
    def _encode(self, ids: Tensor) -> Tensor:
        """Prompt ids [1, m] to [1, m, d]."""

    @abstractmethod
    def _decode(self, ids: Tensor, cache: DecoderCache, attention: bool) -> tuple[Tensor, Tensor | None]:
        """Rows [1, n] to [1, n, d] before the output layer, and what the last layer took in of the prompt, [h, n, m],
        if it is asked for."""

    def _first_calls(self) -> None:
        cache = self.new_cache(self.encode([self.start_id] * 4), 8)
        self.extend([self.start_id], cache)
        self.extend([self.start_id], cache)

    @torch.no_grad()
    def encode(self, prompt: Ids, *, marks: list[Mark] | None = None) -> EncoderMemory:
        """See `Seq2SeqLM`. Raises UserError if the prompt exceeds `max_positions`, ValueError if it is empty."""
        ids = self._ids(prompt)
        if not ids.shape[1]:
            raise ValueError("no token was given to the encoder")
        if ids.shape[1] > self.max_positions:
            raise UserError(
                f"{self.record.name} has {self.max_positions} positions and a prompt of {ids.shape[1]} was fed; use a "
                "shorter prompt."
            )
        with self._timed(self.encoder, "encode", marks):
            hidden = self._encode(ids)
        cross = DynamicCache()
        for layer, parts in enumerate(self.cross):
            began = self._now() if marks is not None else 0.0
            keys, values = (part(hidden).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
            cross.update(keys, values, layer)
            if marks is not None:
                marks.append(Mark("cross_kv", layer, began, self._now()))
        return EncoderMemory(hidden, cross)

    def new_cache(self, memory: Encoded, capacity: int) -> DecoderCache:
        """See `Seq2SeqLM`. Raises UserError if the capacity is less than the prompt."""
        assert isinstance(memory, EncoderMemory)
        return DecoderCache(memory, self.decoder_layers, capacity)

    @torch.no_grad()
    def extend(
        self,
        tokens: Ids,
        cache: KVCache,
        *,
        last_only: bool = False,
        attention: bool = False,
        marks: list[Mark] | None = None,
    ) -> Extended:
        """See `Seq2SeqLM`. Raises UserError if rows do not fit the cache or the model's positions, ValueError if there
        are none."""
        assert isinstance(cache, DecoderCache)
        ids = self._ids(tokens)
        n = ids.shape[1]
        if n == 0:
            raise ValueError("no token was given to the decoder")
        check_room(cache.length, n, cache.capacity)
        check_position(self, cache.length + n - 1)
        with self._timed(self.decoder, "decode", marks):
            h, attention_weights = self._decode(ids, cache, attention)
        logits = self.model.get_output_embeddings()(h[0, -1:] if last_only else h[0])
        return Extended(logits.float(), attention=attention_weights)

    def _now(self) -> float:
        """The time, once the device is done with what it was given."""
        synchronise(str(self.device))
        return time.perf_counter()

    @contextmanager
    def _timed(self, layers: Sequence[nn.Module], phase: str, marks: list[Mark] | None) -> Iterator[None]:
        """Notes when each of these layers began and ended inside; nothing is hooked where nobody asks."""
        if marks is None:
            yield
            return
        began: dict[int, float] = {}

        def begins(layer: int) -> Any:
            return lambda *_: began.update({layer: self._now()})

        def ends(layer: int) -> Any:
            return lambda *_: marks.append(Mark(phase, layer, began[layer], self._now()))

        hooks = [layer.register_forward_pre_hook(begins(i)) for i, layer in enumerate(layers)]
        hooks += [layer.register_forward_hook(ends(i)) for i, layer in enumerate(layers)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


class HFSeq2SeqLM(EncoderDecoder):
    """A transformers `T5ForConditionalGeneration` with its tokenizer: see `Seq2SeqLM`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.max_positions = getattr(self.model.config, "n_positions", POSITIONS)
        self.encoder, self.decoder = list(self.model.encoder.block), list(self.model.decoder.block)
        attentions = [block.layer[1].EncDecAttention for block in self.decoder]
        self.cross = [(attention.k, attention.v) for attention in attentions]
        self.heads, self._last = self.config.num_heads, attentions[-1]

    def _encode(self, ids: Tensor) -> Tensor:
        return self.model.encoder(input_ids=ids).last_hidden_state

    def _decode(self, ids: Tensor, cache: DecoderCache, attention: bool) -> tuple[Tensor, Tensor | None]:
        asked: list[Tensor] = []  # [1, n, d], what the last layer looks up
        with hooked(self._last.q, lambda _module, _inputs, q: asked.append(q), attention):
            h = self.model.decoder(
                input_ids=ids, encoder_hidden_states=cache.memory.hidden, past_key_values=cache, use_cache=True
            ).last_hidden_state
        if self.config.scale_decoder_outputs:
            h = h * self.model.model_dim**-0.5
        if not attention:
            return h, None
        keys = cache.memory.cross.layers[-1].keys[0]  # [h, m, d / h]
        queries = asked[0][0].unflatten(-1, (self.heads, -1)).transpose(0, 1)
        return h, (queries @ keys.mT).float().softmax(-1)  # T5 neither scales the scores nor adds a bias to them here


class MuSeq2SeqLM(EncoderDecoder):
    """Our `MuForSeq2Seq` (engines.models.networks.mu) with its tokenizer: see `Seq2SeqLM`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.max_positions = self.model.config.max_position_embeddings
        self.encoder, self.decoder = list(self.model.encoder), list(self.model.decoder)
        self.cross = [(layer.cross.k_proj, layer.cross.v_proj) for layer in self.model.decoder]
        self.heads = self.config.num_attention_heads

    def _encode(self, ids: Tensor) -> Tensor:
        return self.model.encode(ids)

    def _decode(self, ids: Tensor, cache: DecoderCache, attention: bool) -> tuple[Tensor, Tensor | None]:
        slots, n = cache.self_attention_cache, ids.shape[1]
        memory = [(layer.keys, layer.values) for layer in cache.memory.cross.layers]
        past, mask, seen = slots.length, None, list[Tensor]()
        if n > 1 and past:  # a block of rows behind others: row i sees those and i + 1 of the block
            mask = torch.ones(n, past + n, dtype=torch.bool, device=ids.device).tril(past)[None, None]
        last = self.model.decoder[-1].cross
        with hooked(last, lambda _module, inputs, _out: seen.append(inputs[0]), attention):
            h = self.model.decode(ids, memory, past=past, mask=mask, cache=slots)
        return h, last.looked_up(seen[0], memory[-1])[0] if attention else None


@contextmanager
def hooked(module: nn.Module, hook: Any, wanted: bool) -> Iterator[None]:
    """A forward hook for as long as it is needed, if it is."""
    held = module.register_forward_hook(hook) if wanted else None
    try:
        yield
    finally:
        if held is not None:
            held.remove()
