"""The draft tree of a round: how many tokens a draft of n rows is expected to bring, over what n rows cost here.

Letters: a(key) the chance that a guess is accepted where its parent was, E(n) the expected tokens of a round that
drafts the n most promising rows, 1 + the sum of their chances to be reached, C(n) the cost of 1 + n rows in forwards of
one row (in the round that reads the prompt: 1 + what the n rows add). The round takes the n with the largest
E(n) / C(n); one plain row has 1.

A draft model guesses for a price, so it is asked about one row at a time, and only where that pays: where the tokens
that its guess adds cost less than the best tree so far, one more row included. They are the chance that the row is
reached, that nobody else is right there, and that it then is. What it was asked for is spent, whichever size is
taken."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import prod
from typing import TYPE_CHECKING

from engines.kit import Record
from engines.methods.speculative.adaptive_drafts.sources import LONGEST, Guess, Key

if TYPE_CHECKING:
    from engines.methods.speculative.adaptive_drafts.draft_model import DraftModel

Path = tuple[int, ...]  # tokens below the root
Guesses = Callable[[Sequence[int]], Sequence[Guess]]  # context -> what may follow it

LEAST = 0.02  # chance of being reached below which no row is drafted
WEIGHT = 8.0  # observations that the chances below count for
# a(key) on 14 prompts that do not ship, SmolLM2-135M-Instruct, 96 tokens each: where a run begins
BEFORE: dict[Key, float] = {
    **{("text", i): a for i, a in enumerate((0.09, 0.2, 0.55, 0.7, 0.7, 0.7, 0.8, 0.9))},
    **{("store", i): a for i, a in enumerate((0.01, 0.01, 0.01, 0.02, 0.08, 0.14, 0.21, 0.65, 0.84))},
    **{("draft", i): a for i, a in enumerate((0.01, 0.02, 0.03, 0.06, 0.14, 0.28, 0.58, 0.78, 0.91))},
    **{("table", i): a for i, a in enumerate((0.02, 0.03, 0.04, 0.06, 0.14, 0.23, 0.34, 0.49, 0.34))},
}
WORTH = 0.32  # the draft model's chance where no other source is right, there, too


class HitRate(Record):
    """At how many places of the text a source had a guess, and at how many of them the right one."""

    source: str
    right: int
    places: int


class TreeChoice(Record):
    """What a round could draft and what it took: expected tokens and cost, in forwards of one row, of 0, 1, 2 ...
    drafted rows; what came; and the account of the whole run."""

    expected: list[float]
    cost: list[float]
    taken: int
    came: int
    gained: int  # tokens since the prompt was read
    spent: float  # for them, in forwards of one row; a plain run would have spent `gained`
    odds: list[HitRate]


class Acceptance:
    """a(key), counted over what every source would have guessed at each place of the text, drafted or not: a look at
    what came costs nothing, so nothing has to be tried out."""

    def __init__(self) -> None:
        self.seen: dict[Key, list[int]] = {}  # key -> right, wrong
        self.places: dict[str, int] = {}  # source -> places where it guessed
        self.alone = [0, 0]  # places where no guess for nothing was right: how often the draft model was, and was not

    def observe(self, guesses: Sequence[Guess], token: int) -> bool:
        """What came where these were the guesses. Returns whether one of them was right."""
        for guess, key in guesses:
            self.seen.setdefault(key, [0, 0])[guess != token] += 1
        for source in {key[0] for _, key in guesses}:
            self.places[source] = self.places.get(source, 0) + 1
        return any(guess == token for guess, _ in guesses)

    def chance(self, key: Key) -> float:
        """The mean of a(key)."""
        right, wrong = self.seen.get(key, (0, 0))
        return (right + WEIGHT * BEFORE[key]) / (right + wrong + WEIGHT)

    @property
    def worth(self) -> float:
        """The chance that the draft model is right where nobody else is."""
        right, wrong = self.alone
        return (right + WEIGHT * WORTH) / (right + wrong + WEIGHT)

    def odds(self, source: str) -> HitRate:
        """The counts of one source, all its classes together."""
        right = sum(n for key, (n, _) in self.seen.items() if key[0] == source)
        return HitRate(source, right, self.places.get(source, 0))


@dataclass
class DraftTree:
    """The rows of a round, the most promising first: of each its path, its chance to be reached and the source of its
    token; E(n), C(n) for n = 0, 1, ...; how many are taken."""

    paths: list[Path] = field(default_factory=list)
    chances: list[float] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    expected: list[float] = field(default_factory=lambda: [1.0])
    cost: list[float] = field(default_factory=list)
    taken: int = 0
    queries: int = 0  # rows that the draft model was asked about

    def add_cost(self, price: float) -> None:
        """Something was spent, whatever is taken."""
        self.cost = [cost + price for cost in self.cost]
        self.queries += 1
        self.taken = max(range(len(self.cost)), key=self.tokens_per_cost)

    def tokens_per_cost(self, n: int) -> float:
        """Expected tokens over the cost of n rows."""
        return self.expected[n] / self.cost[n]


def choose_tree(
    end: Sequence[int],
    guesses: Guesses,
    a: Acceptance,
    cost: Sequence[float],
    *,
    depth: int,
    branches: bool = True,
    ends: Collection[int] = (),
    draft_model: DraftModel | None = None,
) -> DraftTree:
    """Grow the tree below the text's end where a row is most likely to be reached, and take the part of it that has the
    most expected tokens for its cost. cost: C(0), C(1) ... C(most). depth: of the rows at most. branches: whether rows
    may have siblings. ends: tokens that nothing follows. draft_model: a source that has a price.

    The chance of a row is never above that of its parent, so the best n rows are always a tree."""
    tree, most = DraftTree(cost=[cost[0]]), len(cost) - 1
    heap: list[tuple[float, Path, str]] = []

    def expand(path: Path, chance: float) -> None:
        here, left = list(guesses([*end, *path][-LONGEST:])), 1.0
        if draft_model and worth_asking(draft_model, path, chance * miss_probability(here, a) * a.worth, tree, cost):
            tree.add_cost(draft_model.price(path))
            here += draft_model.guesses(path)
        for token, share, source in shares(here, a):
            reached = chance * share * left  # one that is right leaves nothing to the others
            left *= 1 - share
            if reached < LEAST:
                break
            heappush(heap, (-reached, (*path, token), source))
            if not branches:
                break

    if most and depth:
        expand((), 1.0)
    while heap and len(tree.paths) < most:
        negative, path, source = heappop(heap)
        tree.paths.append(path)
        tree.chances.append(-negative)
        tree.sources.append(source)
        n, paid = len(tree.paths), tree.cost[0] - cost[0]
        tree.expected.append(tree.expected[-1] - negative)
        tree.cost.append(cost[n] + paid)
        if tree.tokens_per_cost(n) > tree.tokens_per_cost(tree.taken):
            tree.taken = n
        best = tree.tokens_per_cost(tree.taken)
        if all((tree.expected[-1] - negative * (m - n)) / (cost[m] + paid) <= best for m in range(n + 1, most + 1)):
            break  # even rows as likely as this one would not pay
        if len(path) < depth and path[-1] not in ends:
            expand(path, -negative)
    return tree


def shares(guesses: Sequence[Guess], a: Acceptance) -> list[tuple[int, float, str]]:
    """The different tokens among guesses with the largest chance that one of their sources gives them, and that source;
    the likeliest first."""
    best: dict[int, tuple[float, str]] = {}
    for token, key in guesses:
        best[token] = max(best.get(token, (0.0, "")), (a.chance(key), key[0]))
    return sorted(((token, *chance) for token, chance in best.items()), key=lambda share: (-share[1], share[0]))


def miss_probability(guesses: Sequence[Guess], a: Acceptance) -> float:
    """The chance that none of these guesses is right."""
    return prod(1 - share for _, share, _ in shares(guesses, a))


def worth_asking(draft_model: DraftModel, path: Path, gain: float, tree: DraftTree, cost: Sequence[float]) -> bool:
    """Whether to ask: the tokens gained are more than the best tree so far has for the price and a row more, or it has
    not been heard for so long that nothing is known of it."""
    row = cost[min(tree.taken + 1, len(cost) - 1)] - cost[tree.taken]
    return gain > (draft_model.price(path) + row) * tree.tokens_per_cost(tree.taken) or (
        not path and draft_model.overdue
    )
