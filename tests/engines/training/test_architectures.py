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
from engines.training.core.loop import Until, restore, run

FOLDER = engines.models.hub.assets() / "models"


def test_rows_are_whole_and_made_from_their_number():
    one, again, other = rows(3), rows(3), rows(4)
    assert torch.equal(one.ids, again.ids) and not torch.equal(one.ids, other.ids)
    assert one.ids.shape == (ROWS, LENGTH) and bool((one.documents[:, 0] == 0).all())
    assert bool((one.documents.diff(dim=1) >= 0).all()) and 0.3 < float((one.targets != IGNORED).float().mean()) < 0.8
    shown = one.targets[:, :-1] != IGNORED
    assert torch.equal(one.targets[:, :-1][shown], one.ids[:, 1:][shown])
    assert torch.equal(held_out(4).ids, held_out(4).ids)


@pytest.mark.training
def test_a_training_goes_on_exactly(tmp_path):
    what = MIXTURES[1]
    whole = Language(what, 0, 4)
    run(whole, Until(4))
    first, file = Language(what, 0, 4), tmp_path / "half.pt"
    run(first, Until(2), checkpoint=file)
    second = Language(what, 0, 4)
    restore(second, file)
    run(second, Until(4))
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, second.network.state_dict()[name]), name


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


@pytest.mark.training
def test_a_curve_goes_on_where_it_was(tmp_path):
    class Short(PowerLaw):
        """Looks at every step, with one prompt and one row."""

        def glimpse(self, network, step):
            return {"loss": float(next(network.parameters()).abs().sum())}

    whole, file = Language(Short(), 0, 3), tmp_path / "half.pt"
    run(whole, Until(3))
    first = Language(Short(), 0, 3)
    run(first, Until(1), checkpoint=file)
    second = Language(Short(), 0, 3)
    restore(second, file)
    run(second, Until(3))
    assert [one["step"] for one in whole.curve] == [0, 1, 2, 3] and second.curve == whole.curve


def test_a_plan_may_be_longer_than_its_training():
    what = PowerLaw()
    assert Language(what, 0, what.steps).plan == (what.plan or what.steps) >= what.steps
    assert Language(what, 0, 2).plan == 2


def test_the_card_of_the_power_law_model_has_its_curve():
    card = json.loads((FOLDER / PowerLaw.name / "card.json").read_text())
    held, curve = card["held_out"], card["curve"]
    assert [one["step"] for one in curve][:5] == [0, 10, 25, 50, 100] and curve[-1]["step"] == card["steps"]
    assert card["kind"] == "power-law" and card["licence"].startswith("Apache-2.0") and card["parameters"] < 1.25e6
    assert held["losses"]["own"] == pytest.approx(held["loss"], abs=1e-3)
    assert held["losses"]["other"] - held["losses"]["own"] < 0.01 < held["losses"]["identity"] - held["losses"]["own"]
    network = engines.load_model(PowerLaw.name, dtype="float32").model
    packed = held_out(4)
    assert losses(network, packed, operators(network))["own"] < 2.0
