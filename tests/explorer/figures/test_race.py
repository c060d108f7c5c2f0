"""What a run has at a budget: answers known by hand, and the definition written out in full on invented runs;
`test_recordings` holds every recorded run against it."""

from __future__ import annotations

import pytest

from engines import Trace
from explorer.figures.clock import steps_within
from explorer.figures.curves import growth
from tests.explorer.figures.lookback import MASK, Turn, invented, looked
from tests.explorer.figures.standing import standing

END = 7


def fates(turns: list[Turn], steps: int, **options) -> tuple[int, ...]:
    found = standing(looked(turns, **options), steps)
    return found.tokens, found.remasked, found.changed, found.cut, found.behind, found.missing


def test_a_token_that_stays_is_not_revised():
    turns: list[Turn] = [({}, [(2, 4)]), ({}, [(3, 5)]), ({}, [(4, 6), (5, END)])]
    assert [fates(turns, t) for t in range(4)] == [(n, 0, 0, 0, 0, 3 - n) for n in range(4)]


def test_the_first_later_write_that_takes_a_token_away_counts():
    """Hidden and written again, changed and later hidden, written twice the same."""
    again: list[Turn] = [
        ({}, [(2, 4), (3, 5), (4, 6)]),
        ({}, [(2, MASK), (3, 8)]),
        ({}, [(2, 4), (3, MASK), (4, 6)]),
        ({}, [(3, 8)]),
    ]
    assert fates(again, 1) == (3, 1, 1, 0, 0, 1)
    assert fates(again, 4) == (3, 0, 0, 0, 0, 0)


def test_a_cut_takes_everything_behind_it():
    turns: list[Turn] = [({}, [(2, 4), (3, 5), (4, 6)]), ({}, [(3, -1)]), ({}, [(3, 5)])]
    assert fates(turns, 1, canvas=None) == (3, 0, 0, 2, 0, 0)
    assert fates(turns, 2, canvas=None) == (1, 0, 0, 0, 0, 1)


def test_tokens_behind_a_later_end_mark_are_no_part_of_the_output():
    turns: list[Turn] = [({}, [(2, 4), (4, 6)]), ({}, [(3, END), (5, END)])]
    assert fates(turns, 1) == (2, 0, 0, 0, 1, 0)
    assert fates(turns, 2) == (1, 0, 0, 0, 0, 0), "what stands behind the end mark is not a token any more"


def test_a_step_is_inside_a_budget_when_it_is_over_by_then():
    trace = looked([({}, [(2, 4)]), ({}, []), ({}, [(3, 5)])], forwards=[2, 0, 3])
    assert [steps_within(trace, "forwards", n) for n in (0, 1.9, 2, 4, 5, 99)] == [0, 0, 2, 2, 3, 3]
    assert [steps_within(trace, "steps", n) for n in (0, 1, 2.5)] == [0, 1, 2]
    for step in trace.steps:
        step.model_seconds, step.method_seconds = 0.1, 0.2
    assert [steps_within(trace, "seconds", n) for n in (0, 0.29, 0.3, 0.9)] == [0, 0, 1, 3], "0.1 + 0.2 is inside 0.3"


def boards(trace: Trace) -> list[dict[int, int]]:
    """The board after 0, 1, ... steps, played forward write by write."""
    first, board, found = len(trace.header.prompt_ids), {}, [{}]
    for step in trace.steps:
        told = step.commits
        for at, token, why in zip(told.positions, told.tokens, told.causes, strict=True) if told else ():
            if token < 0:
                board = {k: v for k, v in board.items() if k < at}
            elif why in ("noise", "renoised"):  # a random token is not written yet
                board = {k: v for k, v in board.items() if k != at}
            else:
                board = {**board, at: token}
        found.append({at: token for at, token in board.items() if at >= first and token != trace.header.mask_id})
    return found


@pytest.mark.parametrize("seed", range(0, 60, 12))
def test_counts_agree_with_boards_played_forward(seed: int):
    for trace in map(invented, range(seed, seed + 12)):
        counts_agree_with_boards(trace)


def counts_agree_with_boards(trace: Trace) -> None:
    """Of a run of any kind, at every step."""
    played, curve = boards(trace), growth(trace)
    ends = [min((p for p, x in one.items() if x in trace.header.eos_ids), default=10**9) for one in played]
    body = [{at: t for at, t in one.items() if at < end} for one, end in zip(played, ends, strict=True)]
    for steps, now in enumerate(body):
        here = standing(trace, steps)
        assert (here.forwards, here.tokens) == curve[steps] == (here.forwards, len(now))
        assert here.missing == len(body[-1].items() - played[steps].items())
        lost = sum(any(after.get(at) != token for after in played[steps + 1 :]) for at, token in now.items())
        assert here.revised >= lost, "every loss that a board shows after some step is a revision"
        stays = [at for at, token in now.items() if played[-1].get(at) == token and at in body[-1]]
        back = [at for at in stays if _touched(trace, steps, at, now[at])]
        assert here.tokens == here.revised + here.behind + len(stays) - len(back)
    if trace.end.reason == "complete" and trace.output_ids:
        assert standing(trace, len(trace.steps)).tokens == trace.totals.tokens


def _touched(trace: Trace, steps: int, at: int, token: int) -> bool:
    """Whether a later write took this token away from its place, even if the same token came back."""
    for step in trace.steps[steps:]:
        for position, written in zip(step.commits.positions, step.commits.tokens, strict=True) if step.commits else ():
            if (position == at and written != token) or (written < 0 and position <= at):
                return True
    return False
