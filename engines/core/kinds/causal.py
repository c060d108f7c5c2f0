"""Left to right: a model with a cache that a draft tree can be laid on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, runtime_checkable

from engines.core.kinds.base import Counted, Extended, Ids, Kind, KVCache, Model, Parents
from engines.core.meter import Meter
from engines.core.row_costs import KNOWN, RowCosts
from engines.core.trees import row_depths


@runtime_checkable
class CausalLM(Model, Protocol):
    """Left-to-right model with a cache that a draft tree can be laid on."""

    num_layers: int

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for up to `capacity` positions."""

    def extend(
        self,
        tokens: Ids,
        cache: KVCache,
        *,
        parents: Parents = None,
        hidden: Sequence[int] = (),
        last_only: bool = False,
    ) -> Extended:
        """Feed n tokens behind the cache, which then holds n more rows.

        parents: for a tree, the row index of each row's parent, -1 for a row that follows the text; None is a plain
        chain. A list longer than the tokens says that the tree's first rows lie behind the text in the cache already,
        from earlier calls, and gives their parents too. Row i sees the text, its ancestors and itself, at position
        (length of the text) + depth. last_only: logits [1, V] of the last row."""


class CountedCausal(Counted):
    """A causal model seen through the meter."""

    def beside(self, make: Callable[[Any], CausalLM], role: str) -> CountedCausal:
        """What `make` makes of this model itself, such as a draft on its embedding; its calls are booked under `role`,
        and tokens forbidden here are forbidden there."""
        return CountedCausal(make(self._model), role, self._meter)

    def unbooked(self) -> Self:
        """The same model for what is computed for the record alone: its calls count nowhere and are on no clock of the
        run. What an edit forbids holds there, too. Nothing may be decided by them."""
        return type(self)(self._model, self._role, Meter(forbidden=self._meter.forbidden))

    @property
    def takes_trees(self) -> bool:
        """Whether the rows of a forward may branch."""
        return bool(getattr(self._model, "takes_trees", True))

    @property
    def row_costs(self) -> RowCosts:
        """What a forward of n rows costs on this machine, for a method that asks for it (`MethodInfo.costs`). Raises
        RuntimeError for another."""
        if self._model not in KNOWN:
            raise RuntimeError("what rows cost is measured for a method that declares costs=True")
        return KNOWN[self._model]

    def extend(
        self,
        tokens: Ids,
        cache: KVCache,
        *,
        parents: Parents = None,
        hidden: Sequence[int] = (),
        last_only: bool = False,
    ) -> Extended:
        """See `CausalLM`; a row never proposes a token forbidden at the position it predicts."""
        past, n, tokens = cache.length, len(tokens), self._legible(tokens)
        early = len(parents) - n if parents is not None else 0  # rows of the tree that are in the cache already
        result: Extended = self._call(
            n, lambda: self._model.extend(tokens, cache, parents=parents, hidden=hidden, last_only=last_only)
        )
        depths = (list(range(n)) if parents is None else row_depths(parents)[early:])[-1 if last_only else 0 :]
        for row, depth in enumerate(depths) if self._meter.forbidden else ():
            self._allowed(result.logits[row : row + 1], past - early + depth + 1)
        return result


KIND = Kind("causal", CausalLM, CountedCausal, "tiny-ar-m", role="target")
