"""`certify` on a GGUF file: methods against greedy, greedy against one forward, and against llama.cpp's own server."""

import json

import pytest
import torch

from explorer.bench import llama_server
from explorer.cli import main
from tests import gguf_files


@pytest.fixture(autouse=True)
def one_thread(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_file_is_held_against_greedy_one_forward_and_the_server(tmp_path, capsys):
    path, _ = gguf_files.tiny_llama(tmp_path / "tiny.gguf")
    wish = ["--model", str(path), "--method", "token-recycling", "--prompts", "2", "--max-new-tokens", "12"]
    assert main(["certify", *wish, "--json", str(tmp_path / "found.json")]) == 0
    out = capsys.readouterr().out
    assert "In F32 a row's logits move by" in out
    assert out.count("greedy against llama.cpp's own server") == 2
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["kept"][0]["same"] == found["network"][0]["same"] == 2
    assert found["server"][0]["method"] == "greedy" and found["server"][0]["prompts"] == 2
    assert found["server"][0]["same"] == 2, "the server's float16 cache decides nothing on random weights"


def test_without_the_server_it_is_not_asked(tmp_path, capsys, monkeypatch):
    path, _ = gguf_files.tiny_llama(tmp_path / "tiny.gguf")
    wish = ["certify", "--model", str(path), "--method", "prompt-lookup", "--prompts", "1", "--max-new-tokens", "8"]
    assert main([*wish, "--no-server"]) == 0 and "server" not in capsys.readouterr().out
    monkeypatch.setattr(llama_server, "available", lambda: False)
    assert main(wish) == 0 and "was not asked: `pip install xllamacpp`" in capsys.readouterr().out
