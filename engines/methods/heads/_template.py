"""What heads rank, and draft trees of fixed shape whose nodes are filled with these guesses, one head per depth.

A path is a tuple of ranks: (0, 2) is the third guess of the second head below the first guess of the first. Medusa
(2401.10774, sections 2.1.2 and 2.3.3: the sparse tree from measured accuracies) and PPD (2405.18628) use them;
children of different parents at one depth share their candidates.

Letters: a[d][r] the measured chance that guess r of head d is right, n nodes without the root or rows, v tokens of
the draft vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any

from engines.kit import GuessSource, Probability, Record, Tensor, TokenId, top_ids
from engines.methods.speculative._verify import Draft

RANKS = 10  # guesses of each head
ASSUMED = [0.5 * 0.4**rank for rank in range(RANKS)]  # chance of each guess of published heads, for the tree's shape


class Ranking(Record):
    """The first choices of a head, the likeliest first."""

    tokens: list[TokenId]
    chances: list[Probability]

    def rounded(self, most: int = RANKS) -> Ranking:
        """The first of them, with chances of five significant figures, as they are recorded."""
        return Ranking(self.tokens[:most], [float(f"{chance:.5g}") for chance in self.chances[:most]])


def vocabulary_of(part: Any, device: str) -> Tensor | None:
    """The tokens [v] that the columns of a part's logits are; None for all."""
    vocabulary = part.tensors.get("vocabulary")
    return None if vocabulary is None else vocabulary.long().to(device)


def rankings_of(z: Tensor, vocabulary: Tensor | None) -> list[Ranking]:
    """The rankings of logits [n, v], a row each. vocabulary [v]: the tokens that the columns are, by default all."""
    best = top_ids(z, RANKS)
    tokens = best if vocabulary is None else vocabulary[best]
    return [Ranking(*row) for row in zip(tokens.tolist(), z.softmax(-1).gather(-1, best).tolist(), strict=True)]


Path = tuple[int, ...]


def likeliest(a: Sequence[Sequence[float]], n: int) -> list[tuple[Path, float]]:
    """The n likeliest paths, each with the product of its ranks' chances, likeliest first; ties by shorter path, then
    by rank. A path never comes before the one above it, so any first k of them are a tree."""
    heap: list[tuple[float, int, Path]] = [(-1.0, 0, ())]
    paths: list[tuple[Path, float]] = []
    while heap and len(paths) <= n:
        P, _, path = heappop(heap)
        paths.append((path, -P))
        if len(path) < len(a):
            for r, chance in enumerate(a[len(path)]):
                heappush(heap, (P * chance, len(path) + 1, (*path, r)))
    return paths[1 : n + 1]


def parents_of(paths: Iterable[Path]) -> tuple[list[Path], list[int]]:
    """(paths sorted by length and rank, the root () first; the row of each one's parent, -1 for the root). Raises
    ValueError for a path whose parent is missing."""
    ordered = sorted({(), *paths}, key=lambda path: (len(path), path))
    row = {path: i for i, path in enumerate(ordered)}
    if orphan := next((path for path in ordered[1:] if path[:-1] not in row), None):
        raise ValueError(f"the path {orphan} stands in a tree without {orphan[:-1]}")
    return ordered, [row[path[:-1]] if path else -1 for path in ordered]


def ranks_of(paths: Sequence[Path]) -> list[int]:
    """Rank of each row among the guesses that it was taken from, -1 for the root."""
    return [path[-1] if path else -1 for path in paths]


def filled(paths: Sequence[Path], root: int, guesses: Sequence[Sequence[int]]) -> list[int]:
    """Tokens of the rows: the root's, and for every path the guess of its depth at its last rank."""
    return [guesses[len(path) - 1][path[-1]] if path else root for path in paths]


def from_heads(paths: Sequence[Path], ranked: Sequence[list[int]], name: str, kind: str = "head") -> list[GuessSource]:
    """The guesses [K][ranks] that the rows of these paths are, a source for each depth: "head 1", "head 2" ..."""
    sources = [GuessSource(kind, f"{name} {depth}", tokens=[*row]) for depth, row in enumerate(ranked, 1)]
    for row, path in enumerate(paths):
        if path:
            sources[len(path) - 1].links.append((row, path[-1]))
    return [source for source in sources if source.links]


def laid(paths: Sequence[Path], root: int, ranked: Sequence[Ranking], name: str, kind: str = "head") -> Draft:
    """The draft of these paths, whose guesses are ranked by depth alone."""
    guesses = [ranking.tokens for ranking in ranked]
    draft = Draft.of(filled(paths, root, guesses), parents_of(paths)[1], "draft")
    draft.chances[1:] = [ranked[len(path) - 1].chances[path[-1]] for path in paths[1:]]
    draft.traced.append(partial(from_heads, paths, guesses, name, kind))
    return draft


def by_depth(
    paths: Sequence[Path],
    parents: Sequence[int],
    root: int,
    ranked: Callable[[int, list[int], Draft], Sequence[Ranking]],
) -> tuple[Draft, dict[int, Ranking]]:
    """The draft of these paths, all nodes of a depth at once, and what was ranked behind each row that has children.
    ranked(i, rows, draft): the guesses of head i behind rows of depth i."""
    draft, rankings = Draft(root, "draft"), dict[int, Ranking]()
    for i in range(max(map(len, paths))):
        rows = sorted({parents[row] for row, path in enumerate(paths) if len(path) == i + 1})
        rankings |= zip(rows, ranked(i, rows, draft), strict=True)
        for row, path in enumerate(paths):
            if len(path) == i + 1:
                guesses, r = rankings[parents[row]], path[-1]
                draft.taken(draft.add(parents[row], guesses.tokens[r], guesses.chances[r]), "head", f"head {i + 1}")
    return draft, rankings
