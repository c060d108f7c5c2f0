"""An election among continuations: their answers, their weights, and what several rules make of them."""

from __future__ import annotations

from collections.abc import Sized
from typing import Annotated

from msgspec import Meta

from engines.core.trace.base import Index, Record

Place = Annotated[int, Meta(ge=-1)]  # an index, -1 for none


class Mode(Record):
    """A part of a mixture of Weibull distributions: its share of the whole, shape and scale."""

    share: float
    shape: float
    scale: float


class Tally(Record):
    """What a rule makes of the voters. `shares` [n]: what each of them adds to its answer; `winner`: an index of the
    vote's answers; `confidence`: how sure the rule is of it, in [0, 1]; `tied`: another answer has as much.
    `running`: the winner after the first 1, 2, .. n voters, where that was counted."""

    rule: str
    shares: list[float]
    winner: Place = -1
    confidence: float = 0.0
    tied: bool = False
    running: list[Place] = []


class Vote(Record):
    """Voters are branches, by their ids in `voters` [n]. `answers`: the different ones in the order they were met;
    `of` [n]: which one a voter gives, -1 for none. `weights` [n]: what the model's own probability makes of it, `mean`
    over those with an answer. `copies` [n]: the place of an earlier voter with the same text, or -1. `high` [n]:
    membership of the first of the `modes`, where a mixture was fitted; `removed` [n]: who was pruned by it. `tallies`:
    one per rule, the one that decides first."""

    voters: list[Index]
    of: list[Place]
    answers: list[str]
    weights: list[float]
    tallies: list[Tally]
    mean: float = 0.0
    copies: list[Place] = []
    removed: list[bool] = []
    modes: list[Mode] = []
    high: list[float] = []

    def __post_init__(self) -> None:
        n = len(self.voters)
        lists: dict[str, Sized] = {"of": self.of, "weights": self.weights, **{t.rule: t.shares for t in self.tallies}}
        lists |= {k: v for k, v in (("copies", self.copies), ("removed", self.removed), ("high", self.high)) if v}
        if wrong := [name for name, values in lists.items() if len(values) != n]:
            raise ValueError(f"vote: {', '.join(wrong)} do not fit {n} voters")
        if max([*self.of, *(t.winner for t in self.tallies)], default=-1) >= len(self.answers):
            raise ValueError(f"vote: an answer beyond the {len(self.answers)} listed is named")
