"""Left to right with power-law graph attention: each layer weighs queries and keys by a matrix G that a deep network
makes of the text, or by one that is given.

Shapes: L layers, n rows fed, h heads of size d, V vocabulary."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from engines.core.kinds.base import Counted, Ids, Kind, KVCache, Model
from engines.core.lazy import Tensor


@dataclass
class Deduced:
    """A forward: logits [1, V] of the last row, or [n, V]; A_LM and G_LM [L, h, d, d], A_LM None where G was given.
    began, ended: its time on `time.perf_counter`; operator_seconds: of that, what went into making G."""

    logits: Tensor
    A_LM: Tensor | None
    G_LM: Tensor
    began: float
    ended: float
    operator_seconds: float


@runtime_checkable
class PowerLawLM(Model, Protocol):
    """A decoder whose attention is q G k^T. A cache holds keys, values, and A of every layer from its first rows on;
    `position_bytes` is what keys and values of one position take, `operator_bytes` what one set of G takes."""

    num_layers: int
    position_bytes: int
    operator_bytes: int

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for up to `capacity` positions."""

    def forward(
        self, tokens: Ids, cache: KVCache | None = None, G: Tensor | None = None, *, last_only: bool = True
    ) -> Deduced:
        """Feed n tokens behind the cache, which then holds n more rows; without one they are the whole text. Without G
        it is made of the rows fed, or of the cache's A, which an earlier call left there."""


class CountedPowerLaw(Counted):
    """Such a model seen through the meter."""

    operator_bytes: int

    def forward(self, tokens: Sequence[int], cache: KVCache | None = None, G: Tensor | None = None) -> Deduced:
        """See `PowerLawLM`; the last row never proposes a token forbidden at the position it predicts."""
        past = cache.length if cache is not None else 0
        result: Deduced = self._call(len(tokens), lambda: self._model.forward(tokens, cache, G))
        self._allowed(result.logits, past + len(tokens))
        return result

    def beside(self, tokens: Sequence[int]) -> Deduced:
        """A forward of a whole text for the record, to compare with: on no clock but the recording's."""
        result: Deduced = self._model.forward(tokens)
        self._allowed(result.logits, len(tokens))
        return result


KIND = Kind("power-law", PowerLawLM, CountedPowerLaw, "tiny-pldr", role="target")
