"""What the trainings of draft heads share: a part that can be read, whatever way it is stored, its card, refusals."""

import json

import pytest
import torch

import engines
from engines.training.__main__ import main
from engines.training.core.text_cache import Answer, TextCache, fill
from engines.training.core.weights import read_weights
from engines.training.heads import drafters
from engines.training.heads.drafters import cost_per_token, tokens_per_call
from engines.training.heads.hydra import HydraTraining

PROMPTS = ("add: 457 + 86", "reverse: Tom", "copy: Ada, Ada")


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-ar-s", dtype="float32")


@pytest.fixture
def cache(model, tmp_path):
    said = engines.run("greedy", model, PROMPTS[0], params={"max_new_tokens": 20}).output_ids
    prompts = [model.tokenizer.encode_prompt(text) for text in PROMPTS * 3]
    answers = [Answer(list(prompt), list(said), i % 3 == 0, {"prompt": ""}) for i, prompt in enumerate(prompts)]
    fill(tmp_path / "cache", model, (model.num_layers,), [answers], lambda: False)
    return TextCache(tmp_path / "cache")


def trained(model, cache, out, decode, **more):
    """The card of a part whose usual place is `part`."""
    given = {"epochs": 1, "minutes": 1.0, "seed": 0, "resume": False, "command": "here", **more}
    out = drafters.train(HydraTraining, decode, model, cache, out, usual=out.parent / "part", **given)
    return json.loads((out / "card.json").read_text())


@pytest.mark.parametrize("largest", [drafters.LARGEST, 1000])
def test_a_part_and_its_card(model, cache, tmp_path, monkeypatch, largest):
    """Elsewhere nothing is decoded: a decoding looks for the part in its usual folder only."""
    monkeypatch.setattr(drafters, "LARGEST", largest)
    asked = []
    card = trained(model, cache, tmp_path / "part", lambda _, prompts: asked.append(prompts) or {"x": 1.5}, epochs=2)
    held = card["held_out"]
    assert card["steps"] == 3 and card["parameters"] == 2 * (2 + 3 + 4) * 64 * 64 + 3 * 64
    assert held["tokens_per_target_call"]["x"] == 1.5 and len(asked[0]) == len(held["rank_1"]) == 3
    assert ("rank_1_in_bfloat16" in held) == ("stored" in card) == (largest == 1000)
    R = read_weights(tmp_path / "part")["R.0"].float()
    assert R.shape == (64, 128) and float(R.abs().sum()) > 0
    assert "tokens_per_target_call" not in trained(model, cache, tmp_path / "other", None)["held_out"]


def test_tokens_per_call_are_those_of_the_runs(model):
    asked = [model.tokenizer.encode_prompt(text) for text in PROMPTS]
    runs = [engines.run("greedy", model, list(ids), params={"max_new_tokens": drafters.LENGTH}) for ids in asked]
    tokens, calls = (sum(one) for one in zip(*((t.totals.tokens, t.totals.forwards) for t in runs), strict=True))
    said = tokens_per_call("plain", "greedy", model, asked)
    low, high = said["plain_95"]
    assert said["plain"] == round(tokens / calls, 4) and low <= round(said["plain"], 2) <= high
    work = sum(sum(t.totals.work_by_role.values()) for t in runs)
    assert cost_per_token("greedy", model, asked) == round(work / tokens, 2)
    assert drafters.rounded(torch.tensor([[0.123456], [2.0]])) == [[0.1235], [2.0]]


HEADS = "eagle-layer hydra-heads transfer-maps falcon-layer lexical-units clover-drafter chimera-drafter".split()


@pytest.mark.parametrize("name", HEADS)
def test_nothing_to_train_is_one_sentence(name):
    with pytest.raises(engines.UserError, match="--epochs 0 --minutes 8 trains nothing"):
        main([name, "tiny-ar-s", "--epochs", "0"])
    with pytest.raises(engines.UserError, match="tiny-dlm"):
        main([name, "tiny-dlm"])
