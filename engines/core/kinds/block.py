"""Block diffusion: bidirectional inside a block, causal between blocks."""

from typing import Protocol, runtime_checkable

from engines.core.kinds.base import Ids, Kind, KVCache, Model
from engines.core.kinds.masked import CountedMasked
from engines.core.lazy import Tensor


@runtime_checkable
class BlockMaskedLM(Model, Protocol):
    """Block diffusion: bidirectional inside a block of `block_size` absolute positions (counted from 0), causal between
    blocks.

    Finished blocks are stored, their keys and values are exact and stay. The block behind them is fed as often as it
    takes, and the keys and values of those forwards stay behind the cache until the block is stored: the sub-block
    cache of Fast-dLLM v2 (arXiv 2509.26328).
    shift: row i of the network predicts token i + 1; rows are moved one to the right inside what was fed, the first one
    keeps its own."""

    mask_id: int
    block_size: int
    shift: bool

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for up to `capacity` positions. A crop has to end at a block's edge; any crop forgets the
        unfinished block."""

    def store(self, tokens: Ids, cache: KVCache) -> Tensor:
        """Feed one or more finished blocks behind the cache, which then holds them.

        Returns logits [V] of the last row: with `shift` the distribution of the position behind them (a free next
        token), else of their last position. Raises ValueError where these are no whole blocks."""

    def denoise(self, tokens: Ids, cache: KVCache, start: int = 0) -> Tensor:
        """Feed the block behind the cache, or only its positions start ... start + n - 1; `cache.length` stays.

        The positions left out count as what they were in the forward that last fed them. Returns logits [n, V]; row i
        is the distribution of position cache.length + start + i. With `shift` row 0 keeps its own: its position's
        distribution stands before what was fed, so it should be decided already. Raises ValueError for a part of a
        block that was not fed as a whole before."""

    def __call__(self, x: Tensor) -> Tensor:
        """The whole board without a cache, of any length: x [L] -> logits [L, V], or [B, L] -> [B, L, V].

        Row i is the distribution of position i. With `shift` the first row of a block comes from the block before it:
        it is what `store` of that block gives."""


class CountedBlock(CountedMasked):
    """A block-diffusion model seen through the meter; forbidden tokens get -inf in the rows of their positions."""

    block_size: int

    def new_cache(self, capacity: int) -> KVCache:
        """See `BlockMaskedLM`."""
        return self._model.new_cache(capacity)

    def store(self, tokens: Ids, cache: KVCache) -> Tensor:
        """See `BlockMaskedLM`."""
        logits = self._call(len(tokens), lambda: self._model.store(tokens, cache))
        return self._allowed(logits[None], cache.length if self.shift else cache.length - 1)[0]

    def denoise(self, tokens: Ids, cache: KVCache, start: int = 0) -> Tensor:
        """See `BlockMaskedLM`."""
        return self._allowed(
            self._call(len(tokens), lambda: self._model.denoise(tokens, cache, start)), cache.length + start
        )


KIND = Kind("block", BlockMaskedLM, CountedBlock, "tiny-blockdlm", masked=True)
