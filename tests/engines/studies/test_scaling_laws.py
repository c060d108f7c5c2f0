"""Scylla's laws on numbers that are known, the counting of rounds against a real loop, and the study on the shipped
grid."""

from functools import partial
from pathlib import Path

import pytest
import torch

import engines
from engines.models.parts import load_part
from engines.studies import scaling_laws
from engines.studies import scaling_laws as grid
from engines.studies import scaling_laws as laws
from engines.studies import scaling_laws as plan

ROOT, ENDS = Path(__file__).resolve().parents[3], ("d16x1", "d64x4")


def test_a_line_is_found_and_a_bend_is_seen():
    x = [10.0, 100.0, 1000.0, 10000.0]
    line = laws.loglinear(x, [1.0, 1.5, 2.0, 2.5])
    assert (line.slope, line.intercept, line.r2) == pytest.approx((0.5, 0.5, 1.0))
    bent = [3 - 2 * one**-0.5 for one in x]
    assert abs(laws.miss("saturating", x, bent)) < 1e-6 < 0.1 < laws.miss("log-linear", x, bent)
    assert laws.miss("constant", x, [1.0, 1.5, 2.0, 2.5]) == pytest.approx(-1)
    assert laws.miss("linear", x, [10.0, 100.0, 1000.0, 10000.0]) == pytest.approx(0)
    assert laws.loglinear(x, [0.25] * 4).r2 is None, "where nothing varies there is nothing to explain"
    assert scaling_laws.nearest_form([0.0, 0.0, 0.0, 1e-15]) == "no difference"
    assert scaling_laws.nearest_form([0.2, -0.1, 0.3, 0.1]) == "no difference"
    assert scaling_laws.nearest_form([0.2, -0.1, 0.3, 0.4]) == laws.FORMS[1]


@pytest.mark.parametrize(
    ("law", "x", "sentence"),
    [
        (laws.loglinear, [5.0], "two different points and 1 is given"),
        (laws.loglinear, [0.0, 1.0], "has no logarithm"),
        (partial(laws.miss, "log-linear"), [1.0, 10.0], "2 points are given"),
    ],
)
def test_what_has_no_line_is_refused(law, x, sentence):
    with pytest.raises(engines.UserError, match=sentence):
        law(x, [1.0] * len(x))


def test_rounds_by_hand():
    assert laws.rounds([True, True, False, True, True, True], 2) == (2, 6)  # two and one, two and one
    assert laws.rounds([False] * 4, 3) == (4, 4) and laws.rounds([], 3) == (0, 0)
    assert laws.rounds([True] * 7, 6) == (1, 7) and laws.rounds([True, False, True], 0) == (3, 3)


def test_the_best_width_never_grows_with_the_batch_once_rows_cost():
    """Free up to 16 rows, then in a straight line: the knee."""
    tau = {n: 1 + sum(0.7**i for i in range(1, n)) for n in (1, 2, 4, 8)}
    speeds = {
        (B, n): laws.throughput(max(16, B * n), 0.5, tau[n], B, n) for B in (1, 2, 4, 8, 16, 32) for n in (1, 2, 4, 8)
    }
    found = list(laws.best(speeds).values())
    assert found == sorted(found, reverse=True) and found[0] > 1 == found[-1]
    assert speeds[4, 1] == pytest.approx(1e3 * 4 / 16)


@pytest.fixture(scope="module")
def shipped():
    model = engines.load_model("tiny-ar-l", dtype="float32")
    part = load_part("draft-grid", [model.record])
    told = grid.answers(model, ["add: 457 + 86", "sort: Zoe, Mia, Leo, Ada", "copy: blue red"], 16)
    drafts = list(grid.checkpoints(part, model.model.get_input_embeddings().weight, model.max_positions))
    return model, told, drafts


def test_the_rounds_are_those_of_a_real_loop_and_shared_mass_is_one_minus_total_variation(shipped):
    """Draft gamma tokens one by one, compare with the target's greedy answer, go on behind the first that differs."""
    _, told, drafts = shipped
    *_, draft = drafts[-1]
    found, _ = grid.compared(draft, told, 3)
    start = 0
    for text, n in enumerate(told.counts):
        first, answer = int(told.rows[start, 1]) + 1, told.wanted[start : start + n].tolist()
        ids, steps = told.ids[text, :first].tolist(), 0
        while len(ids) < first + n:
            drafted = list(ids)
            for _ in range(3):
                drafted.append(int(draft(torch.tensor([drafted]))[0, -1].argmax()))
            left, kept = answer[len(ids) - first :], 0
            while kept < min(3, len(left)) and drafted[len(ids) + kept] == left[kept]:
                kept += 1
            ids, steps = [*ids, *left[: kept + 1]], steps + 1
        assert (found[text].rounds, found[text].tokens) == (steps, n)
        start += n
    q = draft(told.ids)[told.rows[:, 0], told.rows[:, 1]].double().softmax(-1)
    tvd = (told.p - q).abs().sum(-1) / 2
    assert sum(one.shared for one in found) == pytest.approx(float((1 - tvd).sum()), abs=1e-6)


