"""A GGUF file by path, folder, or its name in the store of Ollama or LM Studio; no name leads outside a store."""

import json
from pathlib import Path

import pytest

from engines.core.errors import UserError
from engines.models.gguf import stores
from engines.models.gguf.stores import locate

DIGEST = "sha256:" + "0123456789abcdef" * 4
OFFICIAL = "registry.ollama.ai/library"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with neither program, on a machine without a service of Ollama."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(stores.VARIABLE, raising=False)
    monkeypatch.setattr(stores, "SYSTEM", tmp_path / "system")
    return tmp_path


def files(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"GGUF")
    return folder


def pulled(store, place, kind="model", digest=DIGEST):
    """A model in a store of Ollama, and its file."""
    manifest = store / "manifests" / place
    manifest.parent.mkdir(parents=True, exist_ok=True)
    license_ = {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "f" * 64}
    layer = {"mediaType": f"application/vnd.ollama.image.{kind}", "digest": digest, "size": 4}
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [license_, layer]}))
    files(store / "blobs", digest.replace(":", "-")[:80].replace("/", "-"))
    return store / "blobs" / digest.replace(":", "-")


def refused(name):
    with pytest.raises(UserError) as caught:
        locate(name)
    return str(caught.value)


def test_a_path_a_folder_and_what_is_no_name_of_a_file(tmp_path):
    folder = files(tmp_path / "models", "Qwen3-8B-Q4_K_M.gguf", "UPPER.GGUF", "mmproj-F16.gguf", "notes.txt")
    for name in ("Qwen3-8B-Q4_K_M.gguf", "UPPER.GGUF"):
        assert locate(str(folder / name)) == folder / name
    for name in ("tiny-ar-l", "Qwen/Qwen3-8B", str(folder / "notes.txt"), str(tmp_path / "nowhere"), ""):
        assert locate(name) is None
    assert f"none.gguf'; in {folder} there is Qwen3-8B-Q4_K_M.gguf, UPPER" in refused(str(folder / "none.gguf"))
    assert refused("/nowhere/none.gguf").endswith("in /nowhere there is no GGUF model.")
    one = files(tmp_path / "one", "model.gguf", "mmproj-model-f16.gguf", "README.md")
    assert locate(str(one)) == one / "model.gguf"
    split = files(tmp_path / "split", *(f"big-0000{i}-of-00003.gguf" for i in (2, 3)))
    assert locate(str(split)) == split / "big-00001-of-00003.gguf", "reading it says that it is missing"
    many = files(tmp_path / "many", *(f"model-Q{i}_K.gguf" for i in range(2, 9)))
    told = refused(str(many))
    assert told.startswith(f"'{many}' has 7 models in GGUF; name one of them: model-Q2_K.gguf, model-Q3_K.gguf, ")
    assert told.endswith("model-Q6_K.gguf and 2 more.")
    assert locate(str(files(tmp_path / "none", "README.md"))) is None
    assert locate(str(files(tmp_path / "both", "model.gguf", "model.safetensors"))) is None, "a usual checkpoint"


def test_a_model_of_ollama_by_its_name(home, monkeypatch):
    store = home / ".ollama" / "models"
    blob = pulled(store, f"{OFFICIAL}/qwen3/8b")
    assert locate("ollama:qwen3:8b") == locate("ollama:library/qwen3:8b") == blob
    assert locate(f"ollama:{OFFICIAL}/qwen3:8b") == blob
    other = pulled(store, "registry.ollama.ai/mia/own/latest", digest="sha256:" + "a" * 64)
    assert locate("ollama:mia/own") == locate("ollama:mia/own:latest") == other
    hub = pulled(store, "hf.co/bartowski/Qwen3-GGUF/Q4_K_M", digest="sha256:" + "b" * 64)
    assert locate("ollama:hf.co/bartowski/Qwen3-GGUF:Q4_K_M") == hub
    assert refused("ollama:qwen3") == (
        "Ollama has no model 'qwen3' here; get it with `ollama pull qwen3`, or take "
        "ollama:hf.co/bartowski/Qwen3-GGUF:Q4_K_M, ollama:mia/own:latest, ollama:qwen3:8b."
    )
    elsewhere = pulled(home / "disk", f"{OFFICIAL}/gemma3/latest")
    monkeypatch.setenv(stores.VARIABLE, str(home / "disk"))
    assert locate("ollama:gemma3") == elsewhere and "take ollama:gemma3:latest." in refused("ollama:qwen3:8b")
    for name in stores._names(store):
        monkeypatch.setenv(stores.VARIABLE, str(store))
        assert locate(name), "each name that is told can be given"


def test_a_service_of_ollama_keeps_its_models_elsewhere(home, monkeypatch):
    blob = pulled(stores.SYSTEM, f"{OFFICIAL}/qwen3/8b")
    assert locate("ollama:qwen3:8b") == blob

    def forbidden(*_, **__):
        raise PermissionError

    monkeypatch.setattr(Path, "is_file", forbidden)
    monkeypatch.setattr(Path, "stat", forbidden)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(()))
    assert "may not be read by you; join its group" in refused("ollama:qwen3:8b")


