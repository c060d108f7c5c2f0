"""Slips of a loop: the drafter is right, and whoever feeds it makes a mistake that no checkpoint shows. They show in
what was drafted. Each is made here on purpose, along the same text and the same rounds, and held against the record of
a watched loop or of a server, round by round and token by token.

For drafters that go from row to row and draft chains (EAGLE-1, -2 and -3, MTP layers)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.core.kinds import counted
from engines.core.meter import Meter
from engines.core.trace import Trace
from engines.diagnosis.forced import states_of

ROWS = ("eagle-2", "eagle-3", "mtp-layer")  # formats that can be looked at
CLEAR = 0.1  # share of the drafted tokens that a slip must explain beyond the loop as it should be


@dataclass(frozen=True)
class Loop:
    """A loop as somebody might write it. shifted: the first token is dropped, so that a state goes with the token
    behind it; normed: what the format has at the output; stale: rows of accepted tokens stay that were made from the
    drafter's own states."""

    name: str
    wrong: str
    shifted: bool = True
    normed: bool = True
    stale: bool = False


RIGHT = Loop("as it should be", "")
KEPT = (
    "Each state goes with its own token, and it belongs to the token behind it: drop the first token, and shift "
    "nothing else."
)
NORM = "The norm at the drafter's output is left out, or one is added where the format has none."
STALE = (
    "After a round the drafter's cache keeps rows that it made from its own states; only rows of the target's states "
    "may stay, for accepted tokens too."
)
SLIPS = (
    Loop("first token kept", KEPT, shifted=False),
    Loop("output norm", NORM, normed=False),
    Loop("stale rows", STALE, stale=True),
)


class Match(msgspec.Struct, frozen=True):
    """How many of the drafted tokens of a record a loop drafts as well. clear: it explains most of the record, and
    much more of it than the loop as it should be."""

    name: str
    wrong: str
    same: int
    drafted: int
    clear: bool


class Round(msgspec.Struct, frozen=True):
    """A round of a record: `place`, the position of the newest token that was written, and the tokens drafted behind
    it."""

    place: int
    drafted: tuple[int, ...]


class DraftRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a loop or a server drafted: the ids of the whole text, prompt and answer, and its rounds in order."""

    ids: tuple[int, ...]
    rounds: tuple[Round, ...]


def drafts_of(trace: Trace) -> DraftRecord:
    """The drafts of a recorded run. Raises UserError for a run without drafts, and for one whose drafts branch or whose
    text was changed on the way: a loop is told by a chain of drafts along one text."""
    header, rounds = trace.header, []
    if header.edits:
        raise UserError("the run was changed on its way, and loops are told along one text; give an unchanged one.")
    for step in trace.steps:
        if step.tree is None or len(step.tree.tokens) < 2:
            continue
        if any(parent != row - 1 for row, parent in enumerate(step.tree.parents)):
            raise UserError("the run drafted trees, and loops are told by chains; run it with top_k=1.")
        rounds.append(Round(step.tree.start, tuple(step.tree.tokens[1:])))
    if not rounds or trace.end is None:
        raise UserError("the run drafted nothing, so there is nothing to match.")
    return DraftRecord((*header.prompt_ids, *trace.end.output_ids), tuple(rounds))


@torch.no_grad()
def match_loops(target: Any, drafter: Any, ids: Sequence[int], rounds: Sequence[Round]) -> list[Match]:
    """The loop as it should be and each slip, held against a record. ids: the whole text, prompt and answer; rounds: in
    order. Raises UserError for a format that does not go row by row, a record without drafts, and places outside of the
    text."""
    if drafter.format not in ROWS:
        raise UserError(
            f"{drafter.name} is of the format {drafter.format}, which keeps no rows of its own between rounds; loops "
            f"are told apart for {', '.join(ROWS)}."
        )
    if not any(draft_round.drafted for draft_round in rounds):
        raise UserError("the record drafts nothing, so there is nothing to match.")
    if any(not 0 < draft_round.place < len(ids) for draft_round in rounds):
        raise UserError(f"the record has rounds outside of its text of {len(ids)} tokens; give the text that it wrote.")
    hidden = states_of(target, ids)
    drafted, same = [token for draft_round in rounds for token in draft_round.drafted], list[int]()
    for loop in (RIGHT, *SLIPS):
        mine = chain(*drafts(target, drafter, list(ids), hidden, rounds, loop))
        same.append(sum(a == b for a, b in zip(drafted, mine, strict=True)))
    best, total = max(same), len(drafted)
    return [
        Match(loop.name, loop.wrong, number, total, bool(i) and number == best and clear(number, same[0], total))
        for i, (loop, number) in enumerate(zip((RIGHT, *SLIPS), same, strict=True))
    ]


def clear(number: int, right: int, total: int) -> bool:
    """Whether a slip that explains so many drafted tokens of a record, where the loop as it should be explains `right`,
    is what it was drafted with: it says most of them, and clearly more."""
    return number > total / 2 and number - right > CLEAR * total


def drafts(
    target: Any, drafter: Any, ids: list[int], hidden: Any, rounds: Sequence[Round], loop: Loop
) -> list[list[int]]:
    """What a loop drafts in these rounds, as many tokens in each as the record has."""
    meter = Meter()
    run = drafter.counted(counted(target, "target", meter, "layered"), meter)
    S, pasts, true, lines = run.states(hidden), run.pasts(), 0, []
    for number, draft_round in enumerate(rounds):
        pasts.crop(true)
        begin, end = pasts.length, draft_round.place
        tokens = ids[begin + 1 : end + 1] if loop.shifted else ids[begin:end]
        F = _rows(run, run.embed(tokens), run.project(S[begin:end]), pasts)[-1:]
        line: list[int] = []
        for j in range(len(draft_round.drafted)):
            line.append(int(run.tokens(_speak(target, run, F, loop).argmax(-1))[0]))
            if j < len(draft_round.drafted) - 1:
                F = _rows(run, run.embed(line[-1:]), run.fed_back(F), pasts)
        lines.append(line)
        following = rounds[number + 1].place if number + 1 < len(rounds) else end
        true = end + max(0, min(following - end - 1, len(draft_round.drafted) - 1)) if loop.stale else end
    return lines


def _rows(run: Any, e: Tensor, s: Tensor, pasts: Any) -> Tensor:
    """Rows of a chain behind those that are held."""
    m, n = pasts.length, len(e)
    at = torch.arange(m, m + n, device=e.device)
    return run.rows(e, s, pasts, at, torch.arange(m + n, device=e.device)[None] <= at[:, None])


def _speak(target: Any, run: Any, F: Tensor, loop: Loop) -> Tensor:
    """Logits [1, v] of an output."""
    if loop.normed:
        return run.logits(run.spoken(F), [0])
    if run.head is not None:
        return run.logits(F, [0])
    return target.unembed(F, run.vocabulary)
