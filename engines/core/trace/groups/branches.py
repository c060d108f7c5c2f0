"""Several continuations at once: beams, samples in a race, reasoning paths, nodes of a search."""

from typing import Annotated

from msgspec import Meta

from engines.core.trace.base import Count, Index, Record


class Branch(Record):
    """A continuation: what it added in this step, how long its text is now, its scores by name and its fate.

    `parent`: the branch that it grew from, -1 for the prompt. `scores`: such as log-probability, reward, or the f, g
    and h of a search. `fate`: alive, pruned, finished, chosen; in a search also expanded.
    """

    id: Index
    parent: Annotated[int, Meta(ge=-1)]
    tokens: list[Index]
    length: Count = 0
    scores: dict[str, float] = {}
    fate: str = "alive"
