"""Which files of a folder are the model: its weights among several, its tokenizer, and what is there and not read; and
that a model in memory is the one that its files are now."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import engines
import tests.hub
from engines.core.errors import UserError
from engines.models.drafters import load_drafter
from engines.models.files import hub
from engines.models.loading import zoo
from engines.models.loading.sizing import size_of_folder
from tests.engines.conftest import GOLDEN
from tests.engines.models.test_zoo import SMALL
from tests.engines.refusals import refuses

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"


def llama(seed: int, **extra: Any) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(**SMALL | extra)).eval()


def save(folder: Path, seed: int = 1, shard: str = "50GB", **extra: Any) -> Path:
    llama(seed, **extra).save_pretrained(folder, max_shard_size=shard)
    return folder


def head_of(model: Any) -> torch.Tensor:
    weight: torch.Tensor = model.model.lm_head.weight
    return weight


def test_a_model_that_was_written_again_is_read_again(tmp_path, monkeypatch):
    """EpicenterHQ/epicenter#1974, PriorLabs/TabPFN#863."""
    folder = save(tmp_path / "mine" / "model")
    old = engines.load_model(folder)
    assert engines.load_model(folder) is old and engines.is_loaded(str(folder))
    save(folder, 2, max_position_embeddings=128)
    assert not engines.is_loaded(str(folder))
    new = engines.load_model(folder)
    assert torch.equal(head_of(new), llama(2).lm_head.weight) and not torch.equal(head_of(old), head_of(new))
    assert new.record.sha256 != old.record.sha256 and (old.max_positions, new.max_positions) == (32, 128)
    for file, key, value in (("config.json", "rms_norm_eps", 0.5), ("generation_config.json", "eos_token_id", 7)):
        said = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps({**said, key: value}))
        again = engines.load_model(folder)
        assert again is not new, "settings alone"
        new = again
    assert 7 in new.eos_ids and new.config.rms_norm_eps == 0.5
    invariant = engines.load_model(folder, row_invariant=True)
    assert engines.load_model(folder, row_invariant=True) is invariant
    save(folder, 3, max_position_embeddings=128)
    assert torch.equal(head_of(engines.load_model(folder, row_invariant=True).plain), llama(3).lm_head.weight)
    shutil.rmtree(folder)
    assert not engines.is_loaded(str(folder))
    with pytest.raises(UserError, match="no model"):
        engines.load_model(folder)
    for seed, place in ((1, tmp_path / "one"), (2, tmp_path / "two")):
        save(place / "model", seed)
        monkeypatch.chdir(place)
        assert torch.equal(head_of(engines.load_model("model")), llama(seed).lm_head.weight), "from where one stands"


def test_a_model_that_borrows_files_is_read_again_with_them(tmp_path):
    save(tmp_path / "lender")
    (tmp_path / "mine").mkdir()
    said = json.loads((tmp_path / "lender" / "config.json").read_text())
    (tmp_path / "mine" / "config.json").write_text(json.dumps({**said, "weights_from": "lender"}))
    assert torch.equal(head_of(engines.load_model(tmp_path / "mine")), llama(1).lm_head.weight)
    save(tmp_path / "lender", 2)
    assert torch.equal(head_of(engines.load_model(tmp_path / "mine")), llama(2).lm_head.weight)


def test_a_gguf_file_is_told_by_what_it_is_now(tmp_path, monkeypatch):
    """A file that was written again, a part of a split one, and a tag of Ollama that was pulled again."""
    loads = list[Path]()
    monkeypatch.setattr("engines.models.loading.gguf.load_gguf", lambda file, *_, **__: loads.append(file) or FAKE)
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    file = tmp_path / "model-00001-of-00002.gguf"
    second = file.with_name("model-00002-of-00002.gguf")
    blobs = tmp_path / "ollama" / "blobs"
    manifest = tmp_path / "ollama" / "manifests" / "registry.ollama.ai" / "library" / "llama" / "latest"
    for place in (blobs, manifest.parent):
        place.mkdir(parents=True)

    def pull(letter: str) -> None:
        digest = f"sha256:{letter * 64}"
        (blobs / digest.replace(":", "-")).write_bytes(b"GGUF")
        layer = {"mediaType": "application/vnd.ollama.image.model", "digest": digest}
        manifest.write_text(json.dumps({"layers": [layer]}))

    for one in (file, second):
        one.write_bytes(b"GGUF")
    pull("a")
    for name, change in (
        (str(file), lambda: file.write_bytes(b"GGUF and more")),
        (str(file), lambda: second.write_bytes(b"GGUF and more")),
        ("ollama:llama", lambda: pull("b")),
    ):
        engines.load_model(name)
        before = len(loads)
        engines.load_model(name)
        assert len(loads) == before
        change()
        engines.load_model(name)
        assert len(loads) == before + 1, name


class Fake:
    record = engines.ModelRecord("target", "fake", "causal")
    model = None


FAKE = Fake()


def test_a_hub_id_is_its_revision_of_now(tmp_path, monkeypatch):
    repo = "someone/moving"
    with tests.hub.serving({repo: save(tmp_path / "repo")}) as served:
        _use(served, tmp_path, monkeypatch)
        first = engines.load_model(repo)
        assert engines.load_model(repo) is first and engines.is_loaded(repo)
        save(tmp_path / "repo", 2)
        monkeypatch.setattr(tests.hub, "COMMIT", "f" * 40)
        second = engines.load_model(repo)
        assert second.record.revision == "f" * 40
        assert torch.equal(head_of(second), llama(2).lm_head.weight)
        assert engines.load_model(repo, revision="f" * 40).record.revision == "f" * 40
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert engines.load_model(repo) is second, "what was fetched last, where the hub cannot be asked"


