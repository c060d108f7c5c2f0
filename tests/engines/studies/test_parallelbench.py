"""ParallelBench: what is derived against what the exact oracle does, the grid, the record, and the command that makes
it."""

import json
import math
from itertools import combinations, pairwise, permutations

import msgspec
import pytest
import torch

import engines
from engines import UserError
from engines.studies import parallelbench
from engines.studies._closed_forms import chance, derived
from engines.studies._parallel_grid import ADAPTIVE, GRID, ITEMS, THRESHOLDS, Setting
from engines.studies._parallel_points import ALL, LENIENT, STRICT, WRONG, Outcome
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


def in_random_order(answers, k, places):
    """The chance averaged over every way to split the places into sets of k, one after the other."""

    def splits(left):
        if not left:
            yield []
        for one in combinations(left, k):
            for rest in splits([p for p in left if p not in one]):
                yield [one, *rest]

    every = [chance(answers, sets) for sets in splits(list(places))]
    return math.fsum(every) / len(every)


def listed(task, n):
    names = "Ada Ben Cleo Dan Eli Finn Gina".split()[:n]
    return f"{task}: {'Zoe in ' if task == 'replace any' else ''}{' '.join(names)}"


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("task", [*COUPLED, "copy"])
def test_closed_forms_are_what_listing_all_answers_gives(task, n):
    answers = right_ids(listed(task, n))
    for form in derived(task, n):
        assert form.chance == pytest.approx(in_random_order(answers, form.per_forward, range(n)), abs=1e-12)
        sets = [list(range(i, i + form.per_forward)) for i in range(0, n, form.per_forward)]
        assert form.bound == pytest.approx(engines.joint.expected_correlation(torch.tensor(answers), sets), abs=1e-9)


def test_one_forward_is_the_form_of_the_card_and_fewer_forwards_never_cost_less():
    """The bound falls when a set is split, and so does the risk."""
    for n in (3, 6):
        orders = n, math.factorial(n) / n**n, n * math.log(n) - math.log(math.factorial(n))
        assert derived("shuffle", n)[-1] == pytest.approx(orders)
        one_of_n = n, (1 - 1 / n) ** (n - 1), (n - 1) * math.log(n / (n - 1))
        assert derived("replace any", n)[-1] == pytest.approx(one_of_n)
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


def test_orders_are_what_their_names_say():
    pairs = [s for s in parallelbench.settings("masked", 6) if s.per_forward == 2 and not s.sampled and s.blocks == 1]
    made = {one.order: one for one in pairs}
    assert [one for one in pairs if engines.get_method(one.method).info.baseline] == []
    for order, words in parallelbench.ORDERS.items():
        assert set(words) & set(made[order].params.values())
    for order in ("low confidence", "random"):
        trace = engines.run(made[order].method, "oracle", "copy: Ada Ben Cleo Dan Eli Finn", params=made[order].params)
        assert [len(step.commits.positions) for step in trace.steps] == [2, 2, 2]


def test_boards_are_as_long_as_the_answers():
    for task in GRID:
        asked = parallelbench.examples(task, 3)
        assert asked == parallelbench.examples(task, 5)[:3]
        if task != "sentence":
            length = parallelbench.canvas(task, asked, ORACLE.tokenizer)
            assert length == {"latin": 20, "sudoku": 16}.get(task, ITEMS)


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
    found = {view.task: view for view in parallelbench.speedups({"copy": [slow, fast]})}
    view = found["copy"]
    assert found[ALL] == msgspec.structs.replace(view, task=ALL)
    assert view.best.startswith("slow") and view.share == 3 / 4 and view.solved == 1 and view.forwards == 6
    assert view.chosen == pytest.approx((2 + 6 + 6) / 3) and view.factor == pytest.approx(18 / 14)
    assert parallelbench.speedups({"copy": [one_setting("none", "..", [1, 1])]}) == []
    easy = [one_setting("slow", "==", [6, 6]), one_setting("fast", "==", [1, 1])]
    hard = [one_setting("slow", "==", [6, 6]), one_setting("fast", "..", [1, 1]), one_setting("other", "==", [2, 2])]
    found = {view.task: view for view in parallelbench.speedups({"copy": easy, "shuffle": hard})}
    assert found[ALL].best.startswith("slow") and found[ALL].forwards == 6
    assert found[ALL].chosen == pytest.approx((1 + 1 + 6 + 6) / 4)
    assert found["shuffle"].best.startswith("other") and found["copy"].best.startswith("fast")


