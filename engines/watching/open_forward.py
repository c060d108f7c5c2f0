"""One forward of a watched loop whose outcome is still open, and what a reader of the whole must know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engines.core.trees import behind
from engines.watching.facts import Facts
from engines.watching.iteration import Turn, Written
from engines.watching.rows import Fingerprint

if TYPE_CHECKING:
    from engines.watching.line import Line

UNLIKELY, USUAL = math.log(0.01), math.log(0.25)  # mean log-probability of tokens nobody accepts, and of written ones


@dataclass
class Fed:
    """The forward whose outcome is still open. start: position of its first row; root: which row is the text's last;
    parents: of its rows, or None where they cannot be seen. kept: the rows that the next cache held of it. greedy:
    whether each row behind the root is what the row above it would write. places: of its rows, by position ids."""

    turn: Turn
    ids: list[int]
    start: int
    root: int
    parents: list[int] | None
    facts: Facts | None
    print: Fingerprint | None = None
    kept: list[int] | None = None
    greedy: bool = False
    places: list[int] | None = None

    @property
    def end(self) -> int:
        """Position of the root."""
        return self.start + self.root

    @property
    def drafted(self) -> int:
        """Rows behind the root."""
        return len(self.ids) - 1 - self.root

    @property
    def skipped(self) -> int:
        """Rows that the fingerprint leaves out."""
        return len(self.ids) - self.print.keys.shape[1] if self.print is not None else 0

    def cause(self, i: int) -> str:
        """Of the i-th token behind the root: as many as the drafts and one more can be the model's."""
        return "written" if i <= self.drafted else "constraint"

    def own(self, path: list[int]) -> str:
        """What the target's own token behind the accepted rows is; "written" where that is not known: without parents
        nothing hangs below the deepest rows alone."""
        if self.parents is None:
            deepest = path and self.places is not None and self.places[path[-1]] == max(self.places)
            return "bonus" if deepest or len(path) == self.drafted else "written"
        above = [parent - self.root for parent in self.parents[self.root :]]
        return behind(above, (path[-1] if path else self.root) - self.root)

    def unlikely(self, tokens: list[int], path: list[int] | None, wrote: Sequence[float]) -> bool:
        """Whether the rows behind the root were no drafts but what the loop put in, a second turn: all of them stayed,
        and the model finds them far less likely than what it wrote otherwise. wrote: log-probabilities of that."""
        if path is None or len(path) < 2 or len(path) != self.drafted or self.facts is None or len(wrote) < 2:
            return False
        rows = zip([self.root, *path], tokens, strict=False)
        chances = [self.facts.of(row, token) for row, token in rows][: len(path)]
        if any(p is None for p in chances):
            return False
        mean = sum(math.log(p or 1e-9) for p in chances) / len(chances)
        return mean < UNLIKELY and sum(wrote) / len(wrote) > USUAL


def put_in(line: Line) -> None:
    """Rows behind a text that is fed whole, of which all stayed, were no drafts where no draft was ever refused and
    the model would have written others: the loop put them behind what the forward before wrote."""
    for index, surely in line.unsure:
        if line.refused and not surely:
            continue
        iteration, before = line.turns[index], line.turns[index - 1]
        put = {commit.position: commit.token for commit in iteration.written if commit.cause == "accepted"}
        before.written += [Written(position, token, "constraint") for position, token in put.items()]
        iteration.written = [
            commit._replace(cause="written") for commit in iteration.written if commit.position not in put
        ]
        iteration.rows = {position: row for position, row in iteration.rows.items() if position not in put}
        iteration.tree = None
        line.put = sorted({*line.put, *put})


def said_of(line: Line) -> list[str]:
    """What else a reader must know of a text."""
    remarks = []
    if line.again:
        remarks.append(
            f"{len(line.again)} of {len(line.turns)} calls fed the whole text again behind a cache that already "
            "held it, so the model read it twice or more; feed the new tokens alone, or leave the cache out."
        )
    if line.pieces:
        remarks.append(
            f"{line.pieces} tokens of the prompt were fed behind its first piece; a last piece of one token cannot "
            "be told from an answer: prompt= says where the prompt ends."
        )
    if line.put:
        remarks.append(
            f"{len(line.put)} tokens, the first at position {line.put[0]}, were put in by the loop and not written "
            "by a watched model: another turn, or a part of the prompt, of which prompt= says where it ends."
        )
    if line.blind:
        remarks.append(
            "No cache among the call's arguments says how many positions it holds: each call is taken to go on "
            "where the one before it ended."
        )
    if line.guided:
        remarks.append(
            "Two calls a step (guidance): the figures are those of the call that sees the prompt; how the loop "
            "mixes the two cannot be seen, so the probabilities of what it wrote are not known."
        )
    return remarks