def _use(served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = {"ENDPOINT": served.address, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": False}
    theirs["HUGGINGFACE_CO_URL_TEMPLATE"] = served.address + "/{repo_id}/resolve/{revision}/{filename}"
    for name, value in theirs.items():
        monkeypatch.setattr(huggingface_hub.constants, name, value)


def test_a_drafter_that_was_written_again_is_read_again(tmp_path):
    """In a shard that is not the first, too."""
    folder = GOLDEN / "drafters" / "eagle3-speculators"
    target = engines.load_model(folder / "verifier", dtype="float32")
    into = shutil.copytree(folder / "drafter-fcnorm", tmp_path / "drafter")
    first = load_drafter(into, target)
    assert load_drafter(into, target) is first
    last = sorted(into.glob("*.safetensors"))[-1]
    os.utime(last, (1, 1))
    assert load_drafter(into, target) is not first


def test_of_two_sets_of_weights_one_is_loaded_counted_and_summed(tmp_path):
    """Blaizzy/mlx-vlm#1464: the single file, as transformers does."""
    folder = save(tmp_path / "both", 1, "6KB")
    shutil.copy(save(tmp_path / "other", 2) / SINGLE, folder / SINGLE)
    loaded = engines.load_model(folder)
    assert torch.equal(head_of(loaded), llama(2).lm_head.weight)
    assert loaded.record.sha256 == hashlib.sha256((folder / SINGLE).read_bytes()).hexdigest()
    assert loaded.record.parameters == sum(p.numel() for p in llama(2).parameters())
    assert size_of_folder(folder, "both").parameters == loaded.record.parameters


def indexed(folder: Path, *names: str) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": dict(zip("abc", names, strict=False))}))


def test_an_index_of_another_build(tmp_path):
    """Blaizzy/nativ#370, ddalcu/mlx-serve#465: beside the single file, whole shards, or others."""
    folder = save(tmp_path / "single")
    indexed(folder, "model-00001-of-00002.safetensors")
    assert torch.equal(head_of(engines.load_model(folder)), llama(1).lm_head.weight)
    folder = save(tmp_path / "shards", 1, "6KB")
    count = len(list(folder.glob("*.safetensors")))
    assert count > 1
    indexed(folder, "model-00001-of-00099.safetensors", "model-00002-of-00099.safetensors")
    loaded = engines.load_model(folder)
    assert torch.equal(head_of(loaded), llama(1).lm_head.weight)
    assert loaded.record.parameters == sum(p.numel() for p in llama(1).parameters())
    last = folder / f"model-{count:05}-of-{count:05}.safetensors"
    last.unlink()
    words = r"names model-00001-of-00099.safetensors and other files than the folder has \(model-00001"
    refuses(UserError, words, engines.load_model, folder)
    refuses(UserError, words, load_drafter, folder, engines.load_model("tiny-ar-s"))
    for file in folder.glob("*.safetensors"):
        file.unlink()
    refuses(UserError, "model-00001-of-00099.safetensors is missing; download", engines.load_model, folder)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["consolidated.safetensors"], "Mistral's own format"),
        (["consolidated.00.safetensors", "consolidated.01.safetensors"], "Mistral's own format"),
        (["model-00001-of-00001.safetensors"], f"of 1 shards {INDEX} is missing"),
        (["model-00002-of-00003.safetensors"], "of 3 shards part 1, part 3, "),
        (["model.fp16.safetensors"], f"name it {SINGLE}"),
        (["adapter_model.safetensors"], "an adapter without its model"),
        (["weights.safetensors", "pytorch_model.bin"], "pytorch_model.bin; if this is the whole model"),
    ],
)
def test_weights_that_are_there_and_not_read_are_named(tmp_path, names, said):
    folder = save(tmp_path / "model")
    for name in names:
        shutil.copy(folder / SINGLE, folder / name)
    (folder / SINGLE).unlink()
    with pytest.raises(UserError, match=said) as refusal:
        engines.load_model(folder)
    assert names[0] in str(refusal.value) and "has none" not in str(refusal.value)
    if "pytorch_model.bin" not in names:  # which a drafter may be
        refuses(UserError, names[0], load_drafter, folder, engines.load_model("tiny-ar-s"))


OTHERS = ["tokenizer.model", "tekken.json", "spiece.model", "tiktoken.model", "qwen.tiktoken"]


@pytest.mark.parametrize("name", OTHERS)
def test_a_tokenizer_in_another_format_is_named(tmp_path, name):
    """huggingface/transformers#42299 and #46622, lm-sys/FastChat#1955. A number in a prompt would be taken for an
    id."""
    folder = save(tmp_path / "model")
    assert engines.load_model(folder).tokenizer.encode_prompt("5 6") == [5, 6], "ids where there is none at all"
    (folder / name).write_bytes(b"{}")
    for call in (engines.load_model, engines.size_of):
        refuses(UserError, f"the tokenizer of 'model' is there as {name}, and tokenizer.json", call, folder)
    (folder / "vocab.json").write_text('{"a": 0}')
    assert engines.size_of(folder).parameters, "beside one that is read it does not matter"


def test_a_hub_model_is_not_fetched_for_a_tokenizer_that_is_not_read(tmp_path, monkeypatch):
    repo, folder = "someone/mistral", save(tmp_path / "repo")
    (folder / "tekken.json").write_text("{}")
    with tests.hub.serving({repo: folder}) as served:
        _use(served, tmp_path, monkeypatch)
        for call in (engines.load_model, engines.size_of):
            refuses(UserError, "is there as tekken.json", call, repo)
        assert SINGLE not in {file for file, _ in served.ranges}
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert hub.names_of(repo, None) == []
    assert not any(repo in key for key in zoo._loaded)
