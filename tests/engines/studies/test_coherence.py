"""The coherence of samplers: a lane is the method's own run, and the record that ships is what the texts tell."""

import json
import re
from pathlib import Path

import pytest

import engines
from engines.studies._coherence import prompts, write

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
