"""What is said of a GGUF file before llama.cpp has seen it; nothing here needs it."""

import pytest

import engines
from engines import UserError
from engines.models.gguf import library, trial
from engines.models.gguf.header import read_header
from tests import gguf_files


def test_without_the_extra_the_command_is_told_that_brings_it(tmp_path, monkeypatch):
    path, _ = gguf_files.tiny_llama(tmp_path / "tiny.gguf")
    monkeypatch.setattr(library, "installed", lambda: False)
    with pytest.raises(UserError, match=r'not installed; `pip install "decoding-explorer\[llama-cpp\]"` builds it'):
        engines.load_model(path)
    assert engines.size_of(path).dtype == "F32", "what it needs is told all the same"


def test_a_process_that_dies_on_a_file_takes_nobody_with_it(tmp_path, monkeypatch):
    path, _ = gguf_files.tiny_llama(tmp_path / "tiny.gguf")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(trial, "COMMAND", ("python", "-c", "import os; os.abort()"))
    with pytest.raises(UserError, match=r"ends its process on 'tiny\.gguf' \(status -6.*built for another processor"):
        trial.tried(read_header(path), "a sum", 0, 1)


def test_what_a_file_gave_is_kept_and_a_damaged_list_of_it_is_made_again(tmp_path, monkeypatch):
    path, _ = gguf_files.tiny_llama(tmp_path / "tiny.gguf")
    header = read_header(path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(trial, "_try", lambda *given: 0.25)
    assert trial.tried(header, "a sum", 0, 1) == 0.25
    monkeypatch.setattr(trial, "_try", lambda *given: 0.5)
    assert trial.tried(header, "a sum", 0, 1) == 0.25
    assert trial.tried(header, "a sum", 0, 2) == 0.5, "other threads, other bits"
    kept = tmp_path / "decoding-explorer" / trial.KEPT
    kept.write_text("no JSON")
    assert trial.tried(header, "a sum", 0, 1) == 0.5


def test_what_its_process_says_is_said(tmp_path, monkeypatch):
    path, _ = gguf_files.tiny_llama(tmp_path / "tiny.gguf")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told = "import json; print('a line'); print(json.dumps({'error': 'llama.cpp cannot load it.'}))"
    monkeypatch.setattr(trial, "COMMAND", ("python", "-c", told))
    with pytest.raises(UserError, match=r"^llama\.cpp cannot load it\.$"):
        trial.tried(read_header(path), "a sum", 0, 1)
