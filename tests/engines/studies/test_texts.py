"""Studies of what is written: samplers, lexical units, a threshold from code, facts in documents."""

import json
import re
from pathlib import Path

import pytest

import engines
from engines.studies._coherence import prompts, write
from engines.studies._threshold import learn, references, split, statistics
from engines.studies.lexical_units import LINES

ROOT = Path(__file__).resolve().parents[3]
TEXT = "sort: Mia, Leo, Ada"
METHODS = {
    "plain": ("temperature", {}), "top-k 50": ("top-k", {}), "top-p 0.9": ("top-p", {}),
    "min-p 0.1": ("min-p", {}), "top-H paper": ("top-h", {"variant": "paper"}),
    "top-H official": ("top-h", {"variant": "official"}), "top-H hf": ("top-h", {"variant": "hf"}),
}  # fmt: skip


def test_each_lane_is_the_run_of_its_method():
    model = engines.load_model("tiny-ar-l")
    lanes = [(name, 2.0) for name in METHODS]
    found = write(model, model.tokenizer.encode_prompt(TEXT), 10, 3, lanes)
    for name, (slug, options) in METHODS.items():
        params = {"max_new_tokens": 10, "temperature": 2.0, **options}
        run = engines.run(slug, model, TEXT, params=params, seed=3, detail="full")
        one = found[name, 2.0]
        assert one.ids == [token for step in run.steps for token in step.commits.tokens], name
        assert one.kept == [step.facts["kept"] for step in run.steps]
        if "mass" in run.steps[0].facts:
            mass = [step.facts["mass"] for step in run.steps]
            assert one.mass == pytest.approx(mass, rel=1e-5)  # rows of other lanes
        assert all(0 < mass <= 1 + 1e-9 for mass in one.mass) and (name != "plain" or min(one.mass) > 1 - 1e-9)
        bits = [float(lane.values.array()[0]) for step in run.steps for lane in step.scores if lane.name == "surprise"]
        assert one.nats == pytest.approx([-bit * 0.6931471805599453 for bit in bits], abs=0.02)


def test_the_record_that_ships_has_all_prompts_and_says_what_the_lesson_says():
    found = engines.Study.from_json((ROOT / "assets/studies/coherence-of-samplers.json").read_text("utf-8"))
    assert found.inputs["prompts"] == len(prompts(99)) == 20 and found.inputs["tokens"] == 60
    rows = {(row[0], row[1]): row for row in found.tables[0].rows}
    assert len(rows) == 35 and all(row[3] < row[2] < row[4] for row in rows.values())
    caveat = json.loads((ROOT / "assets/papers/top-h.json").read_text("utf-8"))["lessons"][0]["caveat"]
    named = {"plain": "plain", "top-p 0.9": "top-p", "top-k 50": "top-k", "min-p 0.1": "min-p"}
    named |= {"top-H paper": "paper's rule", "top-H official": "authors' code", "top-H hf": "transformers' form"}
    for name, words in named.items():
        _, _, nats, low, high, *_ = rows[name, 2.0]
        said = f"−{-nats:.1f} (−{-low:.1f} to −{-high:.1f}) for"
        assert re.search(re.escape(said) + r" (the )?" + re.escape(words), caveat), (name, said)


SMALL = {"model": "tiny-ar-m", "tasks": "copy, spell", "prompts": 1, "tokens": 16}


def test_the_table_says_what_was_run():
    found = engines.run_study("lexical-units", SMALL)
    rows = {row[0]: row for row in found.tables[0].rows}
    plain, tuned, ours = (
        rows[name] for name in ("untouched, one by one", "tuned, one by one", "units, verified (ours)")
    )
    assert len(rows) == len(LINES) + 3 and plain[1] == tuned[1] == tuned[4] == 1.0
    assert ours[1] > 1 and ours[4:7] == plain[4:7] and rows["units, line 0.3"][1] >= rows["units, line 0.99"][1]
    assert [one.y for one in found.figures[0].series] == [[rows[f"units, line {line:g}"][1] for line in LINES]]
    assert 0 <= found.receipts[0].result < 1


@pytest.fixture(scope="module")
def learned_from_code():
    return engines.study("threshold-from-code", model="tiny-ar-l", functions=6)


def test_the_numbers_are_those_of_the_references(learned_from_code):
    model, H, rank1 = engines.load_model("tiny-ar-l"), [], []
    for prompt, reference in references(6):
        h, y = statistics(model, prompt, reference)
        H, rank1 = H + h, rank1 + y
    rows = dict(learned_from_code.table("threshold").rows)
    learned = learn(*split(H, rank1))
    assert rows["functions"] == 6 and rows["tokens"] == len(H)
    assert rows["share at rank 1"] == sum(rank1) / len(rank1)
    assert rows["threshold, nats"] == learned.threshold == learned_from_code.receipts[0].result
    assert rows["share of steps that would pause"] == sum(h >= learned.threshold for h in H) / len(H)


def test_the_histograms_hold_every_step_and_the_chosen_p_is_the_first_of_the_best(learned_from_code):
    first, others, chance, line = learned_from_code.figure("histograms").series
    assert sum(first.y) == pytest.approx(1) and sum(others.y) == pytest.approx(1)
    assert all(0 < value < 1 for value in chance.y) and len(set(line.x)) == 1
    tried, chosen = learned_from_code.figure("accuracies").series
    assert len(tried.x) == 99 and tried.x[0] == 0.01 and chosen.x[0] == learned_from_code.receipts[0].inputs["p"]
    assert engines.read_study(learned_from_code.to_json()) == learned_from_code
    assert tried.x[tried.y.index(max(tried.y))] == chosen.x[0] and chosen.y[1] == max(tried.y)


TINY = {"model": "tiny-ar-l", "kind": "people", "chunk": 8, "keep": 24, "tokens": 16, "longest": 256}


def test_the_retrieved_view_finds_what_the_target_loses_and_the_counts_fit():
    makes = []
    found = engines.study("needles-in-documents", partial=makes.append, **TINY, documents=4)
    assert [make().table().title[:12] for make in makes] == [f"Answers to {n}" for n in range(1, 5)]
    assert makes[-1]().table().rows == found.table("answers").rows and makes[0]().notes[0].startswith("Stopped")
    rows = {(row[0], row[1]): row for row in found.table("answers").rows}
    lossless, moved = rows["retrieved passages", 0.0], rows["retrieved passages", 10.0]
    assert moved[3] > lossless[3] and moved[7] > lossless[7]  # right answers, and the share that is accepted
    assert lossless[8] == 0 < moved[8]
    assert all(row[5] <= row[4] <= row[6] for row in rows.values())
    assert rows["the last tokens", 0.0][3] == lossless[3]  # at η = 0 the text is the target's, whatever drafts
    (cost,) = found.table("costs").rows
    n, one, many, draft = cost[:4]
    assert (n, draft) == (256, one) and cost[4] == pytest.approx((5 * draft + many) / one)
    assert cost[6] == pytest.approx((5 * draft + many) / moved[9]) and cost[7] == pytest.approx(one / cost[6])
