"""Tokens written in a step."""

from __future__ import annotations

from engines.core.trace.base import Index, Record


class Commits(Record):
    """Tokens written in this step, one entry per position, in the order in which they were decided.

    `causes`: threshold, top1, quota, factor, random, boosted, greedy, sampled, accepted, correction (the target's
    own token after a refusal), bonus (that behind a draft accepted whole), forced, remasked, withdrawn, cut ...
    `authors`: who proposed each token: a model's role (target, draft, small, model ...), retrieval,
    ngram, matrix, filter, credit, person ...; empty where no one was recorded. `probabilities`: what the deciding
    distribution gave the token; None where there was none. A remasked position holds the mask id. A -1 ends the board:
    nothing is there or behind it any more (a causal run that an edit cut back, a masked board that the method cut off).
    """

    positions: list[Index]
    tokens: list[int]
    causes: list[str]
    probabilities: list[float | None] = []
    authors: list[str] = []

    def __post_init__(self) -> None:
        n = len(self.tokens)
        optional = (len(self.probabilities), len(self.authors))
        if not len(self.positions) == n == len(self.causes) or any(found not in (0, n) for found in optional):
            raise ValueError(
                f"commits: {len(self.positions)} positions, {n} tokens, {len(self.causes)} causes, {optional[0]} "
                f"probabilities and {optional[1]} authors must be equally many"
            )
