"""Any bidirectional transformer with a mask token behind `MaskedLM`: LLaDA- and Dream-like decoders, BERT-like
encoders.

The decoders can also be fed in parts (`CachedMaskedLM`): the board is the board of a `SlotCache` (see `slots`), its
rows in use stay none. Keys are kept behind their rotation; LLaDA keeps them before it and rotates all of them in every
forward, which is the same where positions stay what they are.

Shapes: B boards, L positions, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.core.kinds import KVCache
from engines.models.adapters.base import HFModel, check_board, check_mask_id, distributions
from engines.models.adapters.causal import layer_types
from engines.models.adapters.family import positions_of
from engines.models.layers.slots import SlotCache, check_room


class HFMaskedLM(HFModel):
    """A transformers model without a causal mask (`config.is_causal` False, or an encoder), with its tokenizer.

    shift: row i of the network predicts token i + 1 (models that were causal once, such as Dream); the rows are moved
    here, row 0 keeps its own.
    The mask token is never proposed: its logit is -inf, as ParallelBench does it. LLaDA's own loop leaves it in, and
    can end with holes."""

    def __init__(self, *given: Any, mask_id: int, shift: bool = False) -> None:
        super().__init__(*given)
        self.mask_id, self.shift = check_mask_id(mask_id, self.vocab_size, self.record), shift
        self.max_positions, self.rotations_change = positions_of(self.config)
        self.num_layers = self.config.num_hidden_layers
        self._decoder = getattr(self.config, "is_causal", None) is False
        self._inputs = {"use_cache": False} if self._decoder else {}
        self.mergeable = self._decoder and layer_types(self.config) == {"full_attention"}

    def _first_calls(self) -> None:
        self(torch.full((min(8, self.max_positions),), self.mask_id))

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """x [L] -> logits [L, V], or [B, L] -> [B, L, V], float32 on the model's device. Raises UserError if L exceeds
        `max_positions`."""
        check_board(self, x.shape[-1])
        ids = x.to(self.device).reshape(-1, x.shape[-1])
        at = torch.arange(ids.shape[1])[None]
        logits = self.body.logits(ids, at, None, None) if self.body else None
        if logits is None:
            logits = self.model(input_ids=ids, **self._inputs).logits
        return distributions(logits, self).reshape(*x.shape, self.vocab_size)

    def new_cache(self, capacity: int) -> SlotCache:
        """See `CachedMaskedLM`. Raises UserError for encoders, and for layers that do not see everything."""
        if not self._decoder:
            raise UserError(
                f"{self.record.name} is an encoder and keeps no keys and values; set cache=none or choose a Llama- or "
                "Qwen-like masked model."
            )
        if other := layer_types(self.config) - {"full_attention"}:
            raise UserError(
                f"{self.record.name} has {', '.join(sorted(other))} layers; a cache of a board needs full attention "
                "in all of them, set cache=none."
            )
        return SlotCache(self.num_layers, capacity)

    @torch.no_grad()
    def feed(self, x: Tensor, cache: KVCache, start: int, end: int) -> Tensor:
        """See `CachedMaskedLM`. x [L] -> logits [end - start, V], float32. Raises UserError if the board does not fit
        the cache or the model's positions."""
        assert isinstance(cache, SlotCache)
        length, n = len(x), end - start
        check_board(self, length)
        check_room(0, length, cache.capacity)
        if not 0 <= start < end <= length:
            raise ValueError(f"positions {start} to {end - 1} were fed of a board of {length}")
        if n == length:
            cache.crop(0)
        elif cache.board < length:
            raise ValueError(
                f"{n} of {length} positions were fed and the others are unknown; feed the whole board first"
            )
        cache.cut_board(length)
        ids, at = x[start:end].to(self.device)[None], torch.arange(start, end, device=self.device)[None]
        with cache.on_board(start):
            logits = self._logits_of(ids, at, length, cache)
        return distributions(logits, self)[0]
