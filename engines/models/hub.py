"""Where a model's files come from and whether they are safe: a local folder or a snapshot of the Hugging Face hub, safetensors only."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

from engines.core.errors import UserError

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
WANTED = ["*.safetensors", "*.json", "*.txt", "*.jinja"]  # no pickles, no code


def snapshot(repo: str, revision: str | None = None) -> tuple[Path, str]:
    """The folder of a hub model, downloaded at the first use, and its commit. Raises UserError where it cannot be had."""
    import huggingface_hub as hub
    from huggingface_hub import errors

    try:
        folder = Path(hub.snapshot_download(repo, revision=revision, allow_patterns=WANTED))
    except errors.GatedRepoError:
        raise UserError(f"'{repo}' asks its users to accept terms first; accept them on its page and run `hf auth login`.") from None
    except errors.RevisionNotFoundError:
        raise UserError(f"'{repo}' has no revision '{revision}'; leave it out for the newest.") from None
    except errors.RepositoryNotFoundError:
        raise UserError(f"the hub has no model '{repo}', or it is private; check the spelling or run `hf auth login`.") from None
    except Exception as error:  # no network has many names: offline switch, DNS, proxy, timeout
        why = type(error).__name__
        raise UserError(f"'{repo}' is not in the local cache and the hub cannot be reached ({why}); go online or give a local folder.") from error
    return folder, folder.name


def check_folder(folder: Path, name: str) -> None:
    """Raise UserError unless the folder holds a config.json and safetensors weights."""
    if not (folder / "config.json").is_file():
        raise UserError(f"'{name}' has no config.json, so it is not a transformers model; give the folder that holds config.json.")
    if not shards(folder):
        pickles = sorted(p.name for pattern in ("*.bin", "*.pt", "*.pth", "*.pkl") for p in folder.glob(pattern))
        found = f"only {pickles[0]}, which could run code when read" if pickles else "none"
        raise UserError(f"'{name}' needs weights as *.safetensors and has {found}; convert it with save_pretrained or choose another revision.")


def shards(folder: Path) -> list[Path]:
    """The model's weight files in order, without files that only lie beside them."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return [folder / name for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))]
    single = folder / "model.safetensors"
    return [single] if single.is_file() else []


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file, or {} where there is no such file. Raises UserError if it is not one."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON ({error}); download or write it again.") from None
    if not isinstance(value, dict):
        raise UserError(f"{path} must hold a JSON object and holds a {type(value).__name__}.")
    return value


def sha256(path: Path) -> str:
    """Of a file's bytes; computed once per path, size and time of change. A hub file carries it in its name."""
    real = path.resolve()
    if re.fullmatch(r"[0-9a-f]{64}", real.name):
        return real.name
    facts = real.stat()
    return _sha256(str(real), facts.st_mtime_ns, facts.st_size)


@functools.lru_cache(maxsize=64)
def _sha256(path: str, changed: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def count_parameters(folder: Path) -> int:
    """Numbers in the weight files, read from their headers."""
    total = 0
    for shard in shards(folder):
        with open(shard, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        total += sum(math.prod(entry["shape"]) for key, entry in header.items() if key != "__metadata__")
    return total
