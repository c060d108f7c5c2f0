"""Downloads from a hub on this machine: what is told before, and one that is stopped and goes on."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path

import huggingface_hub
import pytest
from transformers import LlamaConfig, LlamaForCausalLM

import engines
from engines.core.errors import UserError
from engines.models.files import downloads
from engines.models.loading import zoo
from explorer.cli import main
from tests.hub import serving

ROOT = Path(__file__).resolve().parents[3]
REPO = "someone/llama"
SIZES = {"vocab_size": 32_768, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
TOLD = "decoding-explorer: someone/llama: 1 file of 16.9 MB to download"
CHUNK = huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE  # the hub's library writes a file in pieces of so many bytes
PATIENCE = 60.0


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A model whose file is larger than one piece."""
    folder = tmp_path_factory.mktemp("published")
    config = LlamaConfig(**SIZES, num_attention_heads=2, max_position_embeddings=32, eos_token_id=2)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def hub(published, tmp_path, monkeypatch):
    """A hub that this process and those that it starts ask for models; their cache is a folder of the test."""
    with serving({REPO: published}) as found:
        for name, value in (("ENDPOINT", found.address), ("HOME", str(tmp_path)), ("HUB_OFFLINE", "0")):
            monkeypatch.setenv(f"HF_{name}", value)
        theirs = {"ENDPOINT": found.address, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": False}
        theirs["HUGGINGFACE_CO_URL_TEMPLATE"] = found.address + "/{repo_id}/resolve/{revision}/{filename}"
        for name, value in theirs.items():
            monkeypatch.setattr(huggingface_hub.constants, name, value)
        monkeypatch.setattr(zoo, "_loaded", OrderedDict())
        yield found


@pytest.fixture
def blobs(tmp_path):
    return tmp_path / "hub" / "models--someone--llama" / "blobs"


def part_of(blobs):
    """The file that is there in part, as soon as it is."""
    end = time.monotonic() + PATIENCE
    while not (found := [file for file in blobs.glob("*.part") if file.stat().st_size]):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.05)
    return found[0]


def ready(capsys):
    """What the command that fetches the model says on standard error."""
    capsys.readouterr()
    code = main(["models", "--fetch", REPO])
    said = capsys.readouterr()
    assert code == 0 and "someone/llama is ready: causal, 4,223,168 parameters" in said.out
    return said.err


def test_a_size_is_told_from_the_config_alone(hub, capsys):
    assert main(["models", "--size", REPO]) == 0
    said = capsys.readouterr().out
    assert said.startswith("someone/llama has 4,223,168 parameters: 16.9 MB of weights as float32")
    assert {name for name, _ in hub.ranges} == {"config.json", "generation_config.json"}


def test_whoever_watches_a_download_can_stop_it_and_the_next_one_goes_on(hub, blobs, capsys, monkeypatch):
    hub.holds = CHUNK + 1_000_000
    seen = []

    def watch(now):
        seen.append(now)
        if now.done >= CHUNK:  # a piece is seen while it is written, too
            raise InterruptedError("enough")

    with pytest.raises(InterruptedError), engines.watching_downloads(watch):
        engines.load_model(REPO)
    assert (seen[0].repo, seen[0].files, seen[0].done, seen[-1].done) == (REPO, 1, 0, CHUNK)
    hub.holds = None
    time.sleep(0.3)
    assert part_of(blobs).stat().st_size == CHUNK, "nothing comes any more"

    hub.ranges.clear()
    said = ready(capsys)
    assert hub.ranges == [("model.safetensors", CHUNK)], "the rest of that file and nothing else"
    assert TOLD in said and "of them are here from before)" in said
    assert not [file for file in blobs.iterdir() if file.suffix in (".part", ".lock")]
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert ready(capsys) == ""


def test_what_is_not_what_the_hub_has_is_fetched_anew_or_named(hub, blobs, capsys, tmp_path, monkeypatch):
    whole = (hub.repos[REPO] / "model.safetensors").read_bytes()
    blobs.mkdir(parents=True)
    part = blobs / f"{hashlib.sha256(whole).hexdigest()}.part"
    part.write_bytes(bytes(1000))
    assert main(["models", "--fetch", REPO]) == 2 and not part.exists()
    said = capsys.readouterr().err
    assert "the download of 'someone/llama' broke off (OSError: what came of model.safetensors is not" in said
    assert TOLD in ready(capsys)
    assert main(["models", "--fetch", "someone/else"]) == 2
    said = capsys.readouterr().err
    assert "the hub has no model 'someone/else'" in said and len(said.splitlines()) == 1
    monkeypatch.setattr(downloads.subprocess, "Popen", lambda *a, **k: pytest.fail("it began"))
    with pytest.raises(UserError, match=r"takes 1,000,000 GB and the disk of .* has .* free; make room"):
        downloads.fetch("a/b", "c", {"model.safetensors": 10**15}, tmp_path / "models--a--b")


@pytest.mark.slow
def test_ctrl_c_ends_a_download(hub, blobs):
    hub.holds = CHUNK + 1_000_000
    with subprocess.Popen(
        [sys.executable, "-m", "explorer.cli", "models", "--fetch", REPO],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        # begun in the background of a shell it ignores Ctrl-C, and so would its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        told = process.stderr.readline()
        part_of(blobs)
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=PATIENCE)[1]
    assert (told, process.returncode) == (f"{TOLD}\n", 130)
    assert rest == "decoding-explorer: the download was stopped; the same command goes on from there.\n"
