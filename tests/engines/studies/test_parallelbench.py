"""ParallelBench: what is derived against what the exact oracle does, the grid, the record, and the command that makes
it."""

import math
from itertools import pairwise, permutations

import msgspec
import pytest
import torch

import engines
from engines import UserError
from engines.studies import parallelbench
from engines.studies.parallelbench import (
    ADAPTIVE,
    ALL,
    GRID,
    ITEMS,
    LENIENT,
    STRICT,
    THRESHOLDS,
    WRONG,
    Outcome,
    Setting,
    chance,
    derived,
)
from engines.tasks import Example, check, recognise
from explorer import cli
from explorer.bench.quality import PARALLELBENCH
from explorer.cli.io import write
from tests.engines.fakes import chi_square_p

ORACLE = engines.load_model("oracle")
COUPLED = ("shuffle", "replace any")


def right_ids(prompt):
    """All right answers of a prompt as tuples of ids."""
    ids = ORACLE.tokenizer.encode_prompt(prompt)
    return [tuple(row) for row in ORACLE.answers_on(torch.tensor([*ids, *[ORACLE.mask_id] * 24]))[1].tolist()]


def listed(task, n):
    names = "Ada Ben Cleo Dan Eli Finn Gina".split()[:n]
    return f"{task}: {'Zoe in ' if task == 'replace any' else ''}{' '.join(names)}"


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("task", [*COUPLED, "copy"])
def test_closed_forms_are_what_listing_all_answers_gives(task, n):
    """In any order of the places, one after the other in sets."""
    answers, orders = right_ids(listed(task, n)), list(permutations(range(n)))
    for form in derived(task, n):
        starts = range(0, n, form.per_forward)
        chances = [chance(answers, [order[i : i + form.per_forward] for i in starts]) for order in orders]
        assert form.chance == pytest.approx(math.fsum(chances) / len(orders), abs=1e-12)
        sets = [list(range(i, i + form.per_forward)) for i in starts]
        assert form.bound == pytest.approx(engines.joint.expected_correlation(torch.tensor(answers), sets), abs=1e-9)


def test_fewer_forwards_never_cost_less():
    """The bound falls when a set is split, and so does the risk."""
    assert [form[1:] for form in derived("reverse", 6)] == [(1.0, 0.0)] * 4
    assert derived("latin", 6) == derived("insert any", 6) == []
    for task in COUPLED:
        forms = derived(task, 12)
        assert [form.per_forward for form in forms] == [1, 2, 3, 4, 6, 12] and forms[0][1:] == (1.0, 0.0)
        for few, many in pairwise(forms):
            assert few.bound < many.bound and few.chance > many.chance


def test_the_chance_of_sets_counts_every_answer_once_and_weighs_doubles():
    both = [(1, 2), (2, 1)]
    assert chance(both, [[0, 1]]) == 0.5 and chance(both, [[0], [1]]) == chance(both, []) == 1
    assert chance([(1, 1), (1, 2), (1, 2)], [[0, 1]]) == 1.0  # the second place alone decides
    every = list(permutations(range(3)))
    assert chance(every, [[0, 2], [1]]) == pytest.approx(2 / 3) and chance(every, [[0, 1, 2]]) == pytest.approx(6 / 27)


