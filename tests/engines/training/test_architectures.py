"""The training of the small architectures: rows of the corpus and of facts, losses that reach every weight, a training
that goes on exactly, a folder that loads as its kind, and the cards of what ships."""

import json
from collections import Counter
from itertools import product

import pytest
import torch

import engines
from engines.core.places import assets
from engines.training.__main__ import main
from engines.training.architectures import facts
from engines.training.architectures.attentions import ATTENDING, balance_loss
from engines.training.architectures.blockffn import MIXTURES, scores
from engines.training.architectures.corpus import LENGTH, ROWS, held_out, rows
from engines.training.architectures.facts import FIRST, LAST, asked, fact_rows, guessed, people, sentence
from engines.training.architectures.language import Language
from engines.training.architectures.pldr import PowerLaw, losses, operators
from engines.training.architectures.ultramem import TWINS, misses, shared, union
from engines.training.core.data import IGNORED
from engines.training.core.weights import read_weights
from tests.engines.training.running import goes_on

FOLDER = assets() / "models"


def card_of(folder):
    return json.loads((folder / "card.json").read_text())


def test_rows_are_whole_and_made_from_their_number():
    one, again, other = rows(3), rows(3), rows(4)
    assert torch.equal(one.ids, again.ids) and not torch.equal(one.ids, other.ids)
    assert one.ids.shape == (ROWS, LENGTH) and bool((one.documents[:, 0] == 0).all())
    assert bool((one.documents.diff(dim=1) >= 0).all()) and 0.3 < float((one.targets != IGNORED).float().mean()) < 0.8
    shown = one.targets[:, :-1] != IGNORED
    assert torch.equal(one.targets[:, :-1][shown], one.ids[:, 1:][shown])
    assert torch.equal(held_out(4).ids, held_out(4).ids)


def test_no_word_of_a_name_is_anyones_alone_and_one_guess_for_all_is_seldom_right():
    names = [person.name.split() for person in people()]
    assert len(names) == len({tuple(name) for name in names}) == 500
    assert set(Counter(first for first, _ in names).values()) == {20} and len(FIRST) == 25
    assert set(Counter(last for _, last in names).values()) == {25} and len(LAST) == 20
    assert all(1 / len(values) <= share < 0.2 for share, values in zip(guessed(), facts.VALUES, strict=True))


def test_rows_tell_of_people_in_any_order_and_what_is_asked_ends_before_the_attribute():
    one, other, tokenizer = fact_rows(3, 0, 4), fact_rows(4, 0, 4), facts._tokenizer()
    assert one.ids.shape == (4, 128) and torch.equal(one.ids, fact_rows(3, 0, 4).ids)
    assert not torch.equal(one.ids, other.ids)
    text = tokenizer.decode(one.ids[0])
    told = [sentence(person, order) for person in people() for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0))]
    assert any(part in text for part in told)
    assert 0.4 < float((one.targets != IGNORED).float().mean()) < 0.8
    person = people()[123]
    for kind, place in product(range(3), repeat=2):
        ids, right = asked(kind, place)
        text = tokenizer.decode([*ids[123].tolist(), int(right[123])])
        assert text.endswith(facts.PARTS[kind].format(person.values[kind])) and text.count(person.name) == 2


def test_the_union_of_chunks_is_counted_and_shared_slots_are_a_share_of_the_first():
    slots = torch.tensor([[[1, 2], [2, 3], [9, 8], [8, 9], [4, 4]]])
    assert union(slots, 1) == pytest.approx((2 + 2 + 2 + 2 + 1) / 5)
    assert union(slots, 2) == pytest.approx((3 + 2) / 2)  # the rest behind the last chunk does not count
    a, b = torch.tensor([[[1, 2, 3, 4]]]), torch.tensor([[[4, 9, 8, 1]]])
    assert shared(a, b) == 0.5 and shared(a, a) == 1


