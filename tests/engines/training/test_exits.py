"""Maps of early exits: from answers to a part, in int8 where it is large, and what its card says of the guesses."""

import json

import pytest
import torch

import engines
from engines.models import stored
from engines.models.exits import scaled
from engines.training.core.text_cache import Teacher, TextCache
from engines.training.heads import exits

GIVEN = {"prompts": 24, "length": 24, "epochs": 1, "minutes": 1.0, "seed": 0}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(model, folder of its answers, the part in bfloat16, the same in int8)."""
    model, folder = engines.load_model("tiny-ar-m", kind="layered", dtype="float32"), tmp_path_factory.mktemp("exits")
    cache, parts = folder / "cache", []
    for name, largest in (("plain", exits.LARGEST), ("small", dict.fromkeys(exits.LARGEST, 1))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(exits, "LARGEST", largest)
            parts.append(exits.make(exits.MAPS, model, GIVEN, cache, folder / name, "a command", False))
    return model, cache, *parts


def test_a_large_part_is_stored_in_int8_and_its_card_was_measured_so(made):
    _, _, plain, small = made
    cards = [json.loads((folder / "card.json").read_text()) for folder in (plain, small)]
    assert "stored" not in cards[0] and cards[1]["stored"]["as"].startswith("int8")
    assert (small / "model.safetensors").stat().st_size < 0.6 * (plain / "model.safetensors").stat().st_size
    one, other = (stored.read(folder / "model.safetensors") for folder in (plain, small))
    assert one.keys() == other.keys() == {f"{i}.R" for i in range(1, 6)}
    assert 0 < float((one["3.R"].float() - other["3.R"].float()).abs().max()) < 0.05
    assert cards[0]["held_out"]["texts"] > 0


def test_large_adapters_are_measured_as_they_are_stored(made, tmp_path, monkeypatch):
    model, folder, _, _ = made
    monkeypatch.setattr(exits, "LARGEST", dict.fromkeys(exits.LARGEST, 1))
    out = exits.make(exits.ADAPTERS, model, GIVEN, folder, tmp_path / "part", "a command", False)
    card, tensors = json.loads((out / "card.json").read_text()), stored.read(out / "model.safetensors")
    assert card["stored"]["as"].startswith("int8")
    network = exits.Exits((1, 2, 3, 4, 5), model.config.hidden_size)
    network.load_state_dict({name: one.float() for name, one in tensors.items()})
    cache, teacher = TextCache(folder), Teacher(model.model.get_output_embeddings().weight.float())
    training = exits.ExitTraining("again", network, cache, teacher, 0)
    assert training.marks() == card["held_out"]["same_first_token"]


def test_the_card_counts_what_the_guesses_hold(made):
    model, folder, plain, _ = made
    held_out = json.loads((plain / "card.json").read_text())["held_out"]
    R, hits, n = stored.read(plain / "model.safetensors")["2.R"].float(), 0, 0
    for text in TextCache(folder).texts((2, 6), held_out=True):
        for row in text.rows(0):
            best = int(model.unembed(text.hidden[6][[row]].float(), normed=True)[0].argmax())
            z = model.unembed(scaled(text.hidden[2][[row]]) @ R.T, normed=True)[0]
            hits, n = hits + (best in torch.topk(z, exits.WIDTH).indices.tolist()), n + 1
    found = held_out[f"first_choice_in_top_{exits.WIDTH}"]
    assert found["mapped"]["2"] == pytest.approx(hits / n, abs=2.5 / n)  # the teacher's matrix is in bfloat16
    for name in (f"first_choice_in_top_{exits.WIDTH}", f"omega_{exits.WIDTH}"):
        assert held_out[name].keys() == {"mapped", "raw"}
        assert held_out[name]["mapped"]["5"] > held_out[name]["mapped"]["1"] > 0
        assert all(0 <= share <= 1 for kind in held_out[name].values() for share in kind.values())
