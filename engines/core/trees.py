"""Draft trees: depths, children, shapes. A tree is a list of parents, row 0 the root with -1, parents first."""

from collections.abc import Sequence


def row_depths(parents: Sequence[int]) -> list[int]:
    """Depth of each row of a tree whose parents stand before their children; a row with parent -1 has depth 0."""
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return depths


def children(parents: Sequence[int]) -> list[list[int]]:
    """Rows below each row, in order."""
    below: list[list[int]] = [[] for _ in parents]
    for row, parent in enumerate(parents):
        if parent >= 0:
            below[parent].append(row)
    return below


def behind(parents: Sequence[int], last: int) -> str:
    """What a target's own token behind `last`, the last accepted row, is: the "correction" where a row below it was
    refused, the "bonus" where none hangs there; "" where nothing was drafted."""
    if len(parents) < 2:
        return ""
    return "correction" if last in parents else "bonus"


def from_child_counts(counts: Sequence[int]) -> tuple[list[int], list[int]]:
    """(parents, candidate rank of each row) of the tree whose rows, breadth first, have these numbers of children; rows
    beyond the list have none."""
    parents, ranks = [-1], [-1]
    for row, count in enumerate(counts):
        if row >= len(parents):
            raise ValueError(f"child counts for {len(counts)} rows describe a tree of only {len(parents)} rows")
        parents += [row] * count
        ranks += range(count)
    return parents, ranks
