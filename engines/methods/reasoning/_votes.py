"""Answers of sampled texts, and the rules that choose one: counting (self-consistency), the most likely text
(perplexity), sums of probabilities (perplexity consistency), and those without the improbable mode (RPC,
arXiv:2502.00511, 2510.15444; official `compute_rpc.py`, `compute_sc.py`)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from engines.core.trace import Detail, Index, Probability, Record
from engines.tools.weibull import Mixture, fit

RULES = ("RPC", "perplexity consistency", "self-consistency", "perplexity")
NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:/\d+)?"
MARKS = (r"#\s*([^\s;#$]+)", r"\\boxed\{([^{}]*)\}", r"(?i:answer)(?:\s+is)?\s*:?\s*(" + NUMBER + ")")

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
    confidence: Probability = 0.0
    tied: bool = False
    running: list[Place] = []


class Vote(Record):
    """A vote among sampled texts: their answers, their weights, and what several rules make of them.

    Voters are branches, by their ids in `voters` [n]. `answers`: the different ones in the order they were met;
    `of` [n]: which one a voter gives, -1 for none. `weights` [n]: what the model's own probability makes of it, `mean`
    over those with an answer. `copies` [n]: the place of an earlier voter with the same text, or -1. `high` [n]:
    membership of the first of the `modes`, where a mixture was fitted; `removed` [n]: who was pruned by it. `tallies`:
    one per rule, the one that decides first. `whole`: a weight is the probability with which its whole text is drawn,
    so that the weights of different texts add up."""

    KEPT_FROM: ClassVar[Detail] = "light"

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
    whole: bool = False

    def beside(self) -> tuple[list[int], list[str]]:
        """As `engines.texts_beside` asks: the answers, each of which a picture marks."""
        return [], self.answers


def answer_of(text: str, where: str) -> str:
    """The answer that a text gives, "" for none. where: marked (behind the last #, in \\boxed{}, behind "answer"), last
    number, last line; auto takes the first of these that there is."""
    marked = next((matches[-1].strip() for mark in MARKS if (matches := re.findall(mark, text))), "")
    number = next(iter(re.findall(NUMBER, text)[-1:]), "")
    line = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    answer = {"marked": marked, "last number": number, "last line": line, "auto": marked or number or line}[where]
    return answer.rstrip(".,")


def same(answer: str) -> Fraction | str:
    """What is equal for equal answers: the value of a number, so that 0.5 and 1/2 are one; else the text in small
    letters."""
    try:
        return Fraction(answer.replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return " ".join(answer.lower().split())


@dataclass(frozen=True)
class Voter:
    """A sampled text: its branch, answer ("" for none) and l = log P, the mean or the sum of log p over its tokens."""

    id: int
    text: str
    answer: str
    l: float  # noqa: E741 (the paper's letter)


class Ballot:
    """n voters with all that the rules need. Those without an answer take no part, in the fit neither."""

    def __init__(self, voters: Sequence[Voter]) -> None:
        n, names, keys, texts = len(voters), list[str](), dict[Fraction | str, int](), dict[str, int]()
        self.voters, self.answers, self.of, self.copies = voters, names, [-1] * n, [-1] * n
        for i, voter in enumerate(voters):
            if voter.answer:
                self.of[i] = keys.setdefault(same(voter.answer), len(names))
                if self.of[i] == len(names):
                    names.append(voter.answer)
                first = texts.setdefault(voter.text, i)
                self.copies[i] = first if first != i else -1
        self.P = np.exp([voter.l for voter in voters])  # [n]
        entitled = np.array([of >= 0 for of in self.of], dtype=bool)
        given = self.P[entitled]
        self.mean = float(given.mean()) if len(given) else 0.0
        self.mixture: Mixture | None = fit(given)
        self.high = [1.0] * n
        if self.mixture:
            memberships = iter(self.mixture.high(given).tolist())
            self.high = [next(memberships) if counts else 1.0 for counts in entitled]
        self.removed = [
            bool(of >= 0 and 1 - high > high and self.mean > P)
            for of, high, P in zip(self.of, self.high, self.P, strict=True)
        ]

    def shares(self, rule: str) -> list[float]:
        """What each voter adds to its answer. A text sampled twice counts once, but in self-consistency."""
        counts = [of >= 0 and copy < 0 for of, copy in zip(self.of, self.copies, strict=True)]
        if rule == "self-consistency":
            return [float(of >= 0) for of in self.of]
        if rule == "perplexity":
            best = max((i for i, of in enumerate(self.of) if of >= 0), key=lambda i: self.P[i], default=-1)
            return [float(P) if i == best else 0.0 for i, P in enumerate(self.P)]
        if rule == "RPC" and any(counted and not gone for counted, gone in zip(counts, self.removed, strict=True)):
            counts = [counted and not gone for counted, gone in zip(counts, self.removed, strict=True)]
        return [float(P) if counted else 0.0 for P, counted in zip(self.P, counts, strict=True)]

    def scores(self, rule: str) -> list[float]:
        """The sum of the shares of each answer; of perplexity the best of its texts."""
        sums = [0.0] * len(self.answers)
        if rule == "perplexity":
            for of, P in zip(self.of, self.P, strict=True):
                if of >= 0:
                    sums[of] = max(sums[of], float(P))
            return sums
        for of, share in zip(self.of, self.shares(rule), strict=True):
            if of >= 0:
                sums[of] += share
        return sums

    def tally(self, rule: str) -> Tally:
        """Who wins by a rule; of equal scores the answer met first. The confidence of perplexity is the probability
        that it goes by, that of the others the winner's part of all."""
        scores = self.scores(rule)
        best = max(scores, default=0.0)
        if not scores or best <= 0:
            return Tally(rule, [0.0] * len(self.voters))
        near = [i for i, score in enumerate(scores) if score >= best * (1 - 1e-12)]
        sure = best if rule == "perplexity" else best / sum(scores)
        return Tally(rule, self.shares(rule), near[0], min(1.0, sure), len(near) > 1)

    def record(self, rule: str, running: bool = True, whole: bool = False) -> Vote:
        """The group of a step, with the rule that decides first. running: also who wins after the first 1 .. n voters;
        answers keep their places, as they are met in this order. whole: see `Vote`."""
        modes = list[Mode]()
        if (m := self.mixture) is not None:
            modes = [Mode(m.w, m.k[0], m.lam[0]), Mode(1 - m.w, m.k[1], m.lam[1])]
        tallies = [self.tally(rule_name) for rule_name in (rule, *(other for other in RULES if other != rule))]
        for m in range(1, len(self.voters) + 1) if running else ():
            first = Ballot(self.voters[:m])
            for tally in tallies:
                tally.running.append(first.tally(tally.rule).winner)
        return Vote(
            voters=[voter.id for voter in self.voters],
            of=self.of,
            answers=self.answers,
            weights=[float(P) for P in self.P],
            tallies=tallies,
            mean=self.mean,
            copies=self.copies,
            removed=self.removed,
            modes=modes,
            high=self.high,
            whole=whole,
        )
