"""Where a budget of training is best spent (Scylla, arXiv:2505.07858): of each size of a draft the tokens that it buys
here, what its own line says of their acceptance, and the speed that follows.

speed = (1 - A^(gamma + 1)) / ((1 - A) (1 + gamma c)), the times of plain decoding: the expected tokens of a round over
its cost in forwards of the target. Letters: N a size, D tokens of training, A the share of first choices that are the
target's, c a step of the draft over a forward of the target, gamma drafted tokens of a round."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from engines.core.lazy import torch
from engines.core.study import Axis, Column, Figure, Series, Table
from engines.studies._scaling import Line

if TYPE_CHECKING:
    from engines.models.networks.sized_draft import SizedDraft

WINDOWS = range(1, 9)  # gamma
SPREAD = tuple(2.0**i for i in range(-6, 7))  # of the budgets in the figure, around the one that was asked for
ROWS, TOKENS, TURNS = 8, 64, 3  # of a timed step of training


@dataclass(frozen=True)
class Offer:
    """A size: its line A(log10 D), the trained tokens per second of this machine, c, and the longest training that the
    line has seen."""

    size: str
    line: Line
    tokens_per_s: float
    c: float
    seen: float

    def at(self, seconds: float) -> tuple[float, float, int, float]:
        """(D, A, gamma, speed) of the best window for so much training."""
        D = max(1.0, seconds * self.tokens_per_s)
        A = min(max(self.line.at(D), 0.0), 0.99)
        gamma = max(WINDOWS, key=lambda g: (speed(A, self.c, g), -g))
        return D, A, gamma, speed(A, self.c, gamma)


def speed(A: float, c: float, gamma: int) -> float:
    """Times of plain decoding; A below 1."""
    return (1 - A ** (gamma + 1)) / ((1 - A) * (1 + gamma * c))


def trained_per_second(drafts: Sequence[SizedDraft]) -> list[float]:
    """Tokens per second of a step of training (forward, backward, update) of each draft, in turns, the middle one. The
    drafts change meanwhile: give copies."""
    seconds: list[list[float]] = [[] for _ in drafts]
    updates = [torch.optim.AdamW(draft.requires_grad_(True).train().parameters(), lr=1e-4) for draft in drafts]
    ids = torch.full((ROWS, TOKENS), 20)
    for _ in range(TURNS + 1):  # the first one is slower: the optimiser makes its state
        for draft, update, mine in zip(drafts, updates, seconds, strict=True):
            began = time.perf_counter()
            update.zero_grad()
            draft(ids).logsumexp(-1).mean().backward()
            update.step()
            mine.append(time.perf_counter() - began)
    return [ROWS * TOKENS / median(mine[1:]) for mine in seconds]


def plan_table(offers: Sequence[Offer], seconds: float) -> Table:
    """What the budget buys with each size, and which one it is best spent on."""
    columns = [
        Column("draft", "", "given"),
        Column("trained", "tokens per second", "measured", 0),
        Column("D", "tokens", "derived", 0),
        Column("beyond the longest training", "times", "derived", 1),
        Column("A", "", "modelled", 3),
        Column("c", "", "measured", 3),
        Column("best γ", "tokens", "modelled"),
        Column("speed", "times plain", "modelled", 2),
        Column("chosen", "", "derived"),
    ]
    plans = {offer.size: offer.at(seconds) for offer in offers}
    chosen = max(plans, key=lambda size: plans[size][3])
    rows: list[list[Any]] = []
    for offer in offers:
        D, A, gamma, times = plans[offer.size]
        rows.append([offer.size, offer.tokens_per_s, D, D / offer.seen, A, offer.c, gamma, times, offer.size == chosen])
    note = (
        "A comes from the size's own line, at most 0.99; more than 1 in the fourth column is an extrapolation. The "
        "target's answers and their probabilities are not counted into the budget."
    )
    return Table("plan", f"What {seconds:g} seconds of training buy here", columns, rows, note=note)


def plan_figure(offers: Sequence[Offer], seconds: float) -> Figure:
    """The speed of each size by budget: which line is on top changes."""
    budgets = [seconds * part for part in SPREAD]
    lines = [Series(offer.size, budgets, [offer.at(s)[3] for s in budgets], "modelled") for offer in offers]
    across = Axis("training", "seconds", log=True)
    return Figure("plan", "Speed by seconds of training", across, Axis("times as fast as plain decoding"), lines)


def offers_of(
    drafts: Mapping[str, SizedDraft],
    lines: Mapping[str, Line],
    step_ms: Mapping[str, float],
    target_ms: float,
    D: float,
) -> list[Offer]:
    """What each size has to offer. drafts: the longest trained of each, which are changed; step_ms: a step of it,
    target_ms: a forward of the target on one row; D: tokens of the longest training."""
    rates = trained_per_second(list(drafts.values()))
    return [
        Offer(size, lines[size], rate, step_ms[size] / target_ms, D) for size, rate in zip(drafts, rates, strict=True)
    ]
