"""Boards whose length changes, against places that are followed one by one."""

from dataclasses import dataclass, field

import pytest

from engines import Trace
from explorer.export.playback import Playback
from explorer.figures import history
from explorer.figures.clock import steps_within
from tests.explorer.figures.lookback import MASK, NOISY, looked, moving, noisy
from tests.explorer.figures.standing import standing


@dataclass(eq=False)
class Place:
    writes: list[tuple[int, int]] = field(default_factory=list)  # step, token


def followed(trace: Trace) -> list[list[Place]]:
    """The places from left to right before the first step and after each one."""
    header = trace.header
    places = [Place() for _ in range(header.canvas if header.canvas is not None else len(header.prompt_ids))]
    found, cut = [places[:]], list[Place]()  # cut: places behind the end, which come back where the text grows again
    for step in trace.steps:
        commits = step.commits
        assert commits
        cut = [] if commits.moves else cut
        for position in reversed(commits.removed):
            places.pop(position).writes.append((step.index, -1))
        for position in commits.inserted:
            places.insert(position, Place())
        for position, token in zip(commits.positions, commits.tokens, strict=True):
            if token < 0:
                for place in places[position:]:
                    place.writes.append((step.index, -1))
                cut, places = places[position:] + cut, places[:position]
                continue
            while len(places) <= position:
                places.append(cut.pop(0) if cut else Place())
            places[position].writes.append((step.index, token))
        found.append(places[:])
    return found


@pytest.mark.parametrize("seed", range(60))
def test_places_boards_and_what_they_count_are_followed_where_others_go_and_come(seed):
    trace = moving(seed)
    past, last, places = history.history(trace), len(trace.steps), followed(trace)
    assert past.widths == [len(now) for now in places]
    assert any(step.commits.moves for step in trace.steps if step.commits)
    start, stood = len(trace.header.prompt_ids), []
    for t, (now, found) in enumerate(zip(places, history.boards(trace), strict=True)):
        for position, place in enumerate(now):
            cell = past.cell(position, t)
            assert past.place(cell, t) == position
            if place in places[last]:
                assert past.place(cell, last) == places[last].index(place)
                assert [(step, token) for step, token, _ in past.writes.get(cell, [])] == place.writes
        writes = [[write for write in place.writes if write[0] < t] for place in now]
        prompt = [8] * start + [None] * len(now)
        wanted = [done[-1][1] if done else prompt[at] for at, done in enumerate(writes)]
        assert found == [None if one == MASK else one for one in wanted]
        assert [cell.token for cell in Playback(trace).board(t)] == found[start:]
        stood.append(history.gained(trace, found[start:]))
    assert [*history.growth(trace)] == stood
    for position, place in enumerate(places[last]):
        assert (past.last(position) or (None, None))[:2] == (place.writes[-1] if place.writes else (None, None))


def test_a_board_that_an_insertion_made_longer_is_read_and_one_that_it_cannot_be_is_not():
    trace = looked([({}, [(8 - 2, MASK)], [], [6]), ({6: 3}, [(6, 4)])], canvas=6)
    assert Trace.from_json(trace.to_json()).steps == trace.steps
    wrong = {
        "cannot be removed; the board has 2 to 5 behind the prompt": [({}, [], [6], [])],
        "position 1 cannot be removed": [({}, [], [1], [])],
        "position 6 cannot be inserted; the board has 2 to 5": [({}, [(6, 3)], [3], [6])],
        "position 4 is inserted, but nothing is written there": [({}, [(3, 3)], [], [4])],
        "removed positions must rise": [({}, [], [4, 3], [])],
    }
    for said, turns in wrong.items():
        with pytest.raises(ValueError, match=said):
            Trace.from_json(looked(turns, canvas=6).to_json())


def test_a_token_drawn_at_random_is_not_written_yet():
    """A canvas of noise: an end mark among it ends nothing, what is accepted may be noise again, and in the end all is
    written; the player counts so, too (tests/player/test_player_js.py)."""
    trace = noisy()
    shown = Playback(trace)
    assert [*history.growth(trace)] == [shown.tokens(t) for t in range(5)] == NOISY["tokens"]
    assert [found[2:] for found in map(list, history.boards(trace))] == NOISY["boards"]
    assert [[cell.state for cell in shown.board(t)] for t in range(5)] == NOISY["states"]
    assert {write for _, write, cause in history.history(trace).writes[3] if cause in history.RANDOM} == {history.DRAWN}
    assert [standing(trace, t).remasked for t in range(5)] == [0, 0, 1, 0, 0]


def test_a_step_is_inside_a_budget_when_it_is_over_by_then():
    trace = looked([({}, [(2, 4)]), ({}, []), ({}, [(3, 5)])], forwards=[2, 0, 3])
    assert [steps_within(trace, "forwards", n) for n in (0, 1.9, 2, 4, 5, 99)] == [0, 0, 2, 2, 3, 3]
    assert [steps_within(trace, "steps", n) for n in (0, 1, 2.5)] == [0, 1, 2]
    for step in trace.steps:
        step.model_seconds, step.method_seconds = 0.1, 0.2
    assert [steps_within(trace, "seconds", n) for n in (0, 0.29, 0.3, 0.9)] == [0, 0, 1, 3], "0.1 + 0.2 is inside 0.3"
