"""What STAND remembers and how it drafts (Song et al., arXiv:2506.04708): the distributions behind n-grams, and a draft
tree drawn from them by Gumbel-top-k.

Letters: K tokens stored behind a key, m rows, V vocabulary, q the draft distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from engines.kit import GuessSource, Tensor, children, distribution, row_depths, top_ids, torch
from engines.methods.speculative._verify import Draft


@dataclass
class Entry:
    """What is known behind a key: how many distributions were merged, and their mean on the largest entries."""

    count: int = 0
    distribution: dict[int, float] = field(default_factory=dict)

    def draft_distribution(self) -> tuple[list[int], Tensor]:
        """(the stored tokens by rising id, q [n]: their probabilities, renormalised), what is drawn from and verified
        with."""
        tokens = sorted(self.distribution)
        q = torch.tensor([self.distribution[x] for x in tokens], dtype=torch.float64)
        return tokens, q / q.sum()


class Store:
    """Distributions behind n-grams: a key of token ids -> Entry."""

    def __init__(self) -> None:
        self.entries: dict[tuple[int, ...], Entry] = {}

    def merge(self, key: tuple[int, ...], distribution: Mapping[int, float], K: int) -> None:
        """p <- k/(k+1) p + 1/(k+1) found, absent = 0; the K largest stay, equal ones by rising id; k <- k + 1."""
        entry = self.entries.setdefault(key, Entry())
        k = entry.count
        mean = {
            x: (k * entry.distribution.get(x, 0.0) + distribution.get(x, 0.0)) / (k + 1)
            for x in {**entry.distribution, **distribution}
        }
        entry.count, entry.distribution = k + 1, dict(sorted(mean.items(), key=lambda pair: (-pair[1], pair[0]))[:K])

    def learn(
        self,
        text: Sequence[int],
        first: int,
        distributions: Sequence[Mapping[int, float]],
        sizes: Sequence[int],
        K: int,
    ) -> None:
        """Merge the distribution behind each of the positions first, first + 1 ... of the text under its keys of all
        sizes;
        distributions: the K largest entries of each."""
        for end, probabilities in enumerate(distributions, first + 1):
            for n in sizes:
                if n <= end:
                    self.merge(tuple(text[end - n : end]), probabilities, K)

    def look_up(self, text: Sequence[int], sizes: Sequence[int]) -> tuple[int, Entry] | None:
        """(tokens of the key, entry) of the first suffix of the text that is known, in the order of `sizes`."""
        return next(
            ((n, self.entries[key]) for n in sizes if n <= len(text) and (key := tuple(text[-n:])) in self.entries),
            None,
        )


def largest(z: Tensor, temperature: float, K: int) -> list[dict[int, float]]:
    """The K largest entries of the distribution of each row of logits z [m, V] at the temperature, at 1 where it is
    0."""
    ids = top_ids(z, K)
    chances = distribution(z, temperature or 1.0).gather(-1, ids)
    return [
        {x: c for x, c in zip(*row, strict=True) if c > 0} for row in zip(ids.tolist(), chances.tolist(), strict=True)
    ]


class Hit(NamedTuple):
    """What was found behind a suffix of n tokens: the distributions merged so far, and their tokens with q [tokens]."""

    n: int
    count: int
    tokens: list[int]
    q: Tensor


@dataclass
class Grown:
    """A drafted tree: rows[i] is the template's row of row i, orders the key length found (0: none) for each row that
    was looked up, hits what was found."""

    draft: Draft
    rows: list[int]
    orders: dict[int, int]
    hits: dict[int, Hit]


def grow(
    store: Store,
    ids: Sequence[int],
    parents: Sequence[int],
    sizes: Sequence[int],
    *,
    vocab_size: int,
    noise: Callable[[int, int], Sequence[float]] | None,
    deepest: int,
) -> Grown:
    """Draft on the template, breadth first: at a node with c children the c largest of log q + Gumbel noise, q the
    distribution stored behind its path.

    noise(template row, n): n uniforms for the stored tokens by rising id; None takes the c most likely tokens, which
    are then deterministic candidates. Where nothing is stored, or fewer than c tokens, the nodes left and what hangs
    below them stay empty."""
    below, depths, longest = children(parents), row_depths(parents), max(sizes)
    grown = Grown(Draft(ids[-1], "ngram"), [0], {}, {})
    draft, place = grown.draft, {0: 0}
    for node in range(len(parents)):
        row = place.get(node)
        if row is None or not below[node] or depths[node] >= deepest:
            continue
        hit = store.look_up([*ids[-longest:], *draft.path(row)], sizes)
        grown.orders[row] = hit[0] if hit else 0
        if hit is None:
            continue
        tokens, q = hit[1].draft_distribution()
        grown.hits[row] = Hit(hit[0], hit[1].count, tokens, q)
        gumbel = (
            -(-torch.tensor(noise(node, len(tokens)), dtype=torch.float64).log()).log()
            if noise
            else torch.zeros_like(q)
        )
        ranked = (q.log() + gumbel).argsort(descending=True, stable=True).tolist()
        drawn: list[tuple[int, int]] = []  # row, its index in the entry
        for child, i in zip(below[node], ranked, strict=False):
            place[child] = draft.add(row, tokens[i], chance=float(q[i]))
            drawn.append((place[child], i))
            grown.rows.append(child)
        draft.traced.append(partial(_entry, [*ids[-longest:], *draft.path(row)][-hit[0] :], tokens, q, drawn))
        if noise:
            draft.distributions[row] = torch.zeros(vocab_size, dtype=torch.float64).scatter(0, torch.tensor(tokens), q)
    return grown


def _entry(
    key: list[int], tokens: Sequence[int], q: torch.Tensor, drawn: Sequence[tuple[int, int]]
) -> list[GuessSource]:
    """The entry of a suffix, the likeliest first, with the rows that were drawn from it."""
    order = q.argsort(descending=True, stable=True).tolist()
    return [GuessSource("table", "", key, [tokens[j] for j in order], [(row, order.index(i)) for row, i in drawn])]


def overlaps(text: Sequence[int], earlier: Sequence[Sequence[int]]) -> dict[str, float]:
    """Share of the text's 2- and 4-grams that stand in earlier texts; nothing for a first text."""
    shares = {}
    for n in (2, 4):
        known = {tuple(sample[i : i + n]) for sample in earlier for i in range(len(sample) - n + 1)}
        mine = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
        if earlier and mine:
            shares[f"overlap_{n}"] = sum(gram in known for gram in mine) / len(mine)
    return shares
