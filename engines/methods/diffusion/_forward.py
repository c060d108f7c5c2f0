"""Forwards of a masked board with the caches of Fast-dLLM (Wu et al., arXiv:2505.22618, "Key-Value Cache for Block-Wise
Decoding"), or without.

A bidirectional model has no exact cache: a new token changes the keys and values of every position. Fast-dLLM feeds the
whole board when a block begins and keeps its keys and values until the block is full. `prefix`: the forwards between
feed the block and everything behind it; what stands before the block is as old as its start. `dual`: they feed the
block alone, and what stands behind it is old as well.

Every forward writes its keys and values over those of the positions that it feeds, which is all that the official loops
do: `prefix` cuts the cache at the block and feeds the rest, `dual` replaces the block's rows. The first forward of a
block commits like any other.

Models that predict token i + 1 in row i need the row before the block. Fast-dLLM's loop for Dream does without it: the
block's first token is always taken from the forward that fills the cache, sure or not. Here the position before the
block is fed as well: one position more per forward, the rule of the method holds for all tokens, and no distribution is
older than its forward.

An edit can change a position that is not fed. Its keys and values are then those of another token, so the whole board
is fed again. Where a board is cut, what stood behind the cut is forgotten, and what is left stays as old as it was."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from engines.core.method import Decode, Method
from engines.kit import CachedMaskedLM, Choice, KVCache, MaskedLM, Param, Span, Tensor, max_new_tokens, method

CACHE = Choice(
    "cache",
    "none",
    ["none", "prefix", "dual"],
    help="Feed only the block and what follows (prefix) or the block alone (dual) on keys and values from the block's "
    "start: as many forwards, fewer tokens.",
    source="arXiv:2505.22618",
)


def unmasking(
    slug: str, *, params: Sequence[Param], emits: Collection[str] = (), **declared: Any
) -> Callable[[Decode], Method]:
    """`method` for one that fills the masks of a board. params: behind the length of the answer; emits: beside what all
    of them do."""
    return method(
        slug,
        needs="masked",
        params=[max_new_tokens(), *params],
        emits={"commits", "scores", "candidates", "spans", "note", *emits},
        **declared,
    )


def some(n: int, masks: int) -> str:
    """How many of the masks, in words: "2 of 6 masks", "1 of 1 mask"."""
    return f"{n} of {masks} mask{'' if masks == 1 else 's'}"


@dataclass
class Distributions:
    """What one forward says: z [end - start, V], row i the distribution of position start + i; the spans and the
    sentence that show what was fed."""

    z: Tensor
    start: int
    end: int
    spans: list[Span] = field(default_factory=list)
    note: str = ""


class Forward:
    """The forwards of one run: `forward(x, masks, block, kind)`. Holds the cache and what each position was when it was
    last fed."""

    def __init__(self, model: MaskedLM) -> None:
        self._model = model
        self._shift = int(getattr(model, "shift", False))
        self._cache: KVCache | None = None
        self._seen: Tensor | None = None  # [L]
        self._block: int | None = (
            None  # the start of the block that filled the cache; its end may move, where the board is cut
        )

    def __call__(self, x: Tensor, masks: Tensor, block: tuple[int, int], kind: str) -> Distributions:
        """Distributions of at least the masks before the block's end. x [L]; masks [m] rising; block [a, b); kind none,
        prefix or dual.

        Raises UserError where the model keeps no keys and values.
        """
        if kind == "none":
            self._block = None
            return Distributions(self._model(x), 0, len(x))
        begun, a, end = self._block == block[0], block[0], block[1] if kind == "dual" else len(x)
        if begun and not self._changed(x, a, end):
            first = min(a, int(masks[0])) if len(masks) else a  # a mask before the block: an edit put it there
            start = max(0, first - self._shift)
            return self._feed(
                x, start, end, kind, f"{end - start} of {len(x)} positions are fed, the others come from the cache."
            )
        self._block = a
        why = "A position in the cache was changed" if begun else "A block begins"
        return self._feed(x, 0, len(x), kind, f"{why}: the whole board is fed and fills the cache.")

    def _changed(self, x: Tensor, a: int, end: int) -> bool:
        """Whether a position outside [a, end) is no longer what it was when it was fed."""
        assert self._seen is not None
        return bool((x[:a] != self._seen[:a]).any() or (x[end:] != self._seen[end : len(x)]).any())

    def _feed(self, x: Tensor, start: int, end: int, kind: str, note: str) -> Distributions:
        assert isinstance(self._model, CachedMaskedLM)
        if self._cache is None or self._seen is None:
            self._cache, self._seen = self._model.new_cache(len(x)), x.clone()
        z = self._model.feed(x, self._cache, start, end)
        self._seen[start:end] = x[start:end]
        old = [Span("cache", s, e, kind) for s, e in ((0, start), (end, len(x))) if s < e]
        return Distributions(z, start, end, [Span("fed", start, end, kind), *old], " " + note)
