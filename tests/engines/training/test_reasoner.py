"""The tiny reasoners: what ships, and that their training goes on where it was interrupted."""

import json
from dataclasses import replace

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.training.core.loop import Until, run
from engines.training.tiny import reasoner
from explorer import ASSETS

SMALL = replace(reasoner.SIZES[1], hidden=16, mlp=16, steps=4, last=4)


@pytest.mark.parametrize(("name", "greedy"), [("tiny-reasoner", 1.0), ("tiny-reasoner-s", 0.85)])
def test_what_ships_answers_as_its_card_says(name, greedy):
    """A sample of the card's own questions, at its own figures, within five points."""
    card = json.loads((ASSETS / "models" / name / "card.json").read_text("utf-8"))
    assert abs(card["held_out_right"]["greedy"] - greedy) <= 0.05 and "worse by construction" in card["note"]
    model = engines.load_model(name, dtype="float32")
    found = reasoner.marks(model.model, questions=24, draws=1)
    assert abs(found["greedy"] - greedy) <= 0.13


def test_only_chains_are_read():
    model = engines.load_model("tiny-reasoner-s")
    assert model.tokenizer.decode(model.tokenizer.encode_prompt("4+8 - 9*7")) == "^4+8-9*7?"
    with pytest.raises(UserError, match="refuses this prompt: it reads chains of digits"):
        model.tokenizer.encode_prompt("sort: Mia")


def test_a_training_sees_the_same_batches_again():
    one, two = (reasoner.Reasoning(SMALL, seed=1, steps=4) for _ in range(2))
    run(one, Until(2))
    two.progress.step = 2
    assert torch.equal(one.batch(0.5)["input_ids"], two.batch(0.5)["input_ids"])
    rates = []
    for step in (0, 1, 2, 4):
        one.progress.step = step
        rates.append(one.rate(0.0))
    assert rates[0] < rates[1] > rates[2] > rates[3] == 0


def test_a_short_training_writes_a_model_that_loads(tmp_path, monkeypatch):
    monkeypatch.setattr(reasoner, "checkpoint_file", lambda name: tmp_path / f"{name}.pt")
    monkeypatch.setattr(reasoner, "marks", lambda network: {"greedy": 0.0})
    folder = reasoner.train(SMALL, out=tmp_path / "made")
    model = engines.load_model(str(folder))
    assert len(engines.run("greedy", model, "1+2*3-4", params={"max_new_tokens": 4}).output_ids) <= 4
    assert json.loads((folder / "card.json").read_text())["steps"] == 4
