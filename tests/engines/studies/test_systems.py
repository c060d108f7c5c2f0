"""Studies of time and memory: what follows from given parts, and small runs."""

import math
from types import SimpleNamespace

import pytest

import engines
from engines.methods.heads.ppd.dynamic_tree import search
from engines.methods.system.easyspec import fuzzy
from engines.methods.system.easyspec.fuzzy import ATTENTION, WHOLE
from engines.methods.system.mirror_sd.rounds import Latency
from engines.methods.system.specmemo.plan import TREES
from engines.studies import early_guesses, fuzzy_draft, memory_budget, row_budget
from engines.studies.early_guesses import DEPTHS, WIDTHS
from engines.studies.encode_once import Times, best, drawn
from engines.studies.fuzzy_draft import SIZES, Row
from engines.studies.memory_budget import Setting
from engines.studies.row_budget import BUDGETS, Point


def scheduled(**given):
    return engines.study("attention-schedule", **given).table("contexts").rows


def test_the_lengths_of_56_heads_on_108_processors():
    study = engines.study("attention-schedule", contexts="4096, 262144")
    found = {row[0]: row for row in study.table("contexts").rows}
    assert found[262_144][2:7] == [216, 7, 1024, 294, 266]
    assert found[4_096][4:7] == [16, 6, 5]
    assert found[262_144][7] == pytest.approx(294 / 266)
    *_, last = study.receipts
    assert last.result == pytest.approx(1024 / 532) and last.provenance == "modelled"  # plain, with twice the length


def test_no_schedule_is_shorter_than_all_slots_busy():
    for row in scheduled(heads=8, head_size=128, batch=3, processors=20):
        _, tiles, workers, _, plain, flash, lean, _, busy = row
        assert min(flash, lean) >= math.ceil(tiles / 40) and plain >= math.ceil(tiles / 20)
        assert lean == math.ceil(tiles / workers) and 0 < busy <= 1


def test_a_ragged_batch_planned_by_its_longest_context_leaves_workers_idle():
    for row in scheduled(contexts="65536, 262144", heads=8, batch=8, shortest=0.1):
        lean, planned = row[6:8]
        assert planned > lean


def test_an_untrained_pair_is_measured_and_marked_so():
    found = engines.study("encode-once", lengths="16, 48", width=96, new=4, turns=1, trained=False)
    rows = found.table("cpu").rows
    assert [row[:3] for row in rows] == [["untrained, width 96", 144 * 96**2 + 512 * 96, n] for n in (16, 48)]
    for _, _, n, a, b, change, c, d, faster, ours, twin in rows:
        assert min(a, b, c, d) > 0 and change == pytest.approx(100 * (a / b - 1)) and faster == pytest.approx(d / c)
        assert twin == 4 * ours == 2 * 12 * (n + 4) * 96 * 4
    assert {column.provenance for column in found.table("wall").columns} == {"given", "derived", "measured"}
    limits = {receipt.name: receipt.result for receipt in found.receipts if receipt.provenance == "derived"}
    assert sorted(limits.values()) == pytest.approx([2 / 3, 144 / 42, 4.0])
    assert found.models == []


def test_the_pairs_have_equal_weights_and_the_best_of_each_is_taken():
    one, two = drawn(96)
    assert sum(one.weights.values()) == sum(two.weights.values())
    assert best([Times(3, 1, 5, 2), Times(2, 4, 6, 1)]) == Times(2, 1, 5, 1)


def guessed(kappa):
    return engines.study("early-guesses", model="tiny-ar-m", prompts="story: Mia, boat", tokens=12, kappa=kappa)


def test_more_guesses_hold_more_and_every_exit_is_read_with_its_map_and_without():
    few, many = ({tuple(row[:2]): row[2:] for row in guessed(kappa).table("guesses").rows} for kappa in (1, 8))
    assert list(few) == [(i, kind) for i in range(1, 6) for kind in ("raw", "mapped")] == list(many)
    for key, (share, omega) in few.items():
        assert 0 <= share <= many[key][0] <= 1 and 0 < omega <= many[key][1] <= 1.0001
    assert few[1, "mapped"][0] > few[1, "raw"][0]  # what the map is for


def test_a_step_is_as_long_as_its_stages_say():
    study = guessed(2)
    rows = study.table("steps").rows
    assert [row[1] for row in rows[: len(WIDTHS)]] == list(WIDTHS) and len(rows) <= len(WIDTHS) * len(DEPTHS)
    for _, kappa, branches, budget, draft, exposed, step, serial, ratio in rows:
        assert branches == kappa * 4 and exposed == pytest.approx(max(0, draft - budget))
        assert ratio == pytest.approx(serial / step) and serial > step - budget
    assert {series.provenance for series in study.figure("step").series} == {"modelled"}
    assert study.receipts[0].result > 0


def test_longer_branches_move_the_end_of_a_step_once_they_outlast_the_upper_layers():
    layers, head = [1.0] * 8, 2.0
    p, branches = SimpleNamespace(gamma=3, kappa=8), {1: [3.0], 2: [5.0, 3.0], 4: [9.0]}
    study = early_guesses.told(p, 1, {(1, False): [1.0, 0.5]}, layers, head, branches, [])
    step = {tuple(row[:2]): row[6] for row in study.table("steps").rows}
    assert step[2, 1] == step[2, 2] == 2 + 2 + 8 and step[2, 4] == 2 + 2 + 9
    assert step[6, 1] == 6 + 2 + 4 and step[6, 2] == Latency(6, 4, [8], early=2).mirror


