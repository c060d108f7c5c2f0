"""What the scenes say is what their recorded runs hold."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from engines import Trace, UserError, parallelbench
from explorer.figures.verdict import judge
from explorer.own_files import own_json
from explorer.runs import scenarios as module
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
    for said in scene.says:
        if said.written:
            assert list(said.written) == [written(run, said.at) for run in runs], said.say


@each
def test_each_run_of_a_scene_has_a_short_part_of_its_own(scene: Scenario):
    assert len({*scene.roles}) == len(scene.traces)
    assert all(0 < len(role) <= 24 for role in scene.roles)


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
    assert one.totals.tokens == len(one.output_ids) - 1  # below eight boxes the boards say "7 tokens"
    assert "the end is not counted as a token" in scene.says[-1].say
    assert scene.question and scene.lever
    assert [stop.right for stop in scene.lever.stops] == sorted(stop.right for stop in scene.lever.stops)
    assert not scene.lever.stops[0].right


def test_the_opening_says_what_a_masked_model_is_when_it_fills_the_last_box_first():
    """Once, with the kind named in the question, at the step that shows it: an answer that begins at its end."""
    scene = SCENES[0]
    one = gallery().get(scene.traces[0])
    first = one.steps[0].commits
    assert first and first.positions == [len(one.header.prompt_ids) + len(one.output_ids) - 1]
    assert set(first.tokens) <= set(one.header.eos_ids)
    assert "masked model" in scene.question
    told = [said for said in scene.says if "left to right" in said.say]
    assert [said.at for said in told] == [1] and "a masked model may fill any box" in told[0].say


def test_the_wrong_end_of_the_opening_s_lever_says_why_it_is_wrong():
    """The guess and its confidence, that nothing else was written yet, and what the model says once the rest is."""
    lever = SCENES[0].lever
    assert lever
    wrong, right = (gallery().get(stop.trace) for stop in lever.stops[:2])
    mark = judge(wrong)
    assert mark and mark.first is not None and mark.word is not None and len(wrong.steps) == 1
    rash, late = wrong.steps[0].commits, right.steps[-1].commits
    assert rash and late and len(rash.positions) == len(wrong.output_ids) and late.positions == [mark.first]
    guess, confidence = wrong.text.split()[mark.word], rash.probabilities[rash.positions.index(mark.first)]
    expected = right.text.split()[mark.word]
    assert expected == mark.expected.split()[mark.word]
    said = lever.stops[0].say
    assert f"{guess}, who is not on the list, was a guess of {confidence:.2f} while all boxes were empty" in said
    assert guess not in wrong.header.prompt and said.endswith(f"the model says {expected}.")


def test_two_boxes_of_one_call_take_one_name_though_the_model_is_exact():
    """Right beside the opening, whose last words ask when it goes wrong. What a draw would give is in closed form."""
    scene = SCENES[1]
    assert scene.title == "Two boxes, one name"
    one, two = (gallery().get(name) for name in scene.traces)
    assert two.header.models[0].name == "oracle" and judge(one).right and not judge(two).right
    pairs = [step.commits for step in two.steps if step.commits and len(step.commits.tokens) == 2]
    assert len(pairs) == 2 and all(first == second for first, second in (pair.tokens for pair in pairs))
    assert {f"{chance:.2f}" for chance in pairs[0].probabilities} == {"0.25"} and "0.25 each" in scene.says[1].say
    names = one.text.split()
    assert two.text.split()[0] in scene.says[1].say and len({*two.text.split()}) == len(names) - 2
    (drawn,) = (found for found in parallelbench.derived("shuffle", len(names)) if found.per_forward == 2)
    share = Fraction(drawn.chance).limit_denominator(100)
    assert f"in only {share.numerator} of {share.denominator} cases" in scene.says[-1].say


def test_what_does_not_pay_saves_no_call_and_costs_nearly_twice_the_work():
    scene = next(scene for scene in SCENES if scene.title == "When it does not pay")
    plain, drafted = (gallery().get(name) for name in scene.traces)
    assert plain.text == drafted.text and plain.totals.forwards == drafted.totals.forwards == 32
    work = [run.totals.work_by_role["target"] for run in (plain, drafted)]
    layers, rest = divmod(work[0], len(plain.header.prompt_ids) + 31)  # one row for each token but the last
    assert not rest
    rows = [str(one // layers) for one in work]
    assert 1.8 < work[1] / work[0] < 2 and all(one in scene.says[-1].say for one in rows), rows


def test_an_entry_of_the_first_form_is_still_read_and_one_whose_runs_are_not_all_there_is_left_out(monkeypatch):
    old = msgspec.json.decode(b'[{"title": "T", "watch": "W", "traces": ["a", "b"]}]', type=list[Scenario])
    lever = {"label": "L", "slot": 1, "low": "l", "high": "h"}
    stop = {"value": 1, "trace": "c", "calls": 1, "say": "S"}
    new = msgspec.convert({**msgspec.to_builtins(old[0]), "lever": {**lever, "stops": [stop]}}, Scenario)
    monkeypatch.setattr(module, "own_json", lambda *_: [*old, new])
    assert scenarios(["a", "b"]) == old
    assert scenarios(["a", "b", "c"]) == [*old, new]
    assert (old[0].says, old[0].lever, old[0].question) == ((), None, "")


def test_a_broken_file_is_named_with_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "scenarios.json").write_text('[{"title": "T", "watch": "W", "traces": ["a"], "sayz": []}]')
    monkeypatch.setattr("explorer.own_files.ASSETS", tmp_path)
    with pytest.raises(UserError, match=r"scenarios.json is damaged .*sayz.*git checkout"):
        scenarios(["a"])


def test_every_sentence_is_given_to_those_who_translate():
    raw = own_json("scenarios.json")
    said = module.texts()
    assert {one["title"] for one in raw} <= set(said) and "Move the threshold" in " ".join(said)
    assert all(part["say"] in said for one in raw for part in one.get("says", []))
