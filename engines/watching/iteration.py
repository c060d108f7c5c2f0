"""One turn of a watched loop, as its readers leave it and `assembly` turns it into a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from engines.core.trace import Branch, RecordInfo, Span, Tree

if TYPE_CHECKING:
    from engines.watching.facts import Facts
    from engines.watching.hooks import Call


NO_OUTPUT = "No output was given, so what the last step wrote is not known: trace(out) shows it."


class Written(NamedTuple):
    """A token that appeared at a position. p: its probability by the row of its own position; before: by the row
    before it, which is its distribution where a model predicts the next token."""

    position: int
    token: int
    cause: str
    p: float | None = None
    before: float | None = None


@dataclass(eq=False)
class Turn:
    """calls: the forwards of this turn, the deciding one last. start: where its rows stand on the board, None where
    that cannot be seen. open: places with a distribution that is shown, rising; rows: where they are not those that
    follow from the place, place -> row. unseen: [first, last) positions whose tokens were not seen when they were
    written."""

    calls: list[Call]
    start: int | None = 0
    end: int = 0
    facts: Facts | None = None
    open: list[int] = field(default_factory=list)
    rows: dict[int, int] = field(default_factory=dict)
    unseen: tuple[int, int] | None = None
    commits: list[Written] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tree: Tree | None = None
    branches: list[Branch] = field(default_factory=list)
    lanes: dict[str, tuple[list[int], Any]] = field(default_factory=dict)
    recorded_facts: dict[str, float] = field(default_factory=dict)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class Reading:
    """What was read of one answer. board: as it was last seen. prompt: how many of its tokens were given. fault: why
    reading ended early. canvas: positions of a masked board, None for one that grows. rows: of a batch that its row was
    in. complete: whether the last board is the loop's own output. records: what its turns' records are."""

    turns: list[Turn]
    board: list[int]
    prompt: int
    fault: str = ""
    canvas: int | None = None
    shift: bool = False
    remarks: list[str] = field(default_factory=list)
    complete: bool = False
    row: int = 0
    rows: int = 1
    records: dict[str, RecordInfo] = field(default_factory=dict)