@pytest.mark.parametrize(("task", "k"), [("shuffle", 2), ("replace any", 2), ("replace any", 4)])
def test_the_oracle_succeeds_as_often_as_derived_and_not_as_a_wrong_form_says(task, k):
    """150 real runs at n = 4, random order, sampled; the control is a form for one forward more or less."""
    made = next(s for s in parallelbench.settings("masked", 4) if s.sampled and s.per_forward == k)
    example, forms = recognise(listed(task, 4)), {form.per_forward: form for form in derived(task, 4)}
    got = [parallelbench.outcome(ORACLE, made, example, seed) for seed in range(150)]
    assert {one.forwards for one in got} == {4 // k} and {one.tokens for one in got} == {4}
    assert {round(one.chance, 9) for one in got} == {round(forms[k].chance, 9)}
    assert {round(one.bound, 6) for one in got} == {round(forms[k].bound, 6)}
    hits, wrong = sum(one.mark == STRICT for one in got), forms[1 if k == 4 else 4].chance
    assert chi_square_p([hits, 150 - hits], [forms[k].chance, 1 - forms[k].chance]) > 0.001
    assert chi_square_p([hits, 150 - hits], [wrong, 1 - wrong]) < 0.001


@pytest.mark.parametrize("canvas", [6, 16])
def test_the_grid_holds_what_it_declares_and_every_setting_runs(canvas):
    made = parallelbench.settings("masked", canvas)
    keys = {one.key for one in made}
    assert len(keys) == len(made)
    assert keys >= {one.key for one in parallelbench.settings("masked", 2)}  # other boards share what they can
    assert {one.order for one in made} == {*parallelbench.ORDERS, parallelbench.LEFT_TO_RIGHT, ADAPTIVE}
    assert sorted(one.threshold for one in made if one.order == ADAPTIVE and one.blocks == 1) == list(THRESHOLDS)
    for one in made:  # refused on construction if it does not fit
        engines.stream(one.method, "oracle", "copy: Mia, Leo", params=one.params).close()
        assert one.params["max_new_tokens"] == canvas and one.sampled == (one.params.get("temperature", 0) > 0)
        assert not one.per_forward or one.params["steps"] * one.per_forward == canvas


@pytest.mark.parametrize(
    ("text", "mark"),
    [("B C A\nA B C\nC A B", STRICT), ("B C A A B C C A B", LENIENT), ("A B C\nB C A\nB C A", WRONG), ("", WRONG)],
)
def test_marks_are_strict_about_white_space_only(text, mark):
    square = Example("latin", "latin: A B C", "A B C\nB C A\nC A B")
    assert parallelbench.mark(square, text) == mark


def test_one_token_per_forward_never_fails_on_the_oracle():
    """Invariant 1, for the orders that write exactly one; a schedule on a time grid does not, and its bound says so."""
    part = parallelbench.run(ORACLE, ["copy", "insert any", "sentence"], 2)
    assert set(part.refused) == {"sentence"} and "nothing that the oracle can answer" in part.refused["sentence"]
    single = [p for p in part.points if p.forwards == ITEMS and p.bound == 0]
    assert {p.setting.order for p in single} >= {"low confidence", "random", "left to right"}
    assert all(p.right == 2 for p in single)
    assert all(p.right == 2 and p.bound == 0 for p in part.points if p.task == "copy")
    assert any(p.right < 2 and p.bound > 0 for p in part.points if p.task == "insert any")
    for p in part.points:
        assert p.forwards * p.tokens_per_forward == pytest.approx(ITEMS)  # invariant 6
        assert (p.chance is None) == (not (p.setting.sampled and p.setting.order == "random"))


def one_setting(order, marks, forwards):
    made = Setting(order, 1, 1, None, False, "some", {})
    return made, [Outcome(mark, n, 6, None, None) for mark, n in zip(marks, forwards, strict=True)]


def test_the_oracle_view_chooses_for_every_prompt_and_compares_on_the_same_ones():
    """All tasks together use the settings that all have."""
    slow, fast = one_setting("slow", "==~.", [6, 6, 6, 6]), one_setting("fast", "=..=", [2, 2, 2, 2])
    view = next(view for view in parallelbench.speedups({"copy": [slow, fast]}) if view.task == "copy")
    assert view.best.startswith("slow") and view.share == 3 / 4 and view.solved == 1 and view.forwards == 6
    assert view.chosen == pytest.approx((2 + 6 + 6) / 3) and view.factor == pytest.approx(18 / 14)
    assert parallelbench.speedups({"copy": [one_setting("none", "..", [1, 1])]}) == []
    easy = [one_setting("slow", "==", [6, 6]), one_setting("fast", "==", [1, 1])]
    hard = [one_setting("slow", "==", [6, 6]), one_setting("fast", "..", [1, 1]), one_setting("other", "==", [2, 2])]
    found = {view.task: view for view in parallelbench.speedups({"copy": easy, "shuffle": hard})}
    assert {task: view.best.split(",")[0].split()[0] for task, view in found.items()} == {
        "copy": "fast", "shuffle": "other", ALL: "slow"
    }  # fmt: skip
    assert found[ALL].chosen == pytest.approx((1 + 1 + 6 + 6) / 4)


def test_what_ships_is_of_the_models_and_methods_that_are_here_and_gives_the_same_again():
    """Stale weights or a changed oracle are refused: make the file again with `decoding-explorer parallelbench --json
    FILE`."""
    parts = parallelbench.recorded(PARALLELBENCH)
    assert {part.model.name for part in parts} == {"oracle", "tiny-dlm"}
    for part in parts:
        model = engines.load_model(part.model.name)
        assert part.model.sha256 == model.record.sha256, f"{part.model.name} is not the model that was recorded"
        assert {p.task for p in part.points} | set(part.refused) == set(GRID)
        for task in set(GRID) - set(part.refused):
            ran = [p.setting for p in part.points if p.task == task]
            assert ran == parallelbench.settings(model.record.kind, ran[0].params["max_new_tokens"])
        assert all(p.tried == part.prompts for p in part.points)
        assert {view.task for view in part.speedups} >= {ALL, "copy"}
        assert all(view.factor >= 1 for view in part.speedups)
        settings = [p for p in part.points if p.task == "replace any"]
        for point in (
            next(p for p in settings if p.setting.order == "random" and p.setting.sampled),
            next(p for p in settings if p.setting.order == ADAPTIVE),
        ):
            asked = parallelbench.examples(point.task, min(3, point.tried))
            again = [parallelbench.outcome(model, point.setting, example, seed) for seed, example in enumerate(asked)]
            assert "".join(one.mark for one in again) == point.marks[: len(asked)]


def test_a_trace_is_the_prompt_of_a_point_again():
    part = next(part for part in parallelbench.recorded(PARALLELBENCH) if part.model.name == "oracle")
    point = next(p for p in part.points if p.task == "shuffle" and p.setting.sampled and p.setting.per_forward == ITEMS)
    index = point.first(wrong=True)
    assert index == point.marks.index(WRONG)
    trace = parallelbench.trace_of(point, index)
    assert trace.header.prompt == parallelbench.examples("shuffle", index + 1)[index].prompt
    assert trace.header.seed == index and trace.totals.forwards == 1 and trace.steps[0].candidates
    assert not check(recognise(trace.header.prompt), trace.text).correct
    for wrong in (-1, point.tried):
        with pytest.raises(UserError, match=f"it has 0 to {point.tried - 1}"):
            parallelbench.trace_of(point, wrong)


def test_the_command_replaces_a_model_keeps_the_others_and_runs_those_of_the_file_again(tmp_path, capsys):
    file = tmp_path / "bench.json.gz"
    command = ["parallelbench", "--json", str(file)]
    assert cli.main([*command, "--model", "oracle", "--task", "copy", "--task", "sentence", "--prompts", "1"]) == 0
    said = capsys.readouterr().out
    for line in ("oracle, 1 held-out prompts", "sentence: not run", "random, 6 per forward, sampled"):
        assert line in said
    (one,) = parallelbench.recorded(file)
    other = msgspec.structs.replace(one, model=msgspec.structs.replace(one.model, name="another"))
    write(str(file), parallelbench.as_json([other, one]))
    assert cli.main([*command, "--model", "oracle", "--task", "reverse", "--prompts", "2"]) == 0
    kept, new = parallelbench.recorded(file)
    assert kept == other and new.prompts == 2 and {p.task for p in new.points} == {"reverse"}
    write(str(file), parallelbench.as_json([new]))
    assert cli.main([*command, "--task", "reverse"]) == 0, "without a model those of the file, with as many prompts"
    assert [part.points for part in parallelbench.recorded(file)] == [new.points]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no model is given"),
        (["--model", "oracle", "--prompts", "0"], "--prompts 0 is too few"),
        (["--model", "oracle", "--task", "sentence"], "oracle takes none of these tasks"),
        (["--model", "oracle", "--json", "/nowhere/file.json"], "there is no folder"),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_sentence(arguments, said, capsys):
    assert cli.main(["parallelbench", *arguments]) == 2
    assert said in capsys.readouterr().err