def test_nothing_is_missed_where_all_keys_are_candidates():
    memory = TWINS[0].build(40, 2, 0).model.layers[0].mlp.memory.eval()
    x = torch.randn(20, 128, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = misses(memory, x)
        memory.m = memory.K
        assert misses(memory, x) == (0, 0, 0)
    assert 0 < found[2] < 1 and 0 <= found[1] <= found[0] < 1


def test_tables_learn_at_a_rate_of_their_own_that_falls():
    training = Language(TWINS[0], 0, 10)
    rest, tables = training.optimizer.param_groups
    assert sum(p.numel() for p in tables["params"]) == 9216 * 96 and tables["weight_decay"] == 0
    training.rate(0)
    assert tables["factor"] == 4 and "factor" not in rest
    training.progress.step = 10
    training.rate(1)
    assert tables["factor"] == 1
    assert len(Language(TWINS[1], 0, 10).optimizer.param_groups) == 1


@pytest.mark.training
def test_a_training_and_its_curve_go_on_exactly(tmp_path, monkeypatch):
    monkeypatch.setattr(PowerLaw, "glimpse", lambda self, net, step: {"loss": float(next(net.parameters()).sum())})
    whole, later = goes_on(lambda: Language(PowerLaw(), 0, 4), 4, 2, tmp_path / "half.pt")
    assert later.curve == whole.curve and [one["step"] for one in whole.curve] == [0, 1, 2, 3, 4]


@pytest.mark.training
@pytest.mark.parametrize(("name", "kind"), [("tiny-moe", "moe"), ("tiny-mla", "split"), ("tiny-ultramem", "memory")])
def test_one_command_makes_a_folder_that_loads_as_its_kind(name, kind, tmp_path, monkeypatch):
    language, seen = "engines.training.architectures.language", {}

    def noted(network):
        seen.update({name: tensor.clone() for name, tensor in network.state_dict().items()})
        return {}

    monkeypatch.setattr(f"{language}.exact_match", noted)
    monkeypatch.setattr(f"{language}.held_out", lambda: held_out(2))
    main([name, "--steps", "2", "--out", str(tmp_path / "mine")])
    model, card = engines.load_model(str(tmp_path / "mine"), kind=kind, dtype="float32"), card_of(tmp_path / "mine")
    held = card["held_out"]
    if kind == "moe":
        assert model.mixtures[0].experts == 32 and model.record.parameters == 1_590_528 - 4 * 32  # no gain of a norm
        assert held["sparsity_by_chunk"]["1"] == pytest.approx(26 / 32, abs=1e-4)
    else:
        assert card["stored"]["as"].startswith("int8")
    if kind == "split":
        assert model.attention == "mla" and held["cached_elements_per_token"] == 4 * 80
        for tensor, kept in read_weights(tmp_path / "mine").items():  # what was measured is what is kept
            assert torch.equal(seen[tensor], kept.float()), tensor
    if kind == "memory":
        assert model.memories[3].first == 3 * 48**2
        assert held["slots_by_chunk"]["1"] == 16 and len(held["slots_ever_read"]) == 4


def test_the_losses_reach_the_routers_and_see_every_layer():
    training = Language(MIXTURES[1], 0, 2)
    batch = training.batch(0)
    with scores(training.network, batch.ids.shape) as found:
        value, facts = MIXTURES[1].loss(training.network, batch, 0.0)
    assert len(found) == 4 and found[0][0].shape == (ROWS, LENGTH, 32)
    assert float(value.detach()) > facts["loss"] > 0 and facts["locality"] > 0
    value.backward()
    assert all(layer.mlp.gate.weight.grad.abs().sum() > 0 for layer in training.network.model.layers)


@pytest.mark.parametrize("what", ATTENDING, ids=lambda what: what.name)
def test_the_loss_reaches_every_weight(what):
    training = Language(what, 0, 2)
    training.loss(training.batch(0)).value.backward()
    still = [n for n, p in training.network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert still == []


def test_the_balancing_loss_is_1_where_all_are_used_alike_and_grows_where_they_are_not():
    even = balance_loss(torch.zeros(8, 4), torch.arange(4).repeat(4).view(8, 2))
    skew = torch.zeros(8, 4)
    skew[:, 0] = 3
    assert float(even) == pytest.approx(1.0) and float(balance_loss(skew, torch.tensor([[0, 1]] * 8))) > 1.5


@pytest.mark.parametrize("what", [*MIXTURES, *ATTENDING, *TWINS], ids=lambda what: what.name)
def test_the_cards_say_what_was_measured(what):
    card = card_of(FOLDER / what.name)
    held = card["held_out"]
    assert card["steps"] == what.steps and card["licence"].startswith("Apache-2.0") and card["parameters"] < 1e7
    if what in MIXTURES:
        shares = list(held["sparsity_by_chunk"].values())
        assert shares == sorted(shares, reverse=True) and min(held["experts_ever_used"]) > 2 and held["loss"] < 2.5
    elif what in ATTENDING:
        assert held["loss"] < 2 and min(held["experts_in_use"]) > 4
        assert {"mha": 256, "gqa": 128, "mla": 80, "mfa": 64}[what.attention] * 4 == held["cached_elements_per_token"]
    else:
        assert [point.pop("step") for point in card["curve"]] == list(range(200, what.steps + 1, 200))
        assert card["curve"][-1] == pytest.approx(held["facts_known"], abs=0.02)  # int8
    if what in TWINS and what.slots_read:
        assert held["slots_by_chunk"]["1"] == 16 and held["same_fact_again"] > held["another_persons_fact"]
        assert max(held["slots_ever_read"]) <= held["slots_seen_by_a_layer"] == 4489


def test_the_card_of_the_power_law_model_has_its_curve_and_a_plan_may_be_longer_than_its_training():
    what, card = PowerLaw(), card_of(FOLDER / PowerLaw.name)
    held, curve = card["held_out"], card["curve"]
    assert curve[-1]["step"] == card["steps"] and held["losses"]["own"] == pytest.approx(held["loss"], abs=1e-3)
    assert held["losses"]["other"] - held["losses"]["own"] < 0.01 < held["losses"]["identity"] - held["losses"]["own"]
    network = engines.load_model(PowerLaw.name, dtype="float32").model
    assert losses(network, held_out(4), operators(network))["own"] < 2.0
    assert Language(what, 0, what.steps).plan == (what.plan or what.steps) >= what.steps
    assert Language(what, 0, 2).plan == 2
