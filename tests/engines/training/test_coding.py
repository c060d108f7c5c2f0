"""Storing a model in less room: the same weights under the same sum, and the loader sees no difference."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

from engines.core.errors import UserError
from engines.models.files import stored
from engines.models.files.hub import header, identity, metadata, sha256
from engines.models.loading import zoo
from engines.training.core import coding
from engines.training.core.coding import code, convert

LLAMA: dict[str, Any] = {
    "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2,
    "max_position_embeddings": 32,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model in bfloat16 with a card, as training leaves it."""
    torch.manual_seed(0)
    here = tmp_path / "llama"
    LlamaForCausalLM(LlamaConfig(**LLAMA, tie_word_embeddings=True)).bfloat16().save_pretrained(here)
    card = {"name": "llama", "sha256": sha256(here / "model.safetensors"), "licence": "Apache-2.0"}
    (here / "card.json").write_text(json.dumps(card))
    zoo._loaded.clear()
    return here


def logits(folder: Path, **options: Any) -> torch.Tensor:
    zoo._loaded.clear()
    model = zoo.load_model(folder, **options)
    return model.extend([3, 1, 4, 1, 5], model.new_cache(8)).logits  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "auto"])
def test_coded_weights_are_the_same_weights(folder: Path, dtype: str) -> None:
    plain, before = (folder / "model.safetensors").read_bytes(), zoo.load_model(folder, dtype=dtype).record
    old = logits(folder, dtype=dtype)
    convert(folder, "lossless")
    assert (folder / "model.safetensors").stat().st_size < 0.75 * len(plain)
    assert torch.equal(logits(folder, dtype=dtype), old)
    assert zoo.load_model(folder, dtype=dtype).record == before  # the sum and the number of parameters among it
    assert sha256(folder / "model.safetensors") != before.sha256
    convert(folder, "plain")
    assert (folder / "model.safetensors").read_bytes() == plain


def test_int8_makes_other_weights_and_says_so(folder: Path) -> None:
    before, old = zoo.load_model(folder).record, logits(folder)
    convert(folder, "int8", keep=["model.layers.0.mlp.down_proj.weight"])
    new = logits(folder)
    card, record = json.loads((folder / "card.json").read_text()), zoo.load_model(folder).record
    assert record.sha256 == card["sha256"] == card["stored"]["file_sha256"] != before.sha256
    assert card["stored"]["formerly"] == before.sha256 and 0 < card["stored"]["relative_error"] < 0.02
    assert (record.parameters, card["licence"]) == (before.parameters, "Apache-2.0")
    names = header(folder / "model.safetensors")
    assert "model.layers.0.mlp.down_proj.weight" in names and "model.layers.0.mlp.up_proj.weight.int8" in names
    assert not torch.equal(new, old) and torch.allclose(new, old, atol=0.05 * float(old.abs().max()))
    convert(folder, "plain")
    assert torch.equal(logits(folder), new)


def test_a_copy_leaves_its_original_and_bad_input_is_a_sentence(folder: Path) -> None:
    file = folder / "model.safetensors"
    before = file.read_bytes()
    out = convert(folder, "lossless", out=folder.parent / "copy")
    assert (out / "config.json").is_file() and stored.MARK in metadata(out / "model.safetensors")
    assert identity(out / "model.safetensors") == identity(file)
    with pytest.raises(UserError, match="'int4' is not a way to store weights; choose one of lossless, int8, plain"):
        code(file, "int4")
    with pytest.raises(UserError, match=r"has no tensor 'nobody' to keep; it has for example 'model\.embed_tokens"):
        code(file, "int8", keep=["nobody"])
    with pytest.raises(UserError, match=r"holds no model\.safetensors; give the folder of a model or part"):
        convert(folder.parent, "int8")
    assert file.read_bytes() == before


def test_coded_weights_without_the_class_of_their_model(folder: Path) -> None:
    convert(folder, "lossless")
    config = json.loads((folder / "config.json").read_text())
    for wrong, told in ((None, "missing"), (["Trainer"], "Trainer"), (["os"], "os")):
        (folder / "config.json").write_text(json.dumps(config | {"architectures": wrong}))
        with pytest.raises(UserError, match=rf"as `architectures` in config\.json, which is {told}; name one"):
            zoo.load_model(folder)


def test_only_large_matrices_are_coded() -> None:
    state = {"big": torch.randn(64, 64), "small": torch.randn(8, 8), "vector": torch.randn(9999)}
    state["ids"] = torch.arange(8192).view(64, 128)
    assert set(coding.coded(state, "lossless")) == set(state)  # not bfloat16: nothing to gain without loss
    assert set(coding.coded(state, "int8")) == {"big.int8", "big.scale", "small", "vector", "ids"}


def test_a_network_s_own_tensor_may_end_like_a_helper(tmp_path: Path) -> None:
    """As the scale of a router does; one that a damaged file lost its matrix of stays an error."""
    state = {"router.scale": torch.ones(8), "m.weight": torch.randn(128, 128).bfloat16()}
    file = tmp_path / "model.safetensors"
    save_file(state, file)
    for how in ("lossless", "int8", "lossless", "plain"):
        code(file, how)
        back = stored.read(file)
        assert back.keys() == state.keys() and torch.equal(back["router.scale"], state["router.scale"])
    assert stored.OWN not in metadata(file)
    with pytest.raises(ValueError, match=r"'router\.scale' stands alone"):
        stored.decoded({"router.scale": torch.ones(8)})
