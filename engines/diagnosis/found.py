"""What a diagnosis holds."""

import re
from typing import Any

import msgspec

from engines.diagnosis.cost import Cost
from engines.diagnosis.loops import Match

RISE = 0.02  # share of a draft that makes a difference in what is accepted

KINDS = (
    ("digits", re.compile(r"\s*\d+\s*")),
    ("white space", re.compile(r"\s+")),
    ("code", re.compile(r"\s*[\[\](){}<>=+*/\\|&^%$#@~`;:_]+\s*")),
    ("punctuation", re.compile(r"\s*[^\w\s]+\s*")),
    ("name", re.compile(r"\s*[A-Z]\w*")),
    ("word", re.compile(r"\s+\w+")),
    ("inside a word", re.compile(r"\w+")),
)
"""Of the tokens that a target writes, as far as their texts tell."""


class Depth(msgspec.Struct, frozen=True):
    """What the drafts are worth at one depth: `places` looked at, `right` of them with the target's token first;
    `reached` of them with everything before it right, `accepted` of these right again. logp: mean log-probability of
    the target's token (nats); ranks: how often it is 1st, 2nd, 3rd, 4th to 10th, later, and not in the vocabulary;
    promised: mean probability that the drafter gives its own first token, which a sound one is right by."""

    depth: int
    places: int
    right: int
    reached: int
    accepted: int
    logp: float
    ranks: tuple[int, int, int, int, int, int]
    promised: float = 0.0

    @property
    def missing(self) -> float:
        """The share of what it promises at this depth that is not right."""
        return max(0.0, 1 - self.right / self.places / self.promised) if self.promised else 0.0


class Candidate(msgspec.Struct, frozen=True):
    """A token with its probability."""

    token: int
    text: str
    probability: float


class Parting(msgspec.Struct, frozen=True):
    """The first place where a draft's first token is not the target's: prompt number, position in the text, what stood
    before, and what both sides had."""

    prompt: int
    position: int
    before: str
    target: tuple[Candidate, ...]
    draft: tuple[Candidate, ...]


class Miss(msgspec.Struct, frozen=True):
    """First tokens of drafts by the kind of the target's token: of `places` of that kind `missed` were drafted wrongly.
    examples: the target's token and what was drafted in its place, the most frequent first."""

    kind: str
    places: int
    missed: int
    examples: tuple[tuple[str, str], ...]


class Tried(msgspec.Struct, frozen=True):
    """A slip that was turned. gain: mean log-probability (nats) more, from `low` to `high`; accepted: tokens a draft
    then, beside those now. state: "helps" where the interval lies above the margin and much of what was missing is
    accepted, or some of it by a drafter that is then as sure as it is right; "part" where it gains and does not explain
    what is missing; "worse" where the interval lies below zero, "same" where no logit changed, else "open". form: which
    of several turns of the slip."""

    name: str
    wrong: str
    state: str
    gain: float
    low: float
    high: float
    accepted: float
    before: float
    form: str = ""

    @property
    def label(self) -> str:
        """Its name, and the form where it was turned in several."""
        return f"{self.name}: {self.form}" if self.form else self.name


class Diagnosis(msgspec.Struct, frozen=True):
    """What came of it. accepted: drafted tokens kept a round, if a draft of `k` began at each place. surer: by how many
    nats the drafter is surer than it is right, where that is more than a sound one is; None elsewhere. command, date:
    of a record that is saved. cost: what a round takes here, None where it was not timed; loops: how much of a record's
    drafts each loop explains, where one was given."""

    target: str
    drafter: str
    format: str
    sha256: str
    k: int
    prompts: int
    tokens: int
    accepted: float
    depths: tuple[Depth, ...]
    partings: tuple[Parting, ...]
    misses: tuple[Miss, ...]
    tried: tuple[Tried, ...]
    notes: tuple[str, ...] = ()
    cost: Cost | None = None
    loops: tuple[Match, ...] = ()
    surer: float | None = None
    command: str = ""
    date: str = ""

    @property
    def slips(self) -> list[Tried]:
        """Those that help when they are turned, of which most is accepted first, each name once. One that gives back
        clearly less than the first is no other cause: it undoes a part of the same harm."""
        best: dict[str, Tried] = {}
        helping = [slip for slip in self.tried if slip.state == "helps"]
        for slip in sorted(helping, key=lambda slip: (-slip.accepted, -slip.gain)):
            if not best or next(iter(best.values())).accepted - slip.accepted < RISE * self.k:
                best.setdefault(slip.name, slip)
        return list(best.values())


def kind_of(tokenizer: Any, token: int) -> str:
    """Digits, a name (it begins with a capital), a word, the inside of one, punctuation, code, white space, a special
    token, or something else."""
    piece = tokenizer.piece(token)
    if piece.kind != "text":
        return str(piece.kind)
    return next((name for name, like in KINDS if like.fullmatch(piece.text)), "other")
