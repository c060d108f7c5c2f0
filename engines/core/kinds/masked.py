"""Masked diffusion: a bidirectional model over a board with masks."""

from typing import Protocol, runtime_checkable

from engines.core.errors import UserError
from engines.core.kinds.base import Counted, Kind, KVCache, Model
from engines.core.lazy import Tensor
from engines.core.meter import Meter


@runtime_checkable
class MaskedLM(Model, Protocol):
    """Bidirectional model over a board with masks. Row i of its logits is the distribution of position i (any shift is
    done inside)."""

    mask_id: int

    def __call__(self, x: Tensor) -> Tensor:
        """x [L] -> logits [L, V], or [B, L] -> [B, L, V]. The mask token is never proposed: its logit is -inf."""


@runtime_checkable
class CachedMaskedLM(MaskedLM, Protocol):
    """A masked model that can be fed a part of the board on keys and values of earlier forwards: approximate ones, for
    they saw another board.

    shift: row i of the network predicts token i + 1; rows are moved one right inside what was fed, the first stays."""

    shift: bool

    def new_cache(self, capacity: int) -> KVCache:
        """A cache for boards of up to `capacity` positions. Raises UserError where the network cannot do it."""

    def feed(self, x: Tensor, cache: KVCache, start: int, end: int) -> Tensor:
        """Feed the positions start ... end - 1 of a board x [L]; their keys and values replace those in the cache.

        The positions left out count as what they were in the forward that last fed them; of a board that has become
        shorter, what stood behind it is forgotten. Returns logits [end - start, V]; row i is the distribution of
        position start + i. With `shift` and start > 0, row 0 keeps its own: its position's distribution stands before
        what was fed, so it should be decided. Raises ValueError for a part of a board that was not fed whole before."""


class CountedMasked(Counted):
    """A masked model seen through the meter."""

    mask_id: int

    def __init__(self, model: MaskedLM, role: str, meter: Meter) -> None:
        super().__init__(model, role, meter)
        self.shift = bool(getattr(model, "shift", False))

    def __call__(self, x: Tensor) -> Tensor:
        """See `MaskedLM`; forbidden tokens get -inf."""
        return self._allowed(self._call(x.numel(), lambda: self._model(x)), 0)

    def new_cache(self, capacity: int) -> KVCache:
        """See `CachedMaskedLM`. Raises UserError for a model that is none."""
        if not isinstance(self._model, CachedMaskedLM):
            raise UserError(
                f"{self.record.name} keeps no keys and values between forwards; set cache=none or choose a Llama- or "
                "Qwen-like masked model."
            )
        return self._model.new_cache(capacity)

    def feed(self, x: Tensor, cache: KVCache, start: int, end: int) -> Tensor:
        """See `CachedMaskedLM`; what is counted is end - start positions. Forbidden tokens get -inf."""
        return self._allowed(self._call(end - start, lambda: self._model.feed(x, cache, start, end)), start)


KIND = Kind("masked", MaskedLM, CountedMasked, "tiny-dlm", masked=True)
