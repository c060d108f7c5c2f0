"""The end of a training: the mean with the start is a mean, the temperature divides all logits and makes confidences
true."""

import dataclasses
import json

import pytest
import torch

from engines.training.tiny import finish as finishing
from engines.training.tiny import train
from engines.training.tiny.finish import LEAST, LIKELY, MOST, average, cool, finish, fitted, proposed
from engines.training.tiny.networks import build, load_network
from engines.training.tiny.recipes import RECIPES
from tests.engines.training.running import tiny

TINY = tiny("tiny-dlm", steps=4, ships=False)


@pytest.fixture
def network(tokenizer):
    return build(TINY, tokenizer)


def test_the_mean_has_its_share_of_the_start_and_a_temperature_divides_every_logit(tokenizer, network):
    start = build(dataclasses.replace(TINY, seed=1), tokenizer)
    expected = {name: 0.3 * start.state_dict()[name] + 0.7 * weight for name, weight in network.state_dict().items()}
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    average(network, start, 0.3)
    assert any(not torch.equal(weight, before[name]) for name, weight in network.state_dict().items())
    for name, weight in network.state_dict().items():
        torch.testing.assert_close(weight, expected[name])
    assert network.lm_head.weight is network.model.embed_tokens.weight, "the head is still the embedding"
    ids = torch.arange(10, 40).view(2, 15)
    with torch.no_grad():
        warm = network(input_ids=ids).logits
        cool(network, 1.25)
        torch.testing.assert_close(network(input_ids=ids).logits, warm / 1.25, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("true", [0.8, 1.3, 2.0])
def test_the_temperature_of_a_known_distribution_is_found(true):
    generator = torch.Generator().manual_seed(3)
    z = 3 * torch.randn((40_000, 12), generator=generator)
    truth = torch.multinomial((z / true).softmax(-1), 1, generator=generator)[:, 0]
    found = fitted(z, truth)
    assert found == pytest.approx(true, rel=0.05)
    p = (z / found).softmax(-1).amax(-1)
    above = p >= LIKELY
    wrong = (z.argmax(-1) != truth)[above].float().mean()
    assert wrong == pytest.approx(float((1 - p[above]).mean()), abs=0.01)


def test_a_temperature_out_of_reach_stays_at_the_edge():
    assert fitted(9 * torch.eye(8), torch.arange(8)) == pytest.approx(LEAST, rel=0.01), "always right"
    assert fitted(torch.zeros((0, 8)), torch.zeros(0, dtype=torch.long)) == 1.0, "nothing to go by"
    assert fitted(30 * torch.eye(8), (torch.arange(8) + 1) % 8) > 0.99 * MOST, "always wrong"


def test_proposals_are_those_of_some_weight_on_on_policy_states_and_the_same_again(tokenizer, network):
    assert len(proposed(network, TINY, tokenizer, windows=3)[1]) == 0, "untrained: nothing is likely"
    cool(network, 0.004)  # as sure as it can be
    z, truth = proposed(network, TINY, tokenizer, windows=3)
    assert z.shape == (len(truth), len(tokenizer)) and z.dtype == torch.float16 and len(truth) > 100
    assert (z.float().softmax(-1).amax(-1) > 0.24).all() and len(truth.unique()) > 20
    assert (truth != tokenizer.mask_token_id).all() and (truth == tokenizer.eos_token_id).any()
    again, same = proposed(network, TINY, tokenizer, windows=3)
    assert torch.equal(z, again) and torch.equal(truth, same)


def test_a_training_ends_with_what_its_recipe_asks_for_and_says_so(folders, tokenizer, monkeypatch):
    plain = dataclasses.replace(TINY, name="tiny-test-first", steps=2, start_share=0.0, calibrated=False)
    monkeypatch.setitem(RECIPES, "tiny-test-first", plain)
    monkeypatch.setitem(RECIPES, "tiny-test", dataclasses.replace(TINY, init_from="tiny-test-first"))
    monkeypatch.setattr(finishing, "fitted", lambda logits, truth: 1.504)
    folder = train.train("tiny-test")
    facts = json.loads((folder / "card.json").read_text())
    assert facts["start_share"] == 0.3 and facts["temperature"] == 1.5
    gain = load_network(folder).model.norm.weight
    torch.testing.assert_close(gain, torch.full_like(gain, 1 / 1.5), atol=0.05, rtol=0)  # a few steps from gains of 1
    first = train.folder_of("tiny-test-first")
    assert "start_share" not in json.loads((first / "card.json").read_text())
    network = build(TINY, tokenizer)
    weights = {name: weight.clone() for name, weight in network.state_dict().items()}
    assert finish(network, plain, tokenizer, first) == {}
    assert finish(network, dataclasses.replace(plain, start_share=0.5), tokenizer, None) == {}, "no start"
    assert all(torch.equal(weight, weights[name]) for name, weight in network.state_dict().items())


def test_an_interrupted_end_costs_no_step(folders, monkeypatch):
    monkeypatch.setitem(RECIPES, "tiny-test", TINY)
    monkeypatch.setattr(train, "finish", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        train.train("tiny-test")
    assert not train.folder_of("tiny-test").exists()
    monkeypatch.setattr(train, "finish", finish)
    assert json.loads((train.train("tiny-test", resume=True) / "card.json").read_text())["steps"] == TINY.steps
