"""One network, two ways of attention: a causal model that can also read a block behind its cache in both directions.

Nemotron-Labs-Diffusion (arXiv 2607.05722) is one: the same weights write left to right, and fill a block of masks. As
it has all that makes up a layered model, every method for causal models runs on it as it is. A method that asks for it
(`needs="two-way"`) has `denoise` beside `extend`."""

from typing import Protocol, runtime_checkable

from engines.core.kinds.base import Ids, Kind, KVCache
from engines.core.kinds.layered import CountedLayered, LayeredLM
from engines.core.lazy import Tensor


@runtime_checkable
class TwoWayLM(LayeredLM, Protocol):
    """A causal model that can also fill blocks. There is no grid: a block begins wherever the cache ends, and has any
    length; `block_size` is the one that it was published with.

    shift: row i of a block predicts token i + 1 there as well; rows are moved one to the right inside the block."""

    mask_id: int
    block_size: int
    shift: bool

    def denoise(self, tokens: Ids, cache: KVCache, *, keep: bool = False) -> Tensor:
        """Feed a block of n tokens behind the cache; each row sees the cache and the whole block, all to all.

        Returns logits [n, V]; row i is the distribution of position cache.length + i, and the mask token is never
        proposed. With `shift` row 0 keeps its own: its position's distribution stands in the causal row before it.
        keep: the cache then holds the block, as it was read here; else it stays as it was."""


class CountedTwoWay(CountedLayered):
    """Such a model seen through the meter: a block is a forward like any other, with all its rows."""

    mask_id: int
    block_size: int
    shift: bool

    def denoise(self, tokens: Ids, cache: KVCache, *, keep: bool = False) -> Tensor:
        """See `TwoWayLM`; forbidden tokens get -inf in the rows of their positions."""
        first = cache.length
        logits: Tensor = self._call(len(tokens), lambda: self._model.denoise(tokens, cache, keep=keep))
        return self._allowed(logits, first)


KIND = Kind("two-way", TwoWayLM, CountedTwoWay, "tiny-two-way", role="target", of="causal")
