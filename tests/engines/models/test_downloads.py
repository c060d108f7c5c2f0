"""Downloads from a hub on this machine: what is told before, and one that is stopped and goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from tests.hub import COMMIT, serving

ROOT = Path(__file__).resolve().parents[3]
REPO = "someone/llama"
SIZES = {"vocab_size": 65_536, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
COMMAND = [sys.executable, "-m", "explorer.cli", "models"]
PATIENCE = 60.0


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A model of 34 MB; the hub's library writes a file in pieces of 10 MB."""
    folder = tmp_path_factory.mktemp("published")
    config = LlamaConfig(**SIZES, num_attention_heads=2, max_position_embeddings=32, eos_token_id=2)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def hub(published):
    with serving({REPO: published}) as found:
        yield found


@pytest.fixture
def env(hub, tmp_path):
    plain = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    return {**plain, "HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}


def done(env, *given):
    return subprocess.run([*COMMAND, *given], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


def interruptible(command, env):
    """A process that Ctrl-C reaches: one begun in the background of a shell ignores it, and so would its children."""
    return subprocess.Popen(
        command,
        env=env,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def blobs(env):
    return Path(env["HF_HOME"]) / "hub" / "models--someone--llama" / "blobs"


def partial(env):
    """Bytes of a file that is there in part, as soon as there are some."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if sizes := [file.stat().st_size for file in blobs(env).glob("*.part") if file.stat().st_size]:
            return sizes[0]
        time.sleep(0.05)
    raise AssertionError("nothing came")


def test_a_size_is_told_from_the_config_alone(hub, env):
    told = done(env, "--size", REPO)
    assert told.returncode == 0 and told.stderr == ""
    assert told.stdout.startswith("someone/llama has 8,417,472 parameters: 33.7 MB of weights as float32")
    assert {name for name, _ in hub.ranges} == {"config.json", "generation_config.json"}


def test_a_download_that_is_stopped_goes_on_where_it_was(hub, env):
    hub.slow = 0.02
    with interruptible([*COMMAND, "--fetch", REPO], env) as first:
        told = first.stderr.readline()
        before = partial(env)
        first.send_signal(signal.SIGINT)
        rest = first.communicate(timeout=PATIENCE)[1]
    assert told == "decoding-explorer: someone/llama: 1 file of 33.7 MB to download\n"
    assert rest == "decoding-explorer: the download was stopped; the same command goes on from there.\n"
    assert first.returncode == 130
    before = partial(env)
    hub.slow = 0.0
    hub.ranges.clear()
    second = done(env, "--fetch", REPO)
    assert second.returncode == 0 and "someone/llama is ready: causal, 8,417,472 parameters" in second.stdout
    assert hub.ranges == [("model.safetensors", before)], "the rest of that file and nothing else"
    assert "1 file of 33.7 MB to download (" in second.stderr and "of them are here from before)" in second.stderr
    assert not [file for file in blobs(env).iterdir() if file.suffix in (".part", ".lock")]
    again = done({**env, "HF_HUB_OFFLINE": "1"}, "--fetch", REPO)
    assert again.returncode == 0 and again.stderr == ""


STOPPED = """
import engines
seen = []
def watch(now):
    seen.append(now)
    if 0 < now.done < now.bytes:
        raise InterruptedError("enough")
try:
    with engines.watching_downloads(watch):
        engines.load_model("someone/llama")
except InterruptedError:
    print(len(seen) > 1, seen[0].repo, seen[0].files, seen[0].done, seen[-1].done)
"""


def test_whoever_watches_a_download_can_stop_it(hub, env):
    hub.slow = 0.02
    run = subprocess.run([sys.executable, "-c", STOPPED], env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert run.stdout.split()[:4] == ["True", REPO, "1", "0"] and int(run.stdout.split()[4]) > 0, run.stderr
    size = partial(env)
    time.sleep(0.5)  # nothing comes any more
    assert partial(env) == size


def test_what_is_not_what_the_hub_has_is_fetched_anew(hub, env):
    import hashlib

    whole = (hub.repos[REPO] / "model.safetensors").read_bytes()
    blobs(env).mkdir(parents=True)
    part = blobs(env) / f"{hashlib.sha256(whole).hexdigest()}.part"
    part.write_bytes(bytes(1000))
    first = done(env, "--fetch", REPO)
    assert first.returncode == 2 and not part.exists()
    assert "the download of 'someone/llama' broke off (OSError: what came of model.safetensors is not" in first.stderr
    assert done(env, "--fetch", REPO).returncode == 0


def test_an_id_that_the_hub_does_not_have(env):
    told = done(env, "--fetch", "someone/else")
    assert told.returncode == 2 and "the hub has no model 'someone/else'" in told.stderr
    assert len(COMMIT) == 40 and len(told.stderr.splitlines()) == 1


def test_a_disk_without_room_is_named_before_the_download(tmp_path, monkeypatch):
    from engines.core.errors import UserError
    from engines.models import downloads

    monkeypatch.setattr(downloads.subprocess, "Popen", lambda *a, **k: pytest.fail("it began"))
    with pytest.raises(UserError, match=r"takes 1,000,000 GB and the disk of .* has .* free; make room"):
        downloads.fetch("a/b", "c", {"model.safetensors": 10**15}, tmp_path / "models--a--b")
