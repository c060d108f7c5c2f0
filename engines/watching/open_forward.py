"""One forward of a watched loop whose outcome is still open, where it stands in a text (behind what the cache holds, or
with the whole text once more), and what a reader of the whole must know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engines.core.trees import behind, row_depths
from engines.watching.arguments import Unreadable, keys_of
from engines.watching.drafts import follow
from engines.watching.facts import Facts
from engines.watching.iteration import Turn, Written
from engines.watching.rows import Fingerprint

if TYPE_CHECKING:
    from engines.watching.hooks import Call
    from engines.watching.line import Line

TREE_UNSEEN = (
    "a call fed the whole text and drafts behind it without a cache, and neither its mask nor its position ids say how "
    "the drafts hang together, so which of them were kept cannot be seen; pass attention_mask [1, 1, n, n]."
)
UNLIKELY, USUAL = math.log(0.01), math.log(0.25)  # mean log-probability of tokens nobody accepts, and of written ones


@dataclass
class Fed:
    """The forward whose outcome is still open. start: position of its first row; root: which row is the text's last;
    parents: of its rows, or None where they cannot be seen. kept: the rows that the next cache held of it. greedy:
    whether each row behind the root is what the row above it would write. places: of its rows, by position ids."""

    iteration: Turn
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
        before.commits = [commit for commit in before.commits if commit.position != known]
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


def put_in(line: Line) -> None:
    """Rows behind a text that is fed whole, of which all stayed, were no drafts where no draft was ever refused and
    the model would have written others: the loop put them behind what the forward before wrote."""
    for index, surely in line.unsure:
        if line.refused and not surely:
            continue
        iteration, before = line.turns[index], line.turns[index - 1]
        put = {commit.position: commit.token for commit in iteration.commits if commit.cause == "accepted"}
        before.commits += [Written(position, token, "constraint") for position, token in put.items()]
        iteration.commits = [
            commit._replace(cause="written") for commit in iteration.commits if commit.position not in put
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
