"""What Mirror-SD (arXiv:2510.13161) sends between target and draft, and what the draft prepares from it.

Letters: gamma tokens of a window, kappa guesses for each of its gamma + 1 rows, M branches of at most gamma tokens, J
internal steps of the draft, A accepted tokens, V vocabulary."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from typing import Any, NamedTuple

from msgspec.structs import replace

from engines.kit import Branch, Interval, Recorder, Tensor, top_ids
from engines.methods.speculative._verify import Verdict

WIDEST, LONGEST = 16, 8  # kappa and gamma
ROWS = (LONGEST + 1) * (1 + WIDEST * LONGEST)  # of the draft's cache, beside the text
FRESH, LOWER, EXIT, UPPER, BRANCHES, END = range(6)  # the stages of a step, as they stand on two devices
ON_DRAFT = (FRESH, BRANCHES)


def channel(z: Tensor, kappa: int) -> tuple[Tensor, Tensor]:
    """What the early exit sends (equation 7): of logits z [n, V] the kappa likeliest tokens [n, kappa], best first, the
    lower id first where equal, and their log-probabilities."""
    tokens = top_ids(z, kappa)
    return tokens, z.log_softmax(-1).gather(-1, tokens)


def overlap(q: Tensor, tokens: Tensor) -> Tensor:
    """Omega [n]: the target's probability q [n, V] of all tokens [n, kappa] in the channel together (equation 9). What
    is missing to 1 bounds how often a drawn token is not among them."""
    return q.gather(-1, tokens).sum(-1)


def internal_steps(gamma: int, emitted: Iterable[int]) -> int:
    """J: the first internal step of the draft at which it has emitted gamma tokens, given how many each step emits.
    Without lookahead streams each emits one."""
    return next(J for J, total in enumerate(accumulate(emitted), 1) if total >= gamma)


def reused(paths: Sequence[Sequence[int]], corrected: Sequence[int]) -> int | None:
    """Which path of the hypotheses begins with the accepted tokens and the correction, and goes on behind them the
    farthest (section 3.1); None: a fresh draft is needed."""
    n = len(corrected)
    matching = [i for i, path in enumerate(paths) if list(path[:n]) == list(corrected)]
    return max(matching, key=lambda i: len(paths[i]), default=None)


@dataclass
class Stages:
    """When the stages of a step ran, by `time.perf_counter`: (stage, what, which of them, began, ended)."""

    parts: list[tuple[int, str, int | str, float, float]] = field(default_factory=list)

    @contextmanager
    def during(self, stage: int, kind: str, mark: int | str = "") -> Iterator[None]:
        """A part of a stage; it may run in a thread of its own."""
        began = time.perf_counter()
        yield
        self.parts.append((stage, kind, mark, began, time.perf_counter()))

    def intervals(self, run: Recorder, modelled: bool) -> list[Interval]:
        """The parts where they ran, measured; with `modelled` also where they would stand if the draft had a device of
        its own: a fresh draft before the target, branches beside its upper layers, the rendezvous behind both. No cost
        of communication."""
        ordered = sorted(self.parts)
        measured = [
            interval
            for stage, kind, mark, began, ended in ordered
            for about in ({"mark": mark} if mark else {},)
            for interval in run.interval(
                "draft" if stage in ON_DRAFT else "target", began, ended, f"{kind} {mark}".strip(), about, kind
            )
        ]
        if not (modelled and measured):
            return measured
        zero = min(interval.start for interval in measured)
        free = {"device 1": zero, "device 2": zero}  # when each of them is
        laid = list[Interval]()
        for part, (stage, *_) in zip(measured, ordered, strict=True):
            if stage in (LOWER, END):  # these wait for both
                free = dict.fromkeys(free, max(free.values()))
            device = "device 2" if stage in ON_DRAFT else "device 1"
            start, free[device] = free[device], free[device] + part.end - part.start
            laid.append(replace(part, track=device, start=start, end=free[device], measured=False))
            if stage == EXIT:  # what it says goes to the draft, which can begin
                free["device 2"] = free["device 1"]
        return measured + laid


class Hypothesis(NamedTuple):
    """A branch: the window's first `at` tokens, a guess for the next one, and what the draft writes behind that. rows:
    of the guess and what follows, as far as they were fed, counted from the first row of the draft's tree."""

    at: int
    tokens: list[int]
    rows: list[int]
    chance: float


