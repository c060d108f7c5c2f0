"""The training of the small architectures: rows of the corpus, a training of a few steps that goes on exactly, a folder
that loads as a mixture, and the cards of what ships."""

from __future__ import annotations

import json

import pytest
import torch

import engines
from engines.training.__main__ import main
from engines.training.architectures.blockffn import MIXTURES, scores
from engines.training.architectures.corpus import LENGTH, ROWS, held_out, rows
from engines.training.architectures.language import Language
from engines.training.architectures.pldr import PowerLaw, losses, operators
from engines.training.core.data import IGNORED
from tests.engines.training.running import goes_on

FOLDER = engines.models.hub.assets() / "models"


def test_rows_are_whole_and_made_from_their_number():
    one, again, other = rows(3), rows(3), rows(4)
    assert torch.equal(one.ids, again.ids) and not torch.equal(one.ids, other.ids)
    assert one.ids.shape == (ROWS, LENGTH) and bool((one.documents[:, 0] == 0).all())
    assert bool((one.documents.diff(dim=1) >= 0).all()) and 0.3 < float((one.targets != IGNORED).float().mean()) < 0.8
    shown = one.targets[:, :-1] != IGNORED
    assert torch.equal(one.targets[:, :-1][shown], one.ids[:, 1:][shown])
    assert torch.equal(held_out(4).ids, held_out(4).ids)


class Short(PowerLaw):
    """Looks at every step, with one prompt and one row."""

    def glimpse(self, network, step):
        return {"loss": float(next(network.parameters()).abs().sum())}


@pytest.mark.training
@pytest.mark.parametrize("what", [MIXTURES[1], Short()], ids=["mixture", "curve"])
def test_a_training_and_its_curve_go_on_exactly(what, tmp_path):
    whole, later = goes_on(lambda: Language(what, 0, 4), 4, 2, tmp_path / "half.pt")
    assert later.curve == whole.curve
    assert not isinstance(what, Short) or [one["step"] for one in whole.curve] == [0, 1, 2, 3, 4]


@pytest.mark.training
def test_one_command_makes_a_folder_that_loads_as_a_mixture(tmp_path, monkeypatch):
    monkeypatch.setattr("engines.training.architectures.language.exact_match", lambda network: {})
    main(["tiny-moe", "--steps", "2", "--out", str(tmp_path / "mine")])
    model = engines.load_model(str(tmp_path / "mine"), kind="moe", dtype="float32")
    assert model.mixtures[0].experts == 32 and model.record.parameters == 1_590_528 - 4 * 32  # no gain of a norm
    card = json.loads((tmp_path / "mine" / "card.json").read_text())
    assert card["held_out"]["sparsity_by_chunk"]["1"] == pytest.approx(26 / 32, abs=1e-4)


def test_the_losses_reach_the_routers_and_see_every_layer():
    training = Language(MIXTURES[1], 0, 2)
    batch = training.batch(0)
    with scores(training.network, batch.ids.shape) as found:
        value, facts = MIXTURES[1].loss(training.network, batch, 0.0)
    assert len(found) == 4 and found[0][0].shape == (ROWS, LENGTH, 32)
    assert float(value.detach()) > facts["loss"] > 0 and facts["locality"] > 0
    value.backward()
    assert all(layer.mlp.gate.weight.grad.abs().sum() > 0 for layer in training.network.model.layers)


@pytest.mark.parametrize("name", [what.name for what in MIXTURES])
def test_the_cards_say_what_was_measured(name):
    card = json.loads((FOLDER / name / "card.json").read_text())
    held = card["held_out"]
    shares = list(held["sparsity_by_chunk"].values())
    assert shares == sorted(shares, reverse=True) and card["parameters"] < 2e6
    assert min(held["experts_ever_used"]) > 2 and held["loss"] < 2.5 and card["licence"].startswith("Apache-2.0")


def test_the_card_of_the_power_law_model_has_its_curve_and_a_plan_may_be_longer_than_its_training():
    card = json.loads((FOLDER / PowerLaw.name / "card.json").read_text())
    held, curve = card["held_out"], card["curve"]
    assert [one["step"] for one in curve][:5] == [0, 10, 25, 50, 100] and curve[-1]["step"] == card["steps"]
    assert card["kind"] == "power-law" and card["licence"].startswith("Apache-2.0") and card["parameters"] < 1.25e6
    assert held["losses"]["own"] == pytest.approx(held["loss"], abs=1e-3)
    assert held["losses"]["other"] - held["losses"]["own"] < 0.01 < held["losses"]["identity"] - held["losses"]["own"]
    network = engines.load_model(PowerLaw.name, dtype="float32").model
    assert losses(network, held_out(4), operators(network))["own"] < 2.0
    what = PowerLaw()
    assert Language(what, 0, what.steps).plan == (what.plan or what.steps) >= what.steps
    assert Language(what, 0, 2).plan == 2
