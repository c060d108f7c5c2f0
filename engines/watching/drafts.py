"""A draft tree as it was fed, and what became of its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engines.core.trace import Tree
from engines.core.trees import row_depths
from engines.watching.facts import Facts
from engines.watching.hooks import Call


def tree_of(
    ids: Sequence[int],
    parents: Sequence[int],
    root: int,
    start: int,
    path: Sequence[int],
    gained: Sequence[int],
    calls: Sequence[Call],
    facts: Facts | None,
) -> Tree | None:
    """The tree behind the row `root` of a forward of n rows, at position `start`. path: the rows accepted. calls: those
    that drafted, and the forward. None where rows hang on one before the root.

    What was drawn and against which chance cannot be seen from outside, so neither is there."""
    above = [max(-1, parents[row] - root) if row > root else -1 for row in range(root, len(ids))]
    if any(parent < 0 for parent in above[1:]):
        return None
    tokens, kept = list(ids[root:]), {row - root for row in path} | {0}
    why = ["root"] + [
        "accepted" if row in kept else "mismatch" if above[row] in kept else "unreached" for row in range(1, len(above))
    ]
    drafts = [call for call in calls[:-1] if call.role != calls[-1].role]
    said = [None, *(_drafted(drafts, above, tokens, start, row) for row in range(1, len(above)))] if drafts else []
    target: list[float | None] = []
    if facts is not None:
        target = [None, *(_log(facts.of(above[row] + root, tokens[row])) for row in range(1, len(above)))]
    return Tree(
        start=start,
        parents=above,
        tokens=tokens,
        accepted=[row in kept for row in range(len(above))],
        why=why,
        emitted=list(gained),
        sources=["root"] + [drafts[-1].role] * (len(above) - 1) if drafts else [],
        draft_logprobs=said if any(one is not None for one in said) else [],
        target_logprobs=target if any(one is not None for one in target) else [],
        emitted_source="not recorded",
    )


def _drafted(
    calls: Sequence[Call], parents: Sequence[int], tokens: Sequence[int], start: int, row: int
) -> float | None:
    """The log-probability that the drafting module gave a row: from the one call that fed its parent at its place; None
    where there is none, or several."""
    parent, found = parents[row], set[float]()
    place = start + row_depths(parents)[parent]
    for call in calls:
        taken, said = call.facts.get("said", ((), None))
        for i, fed in enumerate(taken):
            at = (call.past or 0) + fed
            if call.ids is not None and at == place and int(call.ids[0, fed]) == tokens[parent]:
                found.add(round(float(said[i, tokens[row]]), 6))
    return found.pop() if len(found) == 1 else None


def _log(p: float | None) -> float | None:
    return None if p is None or p <= 0 else round(math.log(p), 6)