def test_the_record_may_be_compressed(tmp_path):
    parts = parallelbench.recorded(PARALLELBENCH)
    plain, packed = tmp_path / "parts.json", tmp_path / "parts.json.gz"
    for file in (plain, packed):
        write(str(file), parallelbench.written(parts))
        assert parallelbench.recorded(file) == parts
    assert packed.stat().st_size < plain.stat().st_size / 10
    assert json.loads(plain.read_text())[0]["model"]["name"] == "oracle"


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


def test_what_was_recorded_of_the_oracle_agrees_with_what_is_derived():
    """All sampled points together: the sum of squared deviations over their variances is a chi-square of one degree
    each."""
    points = [p for part in parallelbench.recorded(PARALLELBENCH) for p in part.points if p.chance is not None]
    certain, open_ = [p for p in points if p.chance > 1 - 1e-9], [p for p in points if p.chance <= 1 - 1e-9]
    assert certain and all(p.right == p.tried for p in certain)
    assert {p.task for p in open_} == {"shuffle", "replace any", "insert any", "remove any", "latin"}
    for task in {p.task for p in open_}:
        forms = {form.per_forward: form for form in derived(task, ITEMS)}
        for p in (p for p in open_ if p.task == task and forms):
            assert (p.chance, p.bound) == pytest.approx(forms[p.setting.per_forward][1:])
    expected, spread = sum(p.chance * p.tried for p in open_), sum(p.chance * (1 - p.chance) * p.tried for p in open_)
    assert abs(sum(p.right for p in open_) - expected) < 3.5 * math.sqrt(spread)


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


def test_the_command_replaces_a_model_and_keeps_the_others(tmp_path, capsys):
    file = tmp_path / "bench.json"
    command = ["parallelbench", "--model", "oracle", "--json", str(file)]
    assert cli.main([*command, "--task", "copy", "--task", "sentence", "--prompts", "1"]) == 0
    said = capsys.readouterr().out
    for line in ("oracle, 1 held-out prompts", "sentence: not run", "random, 6 per forward, sampled"):
        assert line in said
    body = json.loads(file.read_text())
    file.write_text(json.dumps([body[0] | {"model": body[0]["model"] | {"name": "another"}}, body[0]]))
    assert cli.main([*command, "--task", "reverse", "--prompts", "2"]) == 0
    kept, new = parallelbench.recorded(file)
    assert kept.model.name == "another" and kept.prompts == 1 and {p.task for p in kept.points} == {"copy"}
    assert new.prompts == 2 and {p.task for p in new.points} == {"reverse"}
    assert parallelbench.written([kept, new]) == file.read_text()


def test_without_a_model_those_of_the_file_run_again_with_as_many_prompts(tmp_path):
    file = tmp_path / "bench.json"
    arguments = ["parallelbench", "--task", "copy", "--json", str(file)]
    assert cli.main([*arguments, "--model", "oracle", "--prompts", "2"]) == 0
    before = file.read_text()
    (part,) = parallelbench.recorded(file)
    assert part.command.endswith("bench.json --model oracle --prompts 2") and len(part.date) == len("2026-11-26")
    file.write_text(before.replace('"marks":"=="', '"marks":".."'))
    assert cli.main(arguments) == 0 and file.read_text() == before.replace(" --model oracle --prompts 2", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no model is given"),
        (["--model", "oracle", "--prompts", "0"], "--prompts 0 is too few"),
        (["--model", "tiny-ar-s", "--task", "copy"], "the benchmark runs on masked models"),
        (["--model", "oracle", "--task", "sentence"], "oracle takes none of these tasks"),
        (["--model", "oracle", "--json", "/nowhere/file.json"], "there is no folder"),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_sentence(arguments, said, capsys):
    assert cli.main(["parallelbench", *arguments]) == 2
    assert said in capsys.readouterr().err
