"""Shared by the trainings."""

import json
from pathlib import Path
from typing import Any

import pytest

from engines.training.tiny import train
from engines.training.tiny.tokenizer import load_tokenizer
from tests.engines import micro


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random Llama with the family's tokenizer, from which the mask token was taken."""
    folder, tokenizer = tmp_path_factory.mktemp("base"), load_tokenizer()
    tokenizer.mask_token = None
    tokenizer.save_pretrained(folder)
    model = micro.llama(2, seed=0, max_position_embeddings=256, initializer_range=0.3, bos_token_id=None)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return load_tokenizer()


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Recipes are trained into folders of the test's own, and their cards have no marks."""
    monkeypatch.setattr(train, "MODELS", tmp_path / "models")
    monkeypatch.setattr(train, "checkpoint_file", lambda name: tmp_path / "cache" / f"{name}.pt")
    monkeypatch.setattr(
        train, "write_marks", lambda folder, facts: (folder / "card.json").write_text(json.dumps(facts))
    )
    monkeypatch.setattr(train, "write_table", lambda models: None)
    return tmp_path
