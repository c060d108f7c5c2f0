"""A draft tree as it was fed, and what became of its rows."""

import math
from collections.abc import Sequence

from engines.core.kinds.base import Parents
from engines.core.lazy import Tensor
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

    Where the answer ended with an accepted row, nobody saw the rows below it refused: they are unreached. What was
    drawn and against which chance cannot be seen from outside, so neither is there."""
    ended = (path[-1] if path else root) - root if len(gained) <= len(path) else -1  # behind it nothing was written
    above = [max(-1, parents[row] - root) if row > root else -1 for row in range(root, len(ids))]
    if any(parent < 0 for parent in above[1:]):
        return None
    tokens, kept = list(ids[root:]), {row - root for row in path} | {0}
    why = ["root"] + [
        "accepted" if row in kept else "mismatch" if above[row] in kept - {ended} else "unreached"
        for row in range(1, len(above))
    ]
    drafts = [call for call in calls[:-1] if call.role != calls[-1].role]
    logprobs = _drafted(drafts, above, tokens, start) if drafts else []
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
        draft_logprobs=logprobs if any(logprob is not None for logprob in logprobs) else [],
        target_logprobs=target if any(logprob is not None for logprob in target) else [],
        emitted_source="not recorded",
    )


def _drafted(calls: Sequence[Call], parents: Sequence[int], tokens: Sequence[int], start: int) -> list[float | None]:
    """The log-probability that the drafting module gave each row: from the call whose last row was its parent at its
    place, else from one that fed it among others. None where there is none, where several say different things, and
    where the module was fed other tokens on the way there, so that its row may stand behind another path."""
    depths, fed = row_depths(parents), dict[int, set[int]]()
    known: dict[tuple[int, int], list[tuple[bool, Call, int]]] = {}  # (position, token) -> (last row, call, row said)
    for call in calls:
        places, taken = _places(call, start), call.facts.get("said", ((), None))[0]
        for row, (at, token) in places.items():
            fed.setdefault(at, set()).add(token)
            if row in taken:
                known.setdefault((at, token), []).append((row == call.n - 1, call, taken.index(row)))
    sure, logprobs = [True], list[float | None]([None])  # sure: the module stood behind this row's own path
    for row in range(1, len(parents)):
        parent = parents[row]
        candidates = known.get((start + depths[parent], tokens[parent]), []) if sure[parent] else []
        best = [candidate for candidate in candidates if candidate[0]] or candidates
        values = {round(float(call.facts["said"][1][at, tokens[row]]), 6) for _, call, at in best}
        value = values.pop() if len(values) == 1 else None
        logprobs.append(value if value is not None and math.isfinite(value) else None)
        sure.append(sure[parent] and fed.get(start + depths[row]) == {tokens[row]})
    return logprobs


def _places(call: Call, start: int) -> dict[int, tuple[int, int]]:
    """Row -> (position, token) of the rows of a drafting call from a position on."""
    if call.ids is None:
        return {}
    first = call.past or 0
    at = range(first, first + call.n) if call.positions is None else call.positions[0].tolist()
    return {row: (place, int(call.ids[0, row])) for row, place in enumerate(at) if place >= start}


def follow(ids: Sequence[int], parents: Parents, root: int, tokens: Sequence[int]) -> list[int] | None:
    """The rows of a forward that a text follows from the root on; None where the rows' parents are not known."""
    if parents is None:
        return None
    path: list[int] = []
    for token in tokens:
        above = path[-1] if path else root
        step = next((r for r in range(above + 1, len(ids)) if parents[r] == above and ids[r] == token), None)
        if step is None:
            break
        path.append(step)
    return path


def likeliest_rows(logits: Tensor, ids: Sequence[int], root: int, parents: Parents) -> bool:
    """Whether each row behind the root is the likeliest token of its parent's row. logits: of the last m of n rows."""
    first, behind = len(ids) - len(logits), range(root + 1, len(ids))
    if parents is None or min((parents[row] for row in behind), default=first) < first:
        return False
    return logits[[parents[row] - first for row in behind]].argmax(-1).tolist() == [ids[row] for row in behind]


def _log(p: float | None) -> float | None:
    return None if p is None or p <= 0 else round(math.log(p), 6)