def test_agreement_falls_with_n_and_every_column_says_where_it_comes_from():
    found = engines.study("fuzzy-draft", model="tiny-ar-m", prompts="story: Mia, boat | add: 457 + 86", tokens=8)
    rows = found.table("sizes").rows
    assert [tuple(row[:2]) for row in rows] == [(way, N) for way in (ATTENTION, WHOLE) for N in SIZES]
    for _, _, share, low, high, overlap, ms, ratio in rows:
        assert 0 <= low <= share <= high <= 1 and 0 < overlap < 1.001 and ms > 0 and ratio >= 0.999
    overlap = {tuple(row[:2]): row[5] for row in rows}
    assert overlap[ATTENTION, 2] > overlap[ATTENTION, 4] and overlap[WHOLE, 2] > overlap[WHOLE, 4]
    assert [series.provenance for series in found.figure("time").series] == ["modelled"] * 2


def test_the_modelled_time_follows_from_the_parts():
    times = fuzzy.Times()
    for layer in range(6):
        at = 3.0 * layer
        times.parts += [(f"attention {layer + 1}", at, at + 2), (f"feed-forward {layer + 1}", at + 2, at + 3)]
    times.parts.append(("head", 18.0, 21.0))
    rows = {(way, N): Row(1, [0.5]) for way in (ATTENTION, WHOLE) for N in SIZES}
    found = fuzzy_draft.told(rows, 1, 1, [times], SimpleNamespace(ends=1), None)
    ratio = {tuple(row[:2]): row[7] for row in found.table("sizes").rows}
    assert ratio[ATTENTION, 2] == pytest.approx(21 / 17)  # two pairs save an attention each
    assert ratio[ATTENTION, 4] == pytest.approx(21 / 15) == found.receipts[0].result
    assert ratio[WHOLE, 4] == pytest.approx(21 / 12)


def test_lean_saves_bytes_and_each_size_is_run():
    found = engines.study("memory-budget", model="tiny-ar-m", prompts="story: Mia, boat", tokens=8, repeats=1, batch=2)
    rows = found.table("settings").rows
    assert [tuple(row[:2]) for row in rows] == [*(("lean", T) for T in TREES), ("reference", 16)]
    peaks = [row[5] for row in rows]
    assert peaks[:-1] == sorted(peaks[:-1]) and peaks[-1] > max(peaks[:-1])
    assert rows[0][2] == pytest.approx(2, abs=0.3)  # two sequences, a token each
    for _, _, written, speed, kept, peak, saved, process in rows:
        assert written >= 1 and speed > 0 and process > 10
        assert kept == pytest.approx(speed / rows[-1][3]) and saved == pytest.approx(1 - peak / peaks[-1])


@pytest.mark.parametrize(("share", "T"), [(0.96, 8), (0.5, 2), (1.0, 16)])
def test_the_budget_that_keeps_a_share_is_the_smallest_one(share, T):
    speeds = {1: 40, 2: 60, 4: 80, 8: 98, 16: 100, 32: 70}
    lean = [Setting("lean", n, [speed], [1.0], 10, n * 1000, 5, 10_000) for n, speed in speeds.items()]
    whole = Setting("reference", 16, [90], [1.0], 10, 100_000, 5, 10_000)
    least, kept = memory_budget.told([*lean, whole], share, None).receipts
    assert least.inputs["T"] == 2 and least.result == pytest.approx(0.012)
    assert kept.inputs["T"] == T and kept.result == pytest.approx(0.01 + T / 1000)


A = [[0.4, 0.2, 0.1, *[0.02] * 7], [0.3, 0.1, 0.1, *[0.02] * 7], [0.2, 0.1, 0.05, *[0.02] * 7]]


def test_each_budget_is_run_and_the_best_is_the_one_with_the_largest_gain():
    found = engines.study("row-budget", model="tiny-ar-m", prompt="add: 457 + 86", tokens=8, repeats=1)
    rows = found.table("budgets").rows
    assert [row[0] for row in rows] == list(BUDGETS)
    for B, total, released, real, tokens, ms, gain in rows:
        assert 1 < total <= 1 + 3 + B and released < real < 3 and 1 <= tokens <= 4 and ms > 0 and gain > 0
    assert [row[3] for row in rows] == sorted(row[3] for row in rows)  # more rows are never worse before they cost
    receipt = found.receipts[0]
    given = receipt.inputs
    assert receipt.result == pytest.approx((1 + given["f"]) * given["t(1)"] / given["t(B)"])
    assert receipt.result == max(row[6] for row in rows)


@pytest.mark.parametrize(("slope", "best"), [(0.0, 64), (5.0, 20)])
def test_time_that_does_not_grow_asks_for_the_largest_budget_and_steep_time_for_the_smallest(slope, best):
    points = [Point(B, search(A, B), 1.0 + B, 40 + slope * (B - 20), 1.0) for B in BUDGETS]
    assert f"B = {best}," in row_budget.told(points, 40.0, None).receipts[0].name
