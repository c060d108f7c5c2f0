"""Trained parts and stores of earlier answers: found beside their base, checked, and what is none is refused."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from engines.core.errors import UserError
from engines.core.method import method, part
from engines.core.trace import ModelRecord
from engines.models import parts
from engines.models.files.hub import sha256
from engines.models.parts import stores
from engines.models.parts.stores import answers_of, store_of
from tests.engines.refusals import refuses

BASE = ModelRecord("target", "someone/base", "causal", sha256="abc" * 20)
TENSORS = {"W": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(2)}


def made(folder: Path, card: dict | None = None, name: str = "base-head") -> Path:
    place = folder / "parts" / name
    place.mkdir(parents=True)
    save_file(TENSORS, place / "model.safetensors")
    said = {"bases": {"target": BASE.sha256}, "sha256": sha256(place / "model.safetensors"), "licence": "Apache-2.0"}
    (place / "card.json").write_text(json.dumps(said | (card or {})))
    return place


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path))
    return tmp_path


def test_a_part_is_found_checked_and_read_once(folder: Path):
    place = made(folder)
    found = parts.load_part("head", [BASE])
    assert (found.name, found.base, found.parameters) == ("base-head", "someone/base", 8)
    assert torch.equal(found.tensors["W"], TENSORS["W"])
    assert parts.load_part("head", [BASE]) is found
    record = found.record("head", BASE)
    assert (record.role, record.kind, record.parameters, record.sha256) == ("head", "part", 8, found.sha256)
    (folder / "models").mkdir()
    place.rename(folder / "models" / "base-head")
    assert parts.folder_of("head", "base") == folder / "models" / "base-head"
    assert parts.load_part("head", [BASE]).parameters == 8, "a part beside the models is found too"
    assert parts.folder_of("head", "../../etc") == folder / "parts" / "etc-head"
    assert parts.bases_of({"target_sha256": "a", "draft_sha256": "b"}) == ["a", "b"], "the fields of the first parts"
    assert parts.bases_of({"model_sha256": "a"}) == ["a"]


@pytest.mark.parametrize(
    ("card", "complaint"),
    [
        ({"bases": {"target": "0" * 60}}, "trained for other weights"),
        ({"bases": {"target": BASE.sha256, "draft": "1"}}, "trained for other weights"),
        ({"bases": {}}, "other weights .unknown."),
        ({"bases": "all"}, "other weights"),
        ({"sha256": "0" * 64}, "not the file that its card describes"),
    ],
)
def test_a_part_for_another_base_or_another_file_is_refused(folder: Path, card: dict, complaint: str):
    made(folder, card)
    refuses(UserError, rf"{complaint}.*python -m engines\.training head someone/base", parts.load_part, "head", [BASE])


def test_a_damaged_part_is_a_sentence_and_a_method_declares_a_part_beside_its_model(folder: Path):
    place = made(folder)
    (place / "model.safetensors").write_bytes((place / "model.safetensors").read_bytes()[:-5])
    refuses(UserError, "should have", parts.load_part, "head", [BASE])
    (place / "card.json").write_text("{")
    refuses(UserError, "not valid JSON", parts.load_part, "head", [BASE])
    info = declared({"target": "causal", "head": part("head")}).info
    assert (info.needs, info.parts, info.role) == ({"target": "causal"}, {"head": "head"}, "target")
    for wrong in ({"head": part("head")}, {"head": part("head"), "target": "causal"}, {"target": "no-such-kind"}):
        refuses(ValueError, "needs", declared, wrong)


def declared(needs):
    @method("with-head", title="", family="x", paper="", summary="", needs=needs, params=[], emits=set())
    def decode(models, prompt, p, run):
        yield run.step()

    return decode


STORED = ModelRecord(role="target", name="m", kind="causal", tokenizer="abc")
TOKENS = np.array([5, 6, 2, 7, 2, 8, 9, 2], dtype=np.uint16)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path))
    here = tmp_path / "models" / "m-store"
    here.mkdir(parents=True)
    (here / "card.json").write_text(json.dumps({"tokenizer": "abc"}))
    return here


def test_a_store_may_be_compressed(store: Path) -> None:
    np.save(store / "tokens.npy", TOKENS)
    plain = answers_of(STORED, {2})
    (store / "tokens.npy").unlink()
    np.savez_compressed(store / "tokens.npz", tokens=TOKENS)
    assert stores.folders() == [store] and answers_of(STORED, {2}) == plain == [[5, 6], [7], [8, 9]]
    assert store_of(STORED).dtype == np.uint16


def test_what_is_no_compressed_store(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = store / "tokens.npz"
    file.write_bytes(b"no archive")
    refuses(UserError, "is not a store, which is one row of whole numbers", store_of, STORED)
    np.savez_compressed(file, other=TOKENS)
    refuses(UserError, "is not a store, which is one row of whole numbers", store_of, STORED)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as parts:  # small as a file, large in memory
        parts.writestr("tokens.npy", bytes(1_000_000))
    monkeypatch.setattr(stores, "LARGEST", 999_999)
    refuses(UserError, "1,000,000 bytes, at most 999,999 are read", store_of, STORED)
