"""Rounds of adaptive drafts over a text that is known, without decoding it: what a rule would have drafted in each
round, what of it would have been accepted, and what the round would have cost.

The text is greedy decoding's, so a drafted token is accepted exactly where the text has it. One thing needs the model:
the table learns from every row that is read, refused ones too. What is ranked highest behind such a row is asked once
and remembered, so that a rule finds nearly all of it answered by those before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from engines.core.row_costs import RowCosts
from engines.kit import torch
from engines.methods.speculative.adaptive_drafts import READ
from engines.methods.speculative.adaptive_drafts.bets import Acceptance, Path, bet
from engines.methods.speculative.adaptive_drafts.sources import LONGEST, Guess, SeenTable, TextCopy, ranked

Ranked = tuple[list[int], list[float]]  # the likeliest tokens behind a row, and their probabilities
MOST = 64  # rows of a forward that asks


@dataclass(frozen=True)
class Rule:
    """What may be drafted: from which sources, how many rows at most, how deep. bets: rows are weighed against their
    cost, as the method does; else as many are drafted as there are."""

    name: str
    copies: bool
    table: bool
    rows: int
    depth: int
    bets: bool = False


@dataclass(frozen=True)
class Round:
    """A round that begins behind `at` tokens: drafted rows, tokens that came, and its cost in forwards of one row; of
    the round that reads the prompt 1 and what its drafted rows add."""

    at: int
    taken: int
    came: int
    cost: float


class Known:
    """A finished text with all that its rounds depend on. ids: the prompt's tokens and the answer's; start: of the
    prompt; end: the length at which the answer would have been cut off."""

    def __init__(self, model: Any, ids: Sequence[int], start: int, end: int) -> None:
        self.ids, self.start, self.end = list(ids), start, end
        self.first = max(0, start - READ)  # nothing is learnt of the rows before
        self.ends: frozenset[int] = model.eos_ids
        self.branches = bool(getattr(model, "takes_trees", True))
        self.asked = 0  # forwards made for refused rows
        self._model = model
        self._known: dict[tuple[int, Path], Ranked] = {}
        with torch.inference_mode():
            self._cache = model.new_cache(len(ids) + MOST)
            if self.first:
                model.extend(self.ids[: self.first], self._cache, last_only=True)
            best, chances = ranked(model.extend(self.ids[self.first :], self._cache).logits)
        for at, row in enumerate(zip(best, chances, strict=True), self.first + 1):
            self._known[at, ()] = row

    def rows(self, at: int, paths: Sequence[Path]) -> list[Ranked]:
        """What is ranked highest behind each path below the text's first `at` tokens. Parents stand before children."""
        keys = [self._key(at, path) for path in paths]
        missing = [key for key in keys if key not in self._known]
        while missing:
            missing = missing[self._ask(missing) :]
        return [self._known[key] for key in keys]

    def _key(self, at: int, path: Path) -> tuple[int, Path]:
        """A row by where its path leaves the text: (tokens of the text before it, what is another than the text's)."""
        agree = 0
        while agree < len(path) and at + agree < len(self.ids) and path[agree] == self.ids[at + agree]:
            agree += 1
        return at + agree, path[agree:]

    def _ask_chain(self, at: int, path: Path) -> None:
        """All rows of a path, of a model whose rows cannot branch: what the text has in its place is read again."""
        self._cache.crop(at)
        with torch.inference_mode():
            best, chances = ranked(self._model.extend(list(path), self._cache).logits)
            self._cache.crop(at)
            if at < len(self.ids):
                self._model.extend(self.ids[at:], self._cache, last_only=True)
        self.asked += 1
        for n, row in enumerate(zip(best, chances, strict=True), 1):
            self._known[at, path[:n]] = row

    def _ask(self, keys: Sequence[tuple[int, Path]]) -> int:
        """One forward for as many of these rows as fit, their ancestors read again; how many it answered."""
        if not self.branches:
            self._ask_chain(*keys[-1])  # they are one path
            return len(keys)
        nodes: dict[tuple[int, Path], int] = {}
        answered = 0
        for at, path in keys:
            way = [(at, path[:n]) for n in range(1, len(path) + 1)]
            if len(nodes) + sum(node not in nodes for node in way) > MOST:
                break
            for node in way:
                nodes.setdefault(node, len(nodes))
            answered += 1
        text = len(self.ids) - self.first  # rows that are in the cache, as a chain
        parents = [text + nodes[at, path[:-1]] if len(path) > 1 else at - 1 - self.first for at, path in nodes]
        with torch.inference_mode():
            fed = [path[-1] for _, path in nodes]
            z = self._model.extend(fed, self._cache, parents=[*range(-1, text - 1), *parents]).logits
        self._cache.crop(len(self.ids))
        self.asked += 1
        self._known.update(zip(nodes, zip(*ranked(z), strict=True), strict=True))
        return answered


