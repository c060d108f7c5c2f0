"""Draft trees of fixed shape whose nodes are filled with the ranked guesses of heads, one head per depth.

A path is a tuple of ranks: (0, 2) is the third guess of the second head below the first guess of the first. Medusa
(2401.10774, sections 2.1.2 and 2.3.3: the sparse tree from measured accuracies) and PPD (2405.18628) use them;
children of different parents at one depth share their candidates.

Letters: a[d][r] the measured chance that guess r of head d is right, n nodes without the root."""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from engines.kit import GuessSource

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