class Rollouts:
    """The draft's side: its cache, fresh windows, and windows for every hypothesis at once."""

    def __init__(self, model: Any, end: int, vocab_size: int) -> None:
        """end: tokens that the text may have in all. vocab_size: the target's."""
        self.model, self.vocab_size, self.end = model, vocab_size, end
        self.cache = model.new_cache(end + ROWS)
        self.base = self.made = 0  # the text's rows below the tree; hypotheses of the rounds before this one
        self.kept = -1  # the number of the hypothesis that the window came from
        self.grown: list[Hypothesis] = []

    def fresh(self, ids: Sequence[int], gamma: int, stages: Stages) -> list[int]:
        """The window of gamma first choices behind the text, one forward each."""
        text, self.kept = list(ids), -1
        self.cache.crop(min(self.cache.length, len(ids) - 1))
        for j in range(internal_steps(gamma, repeat(1)) if gamma else 0):
            with stages.during(FRESH, "fresh", j + 1):
                z = self.model.extend(text[self.cache.length :], self.cache, last_only=True).logits
                text.append(int(z[0, : self.vocab_size].argmax()))
        return text[len(ids) :]

    def worth(self, ids: Sequence[int]) -> bool:
        """Whether a window behind the first guess could still be used."""
        return len(ids) + 1 < self.end - 1

    def grow(
        self, ids: Sequence[int], window: Sequence[int], sent: tuple[Tensor, Tensor], gamma: int, s: Stages
    ) -> None:
        """Roll out the draft's first choices behind every guess: tokens and log-probabilities [n, kappa] of the
        channel, row j behind the window's first j tokens. One forward for each token that the branches grow by; none
        grows past the end of the answer."""
        self.cache.crop(min(self.cache.length, len(ids) + len(window)))
        self.base = b = min(self.cache.length, len(ids) - 1)
        text = [*ids, *window]
        parents, fed = list(range(-1, len(text) - b - 1)), text[self.cache.length :]
        self.grown = []
        for j, (tokens, chances) in enumerate(zip(*(tensor.tolist() for tensor in sent), strict=True)):
            if self.worth(text[: len(ids) + j]):
                self.grown += [Hypothesis(j, [v], [], c) for v, c in zip(tokens, chances, strict=True)]
        growing = self.grown
        for step in range(internal_steps(gamma, repeat(1)) if growing else 0):
            growing = [branch for branch in growing if self.worth(text[: len(ids) + branch.at] + branch.tokens[1:])]
            if not growing:
                break
            with s.during(BRANCHES, "branches", step + 1):
                for branch in growing:
                    fed.append(branch.tokens[-1])
                    parents.append(branch.rows[-1] if branch.rows else len(ids) - 1 + branch.at - b)
                    branch.rows.append(len(parents) - 1)
                z = self.model.extend(fed, self.cache, parents=list(parents)).logits[-len(growing) :]
                for branch, token in zip(growing, z[:, : self.vocab_size].argmax(-1).tolist(), strict=True):
                    branch.tokens.append(token)
                fed = []

    def settle(self, ids: Sequence[int], window: Sequence[int], verdict: Verdict) -> int | None:
        """Which hypothesis holds what was accepted and the token behind it, with something to go on; the cache keeps
        its rows, or those of the accepted tokens alone."""
        A = len(verdict.path) - 1
        kept, corrected = list(range(len(ids) - self.base + A)), [*window[:A], verdict.emitted]
        paths = [[*window[: branch.at], *branch.tokens] for branch in self.grown]
        best = reused(paths, corrected) if verdict.emitted >= 0 else None
        if best is not None and len(paths[best]) > len(corrected):
            branch = self.grown[best]
            kept = [*range(len(ids) - self.base + branch.at), *branch.rows]
        else:
            best = None
        if self.grown:
            self.cache.keep(self.base, kept)
        return best

    def window(self, best: int | None, accepted: int) -> list[int]:
        """What a hypothesis goes on with behind the accepted tokens and its guess; none without one."""
        return [] if best is None else self.grown[best].tokens[accepted - self.grown[best].at + 1 :]

    def facts(self, best: int | None, accepted: int) -> dict[str, float]:
        """How many branches grew, in how many forwards, of how many tokens behind their guesses; of these, what the
        next round uses and what nobody does."""
        tokens, used = sum(len(branch.tokens) - 1 for branch in self.grown), len(self.window(best, accepted))
        steps = max((len(branch.tokens) - 1 for branch in self.grown), default=0)
        return {
            "branches": len(self.grown),
            "draft_steps": steps,
            "branch_tokens": tokens,
            "reused": used,
            "wasted": tokens - used,
        }

    def branches(self, before: int, best: int | None) -> list[Branch]:
        """For the record, behind `before` tokens of text: every hypothesis under a number of its own, below the one
        that this window came from."""
        numbered = [
            Branch(
                self.made + i,
                self.kept,
                branch.tokens,
                before + branch.at + len(branch.tokens),
                {"log p": round(branch.chance, 4)},
                "chosen" if i == best else "pruned",
            )
            for i, branch in enumerate(self.grown)
        ]
        self.kept, self.made = (-1 if best is None else self.made + best), self.made + len(numbered)
        return numbered
