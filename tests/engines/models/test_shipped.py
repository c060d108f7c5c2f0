"""The models that ship: each is what its card says, the whole has its size, and a folder opens elsewhere too."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

import engines
from engines.core.errors import UserError
from engines.models import hub, stored, zoo
from engines.models.hub import count_parameters, identity, sha256
from engines.training.core.coding import convert

MODELS = hub.assets() / "models"
CODED = sorted(path.parent.name for path in MODELS.glob("*/card.json") if json.loads(path.read_text()).get("stored"))


@pytest.mark.parametrize("name", CODED)
def test_what_ships_is_what_its_card_says(name: str) -> None:
    file, card = MODELS / name / "model.safetensors", json.loads((MODELS / name / "card.json").read_text())
    said = card["stored"]
    assert (sha256(file), file.stat().st_size) == (said["file_sha256"], said["bytes"]) and said["bytes"] <= 10e6
    assert identity(file) == card["sha256"] and count_parameters(MODELS / name) == card["parameters"]
    if "nothing lost" in said["as"]:
        assert said["relative_error"] == 0
        plain = save(stored.read(file), metadata={"format": "pt"})
        assert hashlib.sha256(plain).hexdigest() == card["sha256"]  # the very file that was trained and recorded with
    else:
        assert 0 < said["relative_error"] < 0.02 and len(said["formerly"]) == 64


def test_all_that_ships_has_its_size() -> None:
    sizes = {path: path.stat().st_size for path in MODELS.parent.rglob("*") if path.is_file()}
    parts = {path: size for path, size in sizes.items() if path.parent.name.startswith("smollm2-")}
    parts = {path: size for path, size in parts.items() if path.parent.parent.name == "parts"}
    assert max(parts.values()) <= 7e6 and sum(parts.values()) <= 35e6  # what SmolLM2's parts may take, beside the rest
    assert sum(sizes.values()) - sum(parts.values()) <= 102e6 and max(sizes.values()) <= 10e6
    inside = (MODELS, MODELS.parent / "parts")
    weights = sum(size for path, size in sizes.items() if any(path.is_relative_to(one) for one in inside))
    assert weights <= 130e6
    plain = {path.parent.name for path in MODELS.glob("*/model.safetensors")} - {*CODED}
    assert all((MODELS / name / "model.safetensors").stat().st_size < 100_000 for name in plain)  # nothing to gain


def test_a_model_taken_elsewhere_finds_its_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder of the tokenizer beside it, among the models that ship, or not at all, and then it says so."""
    here = engines.load_model("tiny-ar-s")
    shutil.copytree(MODELS / "tiny-ar-s", tmp_path / "a" / "mine")
    elsewhere = zoo.load_model(tmp_path / "a" / "mine")
    assert elsewhere.tokenizer.encode("add: 4 + 5") == here.tokenizer.encode("add: 4 + 5")
    assert (elsewhere.record.tokenizer, elsewhere.record.sha256) == (here.record.tokenizer, here.record.sha256)
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path / "none"))
    zoo._loaded.clear()
    with pytest.raises(UserError, match="'mine' takes its tokenizer from the folder 'tokenizer', which is neither"):
        zoo.load_model(tmp_path / "a" / "mine")
    shutil.copytree(MODELS / "tokenizer", tmp_path / "a" / "tokenizer")
    assert zoo.load_model(tmp_path / "a" / "mine").record.tokenizer == here.record.tokenizer
    config = json.loads((tmp_path / "a" / "mine" / "config.json").read_text()) | {"tokenizer_from": "../a/tokenizer"}
    (tmp_path / "a" / "mine" / "config.json").write_text(json.dumps(config))
    zoo._loaded.clear()
    with pytest.raises(UserError, match="takes its tokenizer from the folder"):  # a name, never a path
        zoo.load_model(tmp_path / "a" / "mine")


def test_a_plain_copy_is_for_transformers_alone(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out = convert(MODELS / "tiny-ar-s", "plain", out=tmp_path / "plain")
    network = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)
    model = engines.load_model("tiny-ar-s")
    ids = model.tokenizer.encode("add: 4 + 5")
    assert AutoTokenizer.from_pretrained(out)("add: 4 + 5")["input_ids"] == ids
    ours = model.extend(ids, model.new_cache(len(ids))).logits  # type: ignore[attr-defined]
    assert torch.allclose(network(torch.tensor([ids])).logits[0], ours, atol=1e-4)
    assert sha256(out / "model.safetensors") == model.record.sha256
    assert load_file(out / "model.safetensors").keys() == network.state_dict().keys() - {"lm_head.weight"}


def test_a_model_read_in_another_way_takes_the_other_s_weights(tmp_path: Path) -> None:
    """Beside it or among the models that ship: by a name, never a path, and checked by their own card."""
    one, two = engines.load_model("tiny-dlm"), engines.load_model("tiny-two-way")
    assert one.record.sha256 == two.record.sha256 and {one.record.kind, two.record.kind} == {"masked", "causal"}
    assert count_parameters(MODELS / "tiny-two-way") == count_parameters(MODELS / "tiny-dlm")
    shutil.copytree(MODELS / "tiny-two-way", tmp_path / "mine")
    assert zoo.load_model(tmp_path / "mine").record.sha256 == one.record.sha256
    config = json.loads((tmp_path / "mine" / "config.json").read_text())
    for name in ("../tiny-dlm", "nothing-of-that-name", "mine"):
        (tmp_path / "mine" / "config.json").write_text(json.dumps(config | {"weights_from": name}))
        zoo._loaded.clear()
        with pytest.raises(UserError, match=r"'mine' needs weights as \*.safetensors and has none"):
            zoo.load_model(tmp_path / "mine")
    changed = json.loads((MODELS / "tiny-dlm" / "card.json").read_text())
    changed["stored"]["file_sha256"] = "0" * 64
    shutil.copytree(MODELS / "tiny-dlm", tmp_path / "other")
    (tmp_path / "other" / "card.json").write_text(json.dumps(changed))
    (tmp_path / "mine" / "config.json").write_text(json.dumps(config | {"weights_from": "other"}))
    zoo._loaded.clear()
    with pytest.raises(UserError, match=r"other/model\.safetensors is not the file that was published"):
        zoo.load_model(tmp_path / "mine")
