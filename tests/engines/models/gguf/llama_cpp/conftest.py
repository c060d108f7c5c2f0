"""llama.cpp's threads wait by spinning, which on a shared machine takes more time than they save: one of them here."""

from pathlib import Path

import pytest
import torch

import engines
from tests import gguf_files

PROMPT = "the and then the other"


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> Path:
    """A folder with a causal file, two masked ones, and the cache of what was tried."""
    folder = tmp_path_factory.mktemp("gguf")
    gguf_files.tiny_llama(folder / "llama.gguf")
    gguf_files.tiny_llada(folder / "llada.gguf")
    gguf_files.tiny_dream(folder / "dream.gguf")
    return folder


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, files):
    monkeypatch.setenv("XDG_CACHE_HOME", str(files))


@pytest.fixture
def llama(files):
    return engines.load_model(files / "llama.gguf")
