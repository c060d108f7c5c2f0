"""Mixtures of experts whose layers come apart: attention on one side, the feed-forward half on the other, which another
process may compute (attention-FFN disaggregation). Decoding runs several texts of one length at once.

Shapes: B texts, one row of each, d hidden size."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from engines.core.kinds.base import Kind, KVCache
from engines.core.kinds.moe import CountedMoE, MoELM
from engines.core.lazy import Tensor


@runtime_checkable
class SplitLM(MoELM, Protocol):
    """A mixture whose layers come apart.

    attention: its kind, such as gqa or mfa. position_operations: floating-point operations that the attention of all
    layers makes of one cached position, for one new row, without its linear maps. feed_forwards: the feed-forward half
    of every layer, callable on float32 arrays [B, d], with weights that can be handed to another process."""

    attention: str
    position_operations: int
    feed_forwards: Sequence[Any]

    def spread(self, cache: KVCache, B: int, capacity: int) -> KVCache:
        """A cache of B texts for up to `capacity` positions, each with a copy of what the cache of one text holds."""

    def attend(self, x: Tensor, cache: KVCache, layer: int) -> tuple[Tensor, Tensor]:
        """The attention half of a layer on rows x [B, d], the next one of each text: x with the attention added, and
        what the feed-forward half reads, both [B, d]. The layer's cache holds one row more of each text then."""

    def feed(self, u: Tensor, layer: int) -> Tensor:
        """The feed-forward half of a layer on what it reads, [B, d] to [B, d]."""


class CountedSplit(CountedMoE):
    """Such a mixture seen through the meter. A row that goes through the attention half of a layer is booked as a row
    through the layer; `feed` books its time only, and so does waiting for what another process feeds."""

    attention: str
    position_operations: int
    feed_forwards: Sequence[Any]

    def spread(self, cache: KVCache, B: int, capacity: int) -> KVCache:
        """See `SplitLM`."""
        return self._model.spread(cache, B, capacity)

    def attend(self, x: Tensor, cache: KVCache, layer: int) -> tuple[Tensor, Tensor]:
        """See `SplitLM`."""
        return self._part(lambda: self._model.attend(x, cache, layer), fed=0 if layer else len(x), layer_rows=len(x))

    def feed(self, u: Tensor, layer: int) -> Tensor:
        """See `SplitLM`."""
        return self._part(lambda: self._model.feed(u, layer))

    def wait(self, compute: Callable[[], Any]) -> Any:
        """The value of `compute`, which waits until another process has computed a part of this model."""
        return self._part(compute)


KIND = Kind("split", SplitLM, CountedSplit, "tiny-mfa", role="target", of="causal")
