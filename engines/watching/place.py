"""Where a call stands in a text: behind what its cache holds, or with the whole text once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engines.core.trees import row_depths
from engines.watching.arguments import Unreadable, keys_of
from engines.watching.drafts import follow
from engines.watching.open_forward import Fed

if TYPE_CHECKING:
    from engines.watching.hooks import Call
    from engines.watching.line import Line

TREE_UNSEEN = (
    "a call fed the whole text and drafts behind it without a cache, and neither its mask nor its position ids say how "
    "the drafts hang together, so which of them were kept cannot be seen; pass attention_mask [1, 1, n, n]."
)


def look(line: Line, call: Call, cache: Any) -> None:
    """Before a forward: the rows that the cache kept of the one before, and how many older ones it dropped."""
    fed, past = line.fed, call.past
    if fed is None or not past:
        return
    at = None
    if fed.drafted:
        fed.kept = kept_rows(fed, cache, past)
        at = fed.end + 1 + sum(row > fed.root for row in fed.kept) if fed.kept else None
    elif past < line.end + line.extra - line.dropped:
        at = behind_cache(line, call, cache)
    if at is not None:
        line.dropped = max(0, at + line.extra - past)


def kept_rows(fed: Fed, cache: Any, past: int) -> list[int] | None:
    """The rows of the last forward that the cache kept: where it dropped some of them, those before the newest."""
    if fed.print is None:
        return None
    kept, last = fed.print.kept(cache, past), fed.print.last(cache, past)
    rows = None if kept is None else [row + fed.skipped for row in kept]
    if last is None or fed.parents is None:
        return rows
    path = [last + fed.skipped]
    while path[0] > fed.root:
        path.insert(0, fed.parents[path[0]])
    return rows if rows is not None and set(path) <= set(rows) else path


def behind_cache(line: Line, call: Call, cache: Any) -> int | None:
    """The position behind a cache that holds fewer rows than were fed: behind its newest row, which is an older one
    where it was cropped. A single row goes on behind the last where the cache's rows are others than were put
    into it, where the forward itself ended with so few, and where there are fewer than the prompt has."""
    past, before = call.past or 0, [feed for feed in reversed(line.feds) if feed.print is not None]
    for fed in before:
        row = fed.print.last(cache, past) if fed.print is not None else None
        if row is not None:
            row += fed.skipped
            return fed.start + (row if fed.parents is None else row_depths(fed.parents)[row]) + 1
    others = bool(before) and keys_of(cache) is not None
    dropped = others or past == line.held or past - line.extra + line.dropped < line.prompt
    return line.end if call.n == 1 and dropped else None


def unguess(line: Line, ids: list[int]) -> None:
    """Where the whole text is fed with another token in the root's place, and drafts stood behind that, the root
    was the first of them: the forward before it was not asked for a token."""
    fed, known = line.fed, len(line.text) - 1
    if fed is None or fed.start or not fed.drafted or known < line.prompt or ids[:known] != line.text[:known]:
        return
    if known < len(ids) and ids[known] != line.text[known]:
        before = line.turns[-2]
        before.written = [commit for commit in before.written if commit.position != known]
        del line.text[known]
        fed.root -= 1


def whole_root(line: Line, calls: list[Call]) -> int:
    """The root where all of the text is fed again without a cache: as far as a module that drafted was fed it, else
    the token behind the drafts that are repeated, which the last forward itself wrote."""
    fed, drafting, call = line.fed, calls[0], calls[-1]
    assert fed is not None and call.ids is not None
    ids, last = call.ids[0].tolist(), call.n - 1
    known = (drafting.past or 0) + drafting.n
    if len(calls) > 1 and drafting.ids is not None and drafting.ids[0].tolist() == ids[known - drafting.n : known]:
        return known - 1
    if ids == fed.ids:
        return fed.root  # the same once more, which says nothing of its drafts
    if len(ids) < len(line.text) or any(a not in (b, -1) for a, b in zip(line.text, ids, strict=False)):
        return last  # the text is taken back
    if fed.parents is None:
        raise Unreadable(TREE_UNSEEN)
    path = follow(fed.ids, fed.parents, fed.root, ids[len(line.text) :]) or []
    return min(len(line.text) + len(path), last)
