"""Any Llama-like transformer behind `BlockMaskedLM`: bidirectional inside a block, causal between blocks, with an exact
cache of finished blocks; and any that runs layer by layer, read causally and, block by block, in both directions,
behind `TwoWayLM`.

The network is a stock one; the mask makes it block-causal, so it is always given explicitly, whatever the config says.
Finished blocks are the cache's rows in use, the block being written is its board (see `slots`).

A model of both ways is causally `HFLayeredLM` with nothing changed. A block goes through the same weights with a mask
that hides nothing; its keys and values stand on the cache's board and are forgotten with it.

Shapes: B boards, L positions, n rows fed, V vocabulary.
"""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.core.kinds import KVCache
from engines.core.kinds.base import Ids
from engines.models.adapters.base import HFModel, check_mask_id, check_position, distributions, shifted
from engines.models.adapters.causal import layer_types, place
from engines.models.adapters.family import positions_of
from engines.models.adapters.layered import HFLayeredLM
from engines.models.layers.slots import SlotCache, check_room


class HFBlockMaskedLM(HFModel):
    """A transformers decoder with its tokenizer, as a block-diffusion model: see `BlockMaskedLM`.

    shift: row i of the network predicts token i + 1 (Fast-dLLM v2, arXiv 2509.26328); SDAR (arXiv 2510.06303) does
    without.
    The mask token is never proposed: its logit is -inf. `max_positions` is a whole number of blocks. Raises UserError
    for what does not fit."""

    mergeable = True

    def __init__(self, *given: Any, mask_id: int, block_size: int, shift: bool = True) -> None:
        super().__init__(*given)
        self.mask_id, self.shift = check_mask_id(mask_id, self.vocab_size, self.record), shift
        positions, self.rotations_change = positions_of(self.config)
        self.block_size, self.num_layers = check_blocks(self, block_size, positions), self.config.num_hidden_layers
        self.max_positions = positions // block_size * block_size

    def _first_calls(self) -> None:
        cache, block = self.new_cache(self.block_size), [self.mask_id] * self.block_size
        self.denoise(block, cache)
        self.store(block, cache)

    def new_cache(self, capacity: int) -> SlotCache:
        """An empty cache for up to `capacity` positions, rounded up to whole blocks."""
        return SlotCache(self.num_layers, -(-capacity // self.block_size) * self.block_size)

    @torch.no_grad()
    def store(self, tokens: Ids, cache: KVCache) -> Tensor:
        """See `BlockMaskedLM`. Logits [V]. Raises UserError if the blocks do not fit the cache or the model's
        positions."""
        assert isinstance(cache, SlotCache)
        ids = self._ids(tokens)
        n = ids.shape[1]
        if n == 0 or n % self.block_size or cache.length % self.block_size:
            raise ValueError(
                f"{n} tokens were to be stored behind {cache.length}; both must be whole blocks of {self.block_size}"
            )
        check_room(cache.length, n, cache.capacity)
        return self._rows(ids, cache.length, cache.length + n, cache, last_only=True)[0, 0]

    @torch.no_grad()
    def denoise(self, tokens: Ids, cache: KVCache, start: int = 0) -> Tensor:
        """See `BlockMaskedLM`. Logits [n, V]. Raises UserError if the block does not fit the cache or the model's
        positions."""
        assert isinstance(cache, SlotCache)
        ids, block = self._ids(tokens), self.block_size
        n, past = ids.shape[1], cache.length
        if past % block or not (0 <= start < start + n <= block):
            raise ValueError(
                f"positions {start} to {start + n - 1} behind {past} were fed; they must lie in one block of {block} "
                "behind whole blocks"
            )
        if n < block and cache.board < block:
            raise ValueError(
                f"{n} of {block} positions were fed and the others are unknown; feed the whole block first"
            )
        check_room(past, block, cache.capacity)
        with cache.on_board(start):
            logits = self._rows(ids, past + start, past + block, cache)[0]
        return shifted(logits) if self.shift else logits

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """See `BlockMaskedLM`. x [L] -> logits [L, V], or [B, L] -> [B, L, V]. Raises UserError if L exceeds
        `max_positions`."""
        length = x.shape[-1]
        logits = self._rows(x.to(self.device).reshape(-1, length), 0, length, None)
        return (shifted(logits) if self.shift else logits).reshape(*x.shape, self.vocab_size)

    def _rows(self, ids: Tensor, first: int, seen: int, cache: SlotCache | None, last_only: bool = False) -> Tensor:
        """The network's rows [B, n, V] for ids [B, n] at positions `first` ..., which look at the positions below
        `seen`."""
        end = first + ids.shape[1]
        check_position(self, end - 1)
        at = torch.arange(first, end, device=self.device)[None]
        mask = block_mask(range(first, end), seen, self.block_size, self.model.dtype, self.device)
        logits = self._logits_of(ids, at, seen, cache, mask, last_only).float()
        logits[..., self.mask_id] = -torch.inf
        return logits


class HFTwoWayLM(HFLayeredLM):
    """A transformers causal model with its tokenizer that was trained to fill blocks as well. Raises UserError for what
    does not fit."""

    def __init__(self, *given: Any, mask_id: int, block_size: int, shift: bool = False) -> None:
        super().__init__(*given)
        self.mask_id, self.shift = check_mask_id(mask_id, self.vocab_size, self.record), shift
        self.block_size = check_blocks(self, block_size, self.max_positions)

    def _first_calls(self) -> None:
        super()._first_calls()
        n = min(self.block_size, self.max_positions - 1)
        if n:
            cache = self.new_cache(1 + n)
            self.extend([0], cache)
            self.denoise([self.mask_id] * n, cache)

    @torch.no_grad()
    def denoise(self, tokens: Ids, cache: KVCache, *, keep: bool = False) -> Tensor:
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


def check_blocks(model: HFModel, block_size: Any, positions: int) -> int:
    """The positions of a block. Raises UserError for one that the model has no room for, and for layers that do not see
    everything."""
    if not isinstance(block_size, int) or not 1 <= block_size <= positions:
        raise UserError(
            f"block_size={block_size} does not fit {model.record.name}; give a number from 1 to {positions}."
        )
    if other := layer_types(model.config) - {"full_attention"}:
        raise UserError(
            f"{model.record.name} has {', '.join(sorted(other))} layers; block diffusion needs full attention in all "
            "of them."
        )
    return block_size


def block_mask(rows: range, columns: int, block_size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Additive mask [1, 1, n, columns]: the row at position i sees position j if i's block is not before j's.

    Never boolean: eager attention would add True and False to the scores, silently.
    """
    own = torch.arange(rows.start, rows.stop)[:, None] // block_size
    hidden = torch.arange(columns)[None] // block_size > own
    return torch.zeros(1, 1, *hidden.shape, dtype=dtype).masked_fill_(hidden, torch.finfo(dtype).min).to(device)