@pytest.fixture(scope="module")
def studied():
    """One run of the study, and what it told on the way."""
    makes = []
    return engines.study("scaling-laws", partial=makes.append, prompts=6, tokens=8, batch=False, budget=0), makes


def test_the_study_measures_and_other_prompts_give_other_points(studied):
    found, _ = studied
    points = found.table("points")
    assert len(points.rows) == 24 and all(row[4] <= row[3] <= row[5] for row in points.rows)
    small, large = (row for row in points.rows if row[2] == max(r[2] for r in points.rows) and row[0] in ENDS)
    assert large[6] > small[6]  # the largest agrees more often than the smallest
    assert len(found.table("laws").rows) == 5 and all((row[6] or 0) <= 1 for row in found.table("laws").rows)
    other = engines.study("scaling-laws", prompts=6, tokens=8, batch=False, budget=0, seed=1)
    assert other.table("points").rows != points.rows


def test_batches_are_timed_for_every_width_and_a_stop_is_heard_meanwhile(shipped):
    model, _, drafts = shipped
    target_ms, draft_ms = grid.timed(model, drafts[0][-1], (1, 2), (1, 3))
    assert set(target_ms) == {(1, 1), (1, 3), (2, 1), (2, 3)} and set(draft_ms) == {1, 2}
    assert min(*target_ms.values(), *draft_ms.values()) > 0
    heard = iter([None, None, KeyboardInterrupt()])

    def stop():
        if error := next(heard):
            raise error

    with pytest.raises(KeyboardInterrupt):  # before each batch of each turn
        grid.timed(model, drafts[0][-1], (1, 2), (1,), stop)


def test_a_plan_takes_the_size_that_is_fastest_for_its_budget():
    """A small draft learns at once and stays; a large one costs more and learns on: so the choice turns over."""
    small = plan.Offer("small", laws.Line(0.02, 0.2, 1.0), 10_000, 0.05, 1e5)
    large = plan.Offer("large", laws.Line(0.2, -0.5, 1.0), 2_000, 0.15, 1e5)
    chosen = [
        next(row[0] for row in plan.plan_table([small, large], seconds).rows if row[-1]) for seconds in (1, 10_000)
    ]
    assert chosen == ["small", "large"]
    D, A, gamma, speed = large.at(50)
    assert D == 100_000 and pytest.approx(0.5) == A and speed == max(plan.speed(A, 0.15, g) for g in plan.WINDOWS)
    assert gamma == 2
    assert large.at(10**9)[1] == 0.99  # a share has an end that a line has not
    figure = plan.plan_figure([small, large], 60)
    assert all(len(one.x) == len(plan.SPREAD) for one in figure.series)


def test_the_study_plans_with_what_it_measured():
    found = engines.study("scaling-laws", prompts=6, tokens=8, points=3, batch=False, budget=5)
    table = found.table("plan")
    assert len(table.rows) == 4 and sum(row[-1] for row in table.rows) == 1
    assert all(row[2] == pytest.approx(5 * row[1]) and row[3] > 0 and row[7] > 0 for row in table.rows)
    again = engines.study("scaling-laws", prompts=6, tokens=8, points=3, batch=False, budget=0)
    assert again.table("points").rows == found.table("points").rows  # training for the clock changed no shipped weights
    assert "plan" not in [one.name for one in again.tables]


def test_points_come_one_by_one_with_what_plays_them(studied):
    whole, makes = studied
    assert len(makes) == 24 and makes[-1]().table("points") == whole.table("points")
    first, third = makes[0](), makes[2]()
    assert len(first.table().rows) == 1 and [one.name for one in first.tables] == ["points"] and not first.receipts
    assert [len(one.figure("training").series) for one in (first, third)] == [1, 2]  # no line through one point
    assert third.table("laws").rows
    *_, last = runs = [run for one in whole.figure("training").series for run in one.runs]
    assert len(runs) == 24 and last.model == "tiny-ar-l@d64x4.512" and last.params == {"gamma": 5}
    trace = engines.run(last.method, last.model, "add: 45 + 86", params=last.params | {"max_new_tokens": 8})
    assert trace.header.models[1].name == "tiny-ar-l-draft-grid@d64x4.512"