class Sources:
    """Both sources as they stand at the start of a round, and what they learn from one."""

    def __init__(self, text: Known, copies: bool, table: bool) -> None:
        self.text, self.read = text, text.first  # rows of the text before `read` were read
        self._copies = TextCopy(text.ids[: text.start]) if copies else None
        self._table = SeenTable() if table else None

    def guesses(self, context: Sequence[int]) -> list[Guess]:
        """What may follow."""
        return [*(self._copies.guesses(context) if self._copies else ()), *self._ranks(context)]

    def _ranks(self, context: Sequence[int]) -> list[Guess]:
        return self._table.guesses(context) if self._table else []

    def learn(self, at: int, came: int, paths: Sequence[Path] = ()) -> None:
        """A round behind `at` tokens drafted these paths, and `came` tokens came."""
        ids = self.text.ids
        if self._copies:
            self._copies.read(ids[at : at + came])
        if self._table:
            chain = [self.text.rows(end, [()])[0] for end in range(self.read + 1, at + 1)]
            rows = [*chain, *self.text.rows(at, paths)]
            tokens = [*ids[self.read : at], *(path[-1] for path in paths)]
            self._table.learn(tokens, [best for best, _ in rows], [chances for _, chances in rows])
        self.read = at + came - 1

    def costs(self, at: int, C: RowCosts, most: int) -> list[float]:
        """What a round behind `at` tokens costs with 0, 1 ... `most` drafted rows."""
        unread = at - self.read
        return [1 + C(unread + n) - C(unread) for n in range(most + 1)]


def replay(text: Known, rule: Rule, C: RowCosts) -> list[Round]:
    """The rounds that a rule would have made."""
    sources, a = Sources(text, rule.copies, rule.table), Acceptance()
    ids, at, rounds = text.ids, text.start, list[Round]()
    while at < len(ids):
        cost = sources.costs(at, C, rule.rows)
        chosen = bet(
            ids[:at],
            sources.guesses,
            a,
            cost if rule.bets else [1.0] * len(cost),
            depth=min(rule.depth, text.end - at - 1),
            branches=text.branches,
            ends=text.ends,
        )
        paths = chosen.paths[: chosen.taken]
        came = min(1 + accepted(paths, ids[at:]), len(ids) - at)
        for i in range(at, at + came):
            a.see(sources.guesses(ids[max(0, i - LONGEST) : i]), ids[i])
        if at + came < len(ids):  # else nothing is drafted from it
            sources.learn(at, came, paths)
        rounds.append(Round(at, chosen.taken, came, cost[chosen.taken]))
        at += came
    return rounds


def accepted(paths: Iterable[Path], continuation: Sequence[int]) -> int:
    """How many tokens of the text the drafted rows hold."""
    rows, n = set(paths), 0
    while n < len(continuation) and tuple(continuation[: n + 1]) in rows:
        n += 1
    return n


def foreseen(text: Known, C: RowCosts, rows: int, depth: int) -> list[Round]:
    """The cheapest rounds of one who knows the text and may draft what the sources guess: right rows alone, as many of
    them as make the whole run cheapest. Its table has learnt from the text's own rows only."""
    sources, ids, cost = Sources(text, True, True), text.ids, dict[int, list[float]]()
    for at in range(text.start, len(ids)):
        right = 0
        while right < min(rows, depth, text.end - at - 1) and at + right < len(ids):
            guessed = sources.guesses(ids[max(0, at + right - LONGEST) : at + right])
            if ids[at + right] not in {token for token, _ in guessed}:
                break
            right += 1
        cost[at] = sources.costs(at, C, right)
        sources.learn(at, 1)
    best: dict[int, tuple[float, int]] = {len(ids): (0.0, 0)}
    for at in reversed(cost):
        best[at] = min((c + best[min(at + n + 1, len(ids))][0], n) for n, c in enumerate(cost[at]))
    rounds, at = list[Round](), text.start
    while at < len(ids):
        n = best[at][1]
        came = min(n + 1, len(ids) - at)
        rounds.append(Round(at, n, came, cost[at][n]))
        at += came
    return rounds


def spent(rounds: Iterable[Round]) -> list[float]:
    """What had been spent when 1, 2 ... tokens stood, the cost of a round spread evenly over its tokens."""
    return list(accumulate(one.cost / one.came for one in rounds for _ in range(one.came)))
