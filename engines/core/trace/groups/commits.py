"""Tokens written in a step, and places that it takes out of the board or puts in."""

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from engines.core.trace.base import Index, Record

T = TypeVar("T")


class Commits(Record):
    """Tokens written in this step, one entry per position, in the order in which they were decided.

    `causes`: threshold, top1, quota, factor, random, boosted, greedy, sampled, accepted, correction (the target's
    own token after a refusal), bonus (that behind a draft accepted whole), forced, remasked, withdrawn, cut ...
    `authors`: who proposed each token: a model's role (target, draft, small, model ...), retrieval,
    ngram, matrix, filter, credit, person ...; empty where no one was recorded. `probabilities`: what the deciding
    distribution gave the token; None where there was none. A remasked position holds the mask id, or a token drawn
    anew where there are no masks. A -1 ends the board: nothing is there or behind it any more (a causal run that an
    edit cut back, a masked board that the method cut off).

    A write replaces what stood there. Where the board changes its length, places go and come before anything is
    written: `removed` are positions of the board that the step found, `inserted` are positions of the one that it
    leaves, both rising; what stood behind them moves along. Each inserted position is among `positions`, which are all
    of the board that the step leaves. Scores and candidates of the step name the board that it found, which is what the
    model saw.
    """

    positions: list[Index]
    tokens: list[int]
    causes: list[str]
    probabilities: list[float | None] = []
    authors: list[str] = []
    removed: list[Index] = []
    inserted: list[Index] = []

    def __post_init__(self) -> None:
        n = len(self.tokens)
        optional = (len(self.probabilities), len(self.authors))
        if not len(self.positions) == n == len(self.causes) or any(length not in (0, n) for length in optional):
            raise ValueError(
                f"commits: {len(self.positions)} positions, {n} tokens, {len(self.causes)} causes, {optional[0]} "
                f"probabilities and {optional[1]} authors must be equally many"
            )
        if not self.moves:
            return
        for name, places in (("removed", self.removed), ("inserted", self.inserted)):
            if any(a >= b for a, b in itertools.pairwise(places)):
                raise ValueError(f"commits: {name} positions must rise, each named once")
        if unwritten := set(self.inserted) - set(self.positions):
            raise ValueError(f"commits: position {min(unwritten)} is inserted, but nothing is written there")

    @property
    def moves(self) -> bool:
        """Whether tokens that stay change their positions."""
        return bool(self.removed or self.inserted)

    def moved(self, position: int) -> int | None:
        """Where a position of the board that the step found is on the one that it leaves; None where it is removed."""
        return moved(position, self.removed, self.inserted)

    def width(self, prompt: int, width: int) -> int:
        """The length of a board of `width` positions once places have gone and come. Raises ValueError where one is in
        the prompt, or is not on the board."""
        after = width - len(self.removed) + len(self.inserted)
        for name, places, end in (("removed", self.removed, width), ("inserted", self.inserted, after)):
            if places and not prompt <= places[0] <= places[-1] < end:
                wrong = places[0] if places[0] < prompt else places[-1]
                raise ValueError(
                    f"commits: position {wrong} cannot be {name}; the board has {prompt} to {end - 1} behind the prompt"
                )
        return after

    def shift(self, board: list[T], blank: Callable[[], T]) -> None:
        """Take what is removed out of a board, a list with an entry for each position, and put a blank in where one is
        inserted, in place and in linear time."""
        if not self.moves:
            return
        gone, new = set(self.removed), set(self.inserted)
        kept = iter([entry for position, entry in enumerate(board) if position not in gone])
        length = len(board) - len(gone) + len(new)
        board[:] = [blank() if position in new else next(kept) for position in range(length)]

    def writes(self, board: list[T], blank: Callable[[], T]) -> Iterator[tuple[int, int]]:
        """Bring a board that `shift` has left to what this step leaves, in place. Yields (i, position) for the caller
        to put the i-th token's entry there; of a -1 each position that is about to go. blank: what stands at positions
        in front of the first one that is written behind the board."""
        for i, (position, token) in enumerate(zip(self.positions, self.tokens, strict=True)):
            if token < 0:
                yield from ((i, place) for place in range(position, len(board)))
                del board[position:]
                continue
            while len(board) <= position:
                board.append(blank())
            yield i, position

    def onto(self, board: list[int], blank: int) -> None:
        """The step's tokens on a board of token ids, in place."""
        self.shift(board, lambda: blank)
        for i, position in self.writes(board, lambda: blank):
            board[position] = self.tokens[i]

    def after(self, prompt: int, width: int) -> tuple[int, int]:
        """The length of a board of `width` positions after this step, and how many positions its -1 took away, without
        a board. Raises ValueError as `width`."""
        width, withdrawn = self.width(prompt, width) if self.moves else width, 0
        for position, token in zip(self.positions, self.tokens, strict=True):
            withdrawn += max(0, width - position) if token < 0 else 0
            width = min(width, position) if token < 0 else max(width, position + 1)
        return width, withdrawn


def moved(position: int, removed: Sequence[int], inserted: Sequence[int]) -> int | None:
    """What `Commits.moved` says, with rising positions of both boards."""
    at = bisect_left(removed, position)
    if at < len(removed) and removed[at] == position:
        return None
    here = position - at
    for place in inserted:
        if place > here:
            break
        here += 1
    return here
