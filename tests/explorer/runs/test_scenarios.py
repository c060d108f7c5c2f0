"""What the scenes say is what their recorded runs hold."""

import msgspec
import pytest

from engines import Trace
from explorer.figures.verdict import judge
from explorer.runs.gallery import gallery
from explorer.runs.scenarios import Scenario, scenarios

SCENES = scenarios([card.id for card in gallery().cards])
each = pytest.mark.parametrize("scene", SCENES, ids=lambda one: one.title)


def written(trace: Trace, steps: int) -> int:
    return sum(len(step.commits.tokens) for step in trace.steps[:steps] if step.commits)


@each
def test_each_sentence_of_a_scene_stands_at_a_step_that_it_has(scene: Scenario):
    runs = [gallery().get(name) for name in scene.traces]
    longest = max(len(run.steps) for run in runs)
    at = [said.at for said in scene.says]
    assert at == sorted(set(at)) and all(0 <= one <= longest for one in at) and at[:1] in ([], [0])
    assert len({*scene.roles}) == len(scene.traces), "each run has a part of its own"
    for said in scene.says:
        if said.written:
            assert list(said.written) == [written(run, said.at) for run in runs], said.say


def test_roles_that_do_not_fit_the_runs_are_refused():
    broken = b'[{"title": "T", "watch": "W", "traces": ["a", "b"], "roles": ["one"]}]'
    with pytest.raises(msgspec.ValidationError, match="'T' has 2 runs but 1 roles; give each run one"):
        msgspec.json.decode(broken, type=list[Scenario])


@each
def test_a_lever_changes_one_parameter_and_tells_what_each_run_came_to(scene: Scenario):
    if scene.lever is None:
        return
    stops = scene.lever.stops
    runs = [gallery().get(stop.trace) for stop in stops]
    assert scene.traces[scene.lever.slot] in {stop.trace for stop in stops}
    given = [run.header.params for run in runs]
    (name,) = {name for name in given[0] if len({str(one[name]) for one in given}) > 1}
    assert [one[name] for one in given] == [stop.value for stop in stops] == sorted(stop.value for stop in stops)
    for stop, run in zip(stops, runs, strict=True):
        found = judge(run)
        assert run.totals.forwards == stop.calls
        assert stop.right == (found.right if found else None)
        assert str(stop.value) in stop.say
    other = gallery().get(scene.traces[1 - scene.lever.slot])
    assert {run.header.prompt for run in [*runs, other]} == {other.header.prompt}


def test_the_opening_is_one_text_in_half_the_calls_and_its_lever_goes_from_wrong_to_right():
    scene = SCENES[0]
    one, many = (gallery().get(name) for name in scene.traces)
    assert one.text == many.text and judge(one).right
    assert many.totals.forwards * 2 == one.totals.forwards == len(one.output_ids)
    assert scene.question and scene.lever
    assert [stop.right for stop in scene.lever.stops] == sorted(stop.right for stop in scene.lever.stops)
    assert not scene.lever.stops[0].right