def test_no_ollama_and_no_such_file(home):
    assert refused("ollama:qwen3:8b") == (
        f"there is no model of Ollama in {home}/.ollama/models or {home}/system; get it with `ollama pull qwen3:8b`, "
        "or name the folder in OLLAMA_MODELS."
    )
    store = home / ".ollama" / "models"
    pulled(store, f"{OFFICIAL}/qwen3/8b").unlink()
    assert "is listed in Ollama's store, and" in refused("ollama:qwen3:8b")
    pulled(store, f"{OFFICIAL}/cloud/latest", kind="remote")
    assert "'ollama:cloud' has no GGUF file in Ollama's store" in refused("ollama:cloud")
    pulled(store, f"{OFFICIAL}/tuned/latest", kind="adapter")
    assert "a model with a LoRA adapter, which is not applied here" in refused("ollama:tuned")
    for text in ("", "[]", '{"layers": 3}', '{"layers": ["x"]}', "{}", "\0", "[" * 100_000):
        (store / "manifests" / OFFICIAL / "tuned" / "latest").write_text(text)
        assert "is damaged; get it again: `ollama pull tuned`." in refused("ollama:tuned")


OUTSIDE = ":8b ../x a/../b a/b/c/d a//b /etc/passwd x:../../y a\\b qwen3:8b:9 é".split()


@pytest.mark.parametrize("name", ["", *OUTSIDE])
def test_names_that_lead_out_of_ollama_are_refused(name, home):
    pulled(home / ".ollama" / "models", f"{OFFICIAL}/x/latest")
    assert locate("ollama:x:"), "an empty tag is the usual one"
    assert refused(f"ollama:{name}").startswith(
        f"'ollama:{name}' is not the name of a model in Ollama; give ollama:MODEL"
    )


def test_neither_digests_nor_links_lead_out_of_ollama(home):
    store, outside = home / ".ollama" / "models", files(home / "outside", "secret.gguf") / "secret.gguf"
    for digest in ("sha256:../../../outside/secret.gguf", "../../outside/secret.gguf", "sha256:" + "A" * 64):
        manifest = pulled(store, f"{OFFICIAL}/bad/latest")
        manifest = store / "manifests" / OFFICIAL / "bad" / "latest"
        manifest.write_text(manifest.read_text().replace(DIGEST, digest))
        assert "has no GGUF file in Ollama's store" in refused("ollama:bad")
    blob = pulled(store, f"{OFFICIAL}/bad/latest")
    blob.unlink()
    blob.symlink_to(outside)
    assert "is not there; get it again" in refused("ollama:bad")
    manifest.unlink()
    manifest.symlink_to(outside)
    assert "Ollama has no model 'bad' here" in refused("ollama:bad")


def test_a_model_of_lm_studio_and_links_that_do_not_lead_out_of_it(home):
    assert "there is no model of LM Studio in" in refused("lmstudio:a/b")
    store = home / ".lmstudio" / "models"
    folder = files(store / "qwen" / "Qwen3-8B-GGUF", "Qwen3-8B-Q4_K_M.gguf", "mmproj-F16.gguf")
    for name in ("", "/Qwen3-8B-Q4_K_M.gguf", "/Qwen3-8B-Q4_K_M"):
        assert locate(f"lmstudio:qwen/Qwen3-8B-GGUF{name}") == folder / "Qwen3-8B-Q4_K_M.gguf"
    older = files(home / ".cache/lm-studio/models/mia/own", "a.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf")
    assert locate("lmstudio:mia/own/a") == older / "a.gguf"
    assert locate("lmstudio:mia/own/b-00002-of-00002.gguf") == older / "b-00001-of-00002.gguf"
    assert "name one of them: a.gguf, b-00001-of-00002.gguf." in refused("lmstudio:mia/own")
    assert "is not there; its folder has a.gguf, b-00001-of-00002.gguf." in refused("lmstudio:mia/own/c")
    assert refused("lmstudio:mia/nothing").endswith("or take lmstudio:qwen/Qwen3-8B-GGUF, lmstudio:mia/own.")
    outside = files(home / "outside" / "b", "secret.gguf")
    folder = files(home / ".lmstudio" / "models" / "a" / "b")
    (folder / "c.gguf").symlink_to(outside / "secret.gguf")
    assert "is a link to a place outside LM Studio's folder; give" in refused("lmstudio:a/b")
    (folder.parent / "d").symlink_to(outside)
    assert "LM Studio has no model 'a/d' here" in refused("lmstudio:a/d")


@pytest.mark.parametrize("name", ["", "qwen", "../..", "a/b/../c", "a/b/..", "/etc/passwd", "a/b\\..\\c", "a/./b"])
def test_names_that_lead_out_of_lm_studio_are_refused(name, home):
    files(home / ".lmstudio" / "models" / "a" / "b", "c.gguf")
    assert refused(f"lmstudio:{name}").startswith(f"'lmstudio:{name}' is not the name of a model in LM Studio; give")
