"""The training of the four attentions: the balancing loss, weights measured as they are kept, cards of what ships."""

from __future__ import annotations

import json

import pytest
import torch

import engines
from engines.training.__main__ import main
from engines.training.architectures.attentions import ATTENDING, balance_loss
from engines.training.architectures.language import Language
from engines.training.core.weights import read_weights

FOLDER = engines.models.hub.assets() / "models"


def test_the_balancing_loss_is_1_where_all_are_used_alike_and_grows_where_they_are_not():
    even = balance_loss(torch.zeros(8, 4), torch.arange(4).repeat(4).view(8, 2))
    scores = torch.zeros(8, 4)
    scores[:, 0] = 3
    skewed = balance_loss(scores, torch.tensor([[0, 1]] * 8))
    assert float(even) == pytest.approx(1.0) and float(skewed) > 1.5


@pytest.mark.parametrize("what", ATTENDING, ids=lambda what: what.name)
def test_the_loss_reaches_every_weight(what):
    training = Language(what, 0, 2)
    training.loss(training.batch(0)).value.backward()
    still = [n for n, p in training.network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert still == []


@pytest.mark.training
def test_one_command_makes_a_folder_in_int8_that_loads_with_layers_that_come_apart(tmp_path, monkeypatch):
    seen = []

    def noted(network):
        seen.append({name: tensor.clone() for name, tensor in network.state_dict().items()})
        return {}

    monkeypatch.setattr("engines.training.architectures.language.exact_match", noted)
    main(["tiny-mla", "--steps", "2", "--out", str(tmp_path / "mine")])
    model = engines.load_model(str(tmp_path / "mine"), kind="split", dtype="float32")
    card = json.loads((tmp_path / "mine" / "card.json").read_text())
    assert model.attention == "mla" and card["stored"]["as"].startswith("int8 by row")
    assert card["held_out"]["cached_elements_per_token"] == 4 * 80
    for name, kept in read_weights(tmp_path / "mine").items():  # what was measured is what is kept
        assert torch.equal(seen[0][name], kept.float()), name


@pytest.mark.parametrize("what", ATTENDING, ids=lambda what: what.name)
def test_the_cards_say_what_was_measured(what):
    card = json.loads((FOLDER / what.name / "card.json").read_text())
    held = card["held_out"]
    assert card["steps"] == what.steps and card["parameters"] < 6.5e5 and held["loss"] < 2
    assert min(held["experts_in_use"]) > 4 and card["licence"].startswith("Apache-2.0")
    assert {"mha": 256, "gqa": 128, "mla": 80, "mfa": 64}[what.attention] * 4 == held["cached_elements_per_token"]
    assert sum(file.stat().st_size for file in (FOLDER / what.name).iterdir()) <= 0.7e6
