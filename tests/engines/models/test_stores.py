"""Stores of earlier answers: plain and compressed files hold the same, and what is no store is refused."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from engines.core.errors import UserError
from engines.core.trace import ModelRecord
from engines.models import stores
from engines.models.stores import answers_of, store_of

RECORD = ModelRecord(role="target", name="m", kind="causal", tokenizer="abc")
TOKENS = np.array([5, 6, 2, 7, 2, 8, 9, 2], dtype=np.uint16)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path))
    here = tmp_path / "models" / "m-store"
    here.mkdir(parents=True)
    (here / "card.json").write_text(json.dumps({"tokenizer": "abc"}))
    return here


def test_a_store_may_be_compressed(folder: Path) -> None:
    np.save(folder / "tokens.npy", TOKENS)
    plain = answers_of(RECORD, {2})
    (folder / "tokens.npy").unlink()
    np.savez_compressed(folder / "tokens.npz", tokens=TOKENS)
    assert stores.folders() == [folder] and answers_of(RECORD, {2}) == plain == [[5, 6], [7], [8, 9]]
    assert store_of(RECORD).dtype == np.uint16


def test_what_is_no_compressed_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "tokens.npz"
    file.write_bytes(b"no archive")
    with pytest.raises(UserError, match="is not a store, which is one row of whole numbers"):
        store_of(RECORD)
    np.savez_compressed(file, other=TOKENS)
    with pytest.raises(UserError, match="is not a store, which is one row of whole numbers"):
        store_of(RECORD)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as parts:  # small as a file, large in memory
        parts.writestr("tokens.npy", bytes(1_000_000))
    monkeypatch.setattr(stores, "LARGEST", 999_999)
    with pytest.raises(UserError, match="1,000,000 bytes, at most 999,999 are read"):
        store_of(RECORD)


def test_the_stores_that_ship_are_read() -> None:
    for name, tokens in (("tiny", 18_137), ("smollm2", 292_636)):
        folder = next(folder for folder in stores.folders() if folder.name == f"{name}-store")
        card = json.loads((folder / "card.json").read_text())
        found = store_of(ModelRecord(role="target", name=name, kind="causal", tokenizer=card["tokenizer"]))
        assert len(found) == card["tokens"] == tokens
