"""Any transformer that runs layer by layer, read causally and, block by block, in both directions, behind `TwoWayLM`.

Causally it is `HFLayeredLM` with nothing changed. A block goes through the same weights with a mask that hides nothing;
its keys and values stand on the cache's board (see `slots`) and are forgotten with it.

Shapes: n rows fed, V vocabulary."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from engines.core.kinds import KVCache, Tokenizer
from engines.core.trace import ModelRecord
from engines.models.adapters.base import check_mask_id, distributions
from engines.models.adapters.block import check_blocks
from engines.models.adapters.causal import place
from engines.models.adapters.layered import HFLayeredLM
from engines.models.layers.slots import SlotCache


class HFTwoWayLM(HFLayeredLM):
    """A transformers causal model with its tokenizer that was trained to fill blocks as well. Raises UserError for what
    does not fit."""

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        record: ModelRecord,
        mask_id: int,
        block_size: int,
        shift: bool = False,
        eos_ids: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(model, tokenizer, record, eos_ids)
        self.mask_id, self.shift = check_mask_id(mask_id, self.vocab_size, record), shift
        self.block_size = check_blocks(self, block_size, self.max_positions)

    def _first_calls(self) -> None:
        super()._first_calls()
        n = min(self.block_size, self.max_positions - 1)
        if n:
            cache = self.new_cache(1 + n)
            self.extend([0], cache)
            self.denoise([self.mask_id] * n, cache)

    @torch.no_grad()
    def denoise(self, tokens: Sequence[int] | Tensor, cache: KVCache, *, keep: bool = False) -> Tensor:
        """See `TwoWayLM`. Logits [n, V] in float32. Raises UserError if rows do not fit the cache or the model's
        positions, ValueError for a block of no tokens."""
        assert isinstance(cache, SlotCache)
        ids, past = self._ids(tokens), cache.length
        n = ids.shape[1]
        new = place(n, None, past)
        self._check(new, cache.capacity)
        at = torch.tensor([new.positions], device=self.device)
        with nullcontext() if keep else cache.on_board(0):
            logits = self._logits_of(ids, at, past + n, cache)[0]
        cache.cut_board(0)
        return distributions(logits, self)
