"""Which worker computes which tiles of one decode step's attention: lean (Sanovar et al., arXiv:2405.10480), one worker
per head, and FlashDecoding's equal split. The rules for grid and splits are those of the published kernels.

Letters: B sequences, H key-value heads, a "problem" is one head of one sequence, N context, b tokens of a tile, t tiles
of a problem, T tiles in all, P processors, W slots for workers, G workers, s splits."""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import ClassVar, NamedTuple

from engines.core.trace import Count, Detail, Small
from engines.kit import Alternatives, Record, Stops

LEAN, PLAIN, FLASH = "lean", "plain", "flash-decoding"
SCHEDULES = (LEAN, PLAIN, FLASH)
CONTEXTS = [2**i for i in range(10, 21)]
HEADS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
SLOTS = [2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128]
"""Sizes that a person may try."""
MOST_SPLITS, FILLED, WORTH = 128, 0.8, 0.85  # of FlashDecoding


class Piece(NamedTuple):
    """Tiles [first, end) of a problem, computed by one worker in one go."""

    worker: int
    problem: int
    first: int
    end: int

    @property
    def tiles(self) -> int:
        """How many."""
        return self.end - self.first


class Plan(NamedTuple):
    """Of each piece, in the order of heads and tiles, its worker and its tiles."""

    workers: list[int]
    tiles: list[int]


class Tiling(Record):
    """What is shared out in a step: tiles of `tile` tokens of so many heads, on so many slots."""

    KEPT_FROM: ClassVar[Detail] = "light"
    heads: Small
    context: Count
    tile: Small
    slots: Small

    def alternatives(self, run: Alternatives) -> dict[str, Stops]:
        """The plans of all ways with another context, number of heads or of slots, each for itself; none where they are
        those of the step before."""
        own = self.heads, tiles(self.context, self.tile), self.slots
        if run.kept.get("tiling") == own:
            return {}
        run.kept["tiling"], (h, t, W) = own, own
        asked = {
            "context": (CONTEXTS, lambda n: (h, tiles(int(n), self.tile), W)),
            "heads": (HEADS, lambda n: (int(n), t, W)),
            "slots": (SLOTS, lambda n: (h, t, int(n))),
        }
        return {name: Stops.over(values, lambda n, of=of: plans(*of(n))) for name, (values, of) in asked.items()}


def plans(h: int, t: int, W: int) -> list[Plan]:
    """All ways to share out h heads of t tiles among W slots."""
    ways = (schedule(kind, [t] * h, W) for kind in SCHEDULES)
    return [Plan([piece.worker for piece in way], [piece.tiles for piece in way]) for way in ways]


def tiles(N: int, b: int) -> int:
    """Tiles of a context; a partial last one counts as one."""
    return ceil(N / b)


def grid(T: int, t: int, problems: int, P: int) -> int:
    """Workers that the published host code starts on P processors: two on each, and at least two tiles for each."""
    G = min((T + 1) // 2, ceil(32 * T / t)) if T <= 4 * P else min(2 * P, 32 * problems)
    return max(1, min(G, T))


def ranges(T: int, G: int) -> list[tuple[int, int]]:
    """The line of T tiles cut into G ranges [first, end) whose lengths differ by at most one, the longer ones first."""
    q = ceil(T / G)
    heavy = T - (q - 1) * G
    ends = [0, *(q * (w + 1) if w < heavy else (q - 1) * (w + 1) + heavy for w in range(G))]
    return list(pairwise(ends))


def lean(t: Sequence[int], G: int) -> list[Piece]:
    """The tiles of all problems end to end, t of each, cut into G ranges and these where a problem ends."""
    starts = [0]
    for each in t:
        starts.append(starts[-1] + each)
    cut = list[Piece]()
    problem = 0
    for worker, (first, end) in enumerate(ranges(starts[-1], G)):
        while first < end:
            while starts[problem + 1] <= first:
                problem += 1
            last = min(end, starts[problem + 1])
            cut.append(Piece(worker, problem, first - starts[problem], last - starts[problem]))
            first = last
    return cut


def num_splits(problems: int, t: int, W: int) -> int:
    """Into how many equal pieces FlashDecoding cuts every problem of t tiles for W slots: the fewest that fill the last
    wave at least 0.85 times as well as the best number does; 1 where the problems alone fill 0.8 of the slots."""
    if problems >= FILLED * W:
        return 1
    makespans = dict[int, float]()
    for s in range(1, min(MOST_SPLITS, W, t) + 1):
        if s == 1 or ceil(t / s) != ceil(t / (s - 1)):
            waves = problems * s / W
            makespans[s] = waves / ceil(waves)
    best = max(makespans.values())
    return next(s for s, e in makespans.items() if e >= WORTH * best)


def split(t: Sequence[int], s: int, W: int) -> list[Piece]:
    """Every problem in at most s pieces of equally many tiles (the last may be shorter), in order to the slot of W that
    is free first, the lowest number where several are."""
    free, cut = [0] * W, list[Piece]()
    size = ceil(max(t) / s)
    for problem, each in enumerate(t):
        for first in range(0, each, size):
            worker = free.index(min(free))
            cut.append(Piece(worker, problem, first, min(each, first + size)))
            free[worker] += cut[-1].tiles
    return cut


def schedule(kind: str, t: Sequence[int], W: int, official: bool = False) -> list[Piece]:
    """All pieces of one step. official: W slots are two on each of W / 2 processors, and lean starts as many workers
    as the published code does; else as many as there are slots, or tiles."""
    T, problems = sum(t), len(t)
    if kind == LEAN:
        return lean(t, grid(T, max(t), problems, W // 2) if official else min(W, T))
    return split(t, 1 if kind == PLAIN else num_splits(problems, max(t), W), W)


def timeline(pieces: Sequence[Piece]) -> list[tuple[float, float]]:
    """Start and end of each piece in tile units: a worker computes its pieces one behind the other."""
    free = dict[int, float]()
    times = list[tuple[float, float]]()
    for piece in pieces:
        start = free.get(piece.worker, 0.0)
        free[piece.worker] = start + piece.tiles
        times.append((start, free[piece.worker]))
    return times


def makespan(pieces: Sequence[Piece]) -> float:
    """When the last worker is done, in tile units."""
    return max(end for _, end in timeline(pieces))
