"""Where a GGUF file lies that a person names: a path, a folder, or a model in the store of Ollama or LM Studio.

Both programs keep plain files, which are read where they are; their servers are never asked."""

import glob
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from engines.core.errors import UserError
from engines.core.places import expanded
from engines.models.files.hub import shards
from engines.models.gguf.header import PART

OLLAMA, LM_STUDIO = "ollama:", "lmstudio:"
SUFFIX, PROJECTOR = ".gguf", "mmproj"
HOST, LIBRARY, TAG = "registry.ollama.ai", "library", "latest"  # what Ollama leaves out of a name
VARIABLE = "OLLAMA_MODELS"
SYSTEM = Path("/usr/share/ollama/.ollama/models")  # of Ollama as a service of Linux
MODEL, ADAPTER = (f"application/vnd.ollama.image.{part}" for part in ("model", "adapter"))
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")  # of a name in Ollama's store; a host may have a port
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
LARGEST_MANIFEST = 1_000_000  # bytes
TOLD = 5  # names that a refusal lists


def locate(name: str) -> Path | None:
    """The (first) GGUF file of a model by its name, or None where the name is no GGUF file's: a path, a folder with one
    model in GGUF, `ollama:MODEL[:TAG]`, `ollama:USER/MODEL[:TAG]`, `lmstudio:PUBLISHER/MODEL[/FILE]`. Raises UserError,
    with what is there, for one of these that is missing or could be several."""
    if name.startswith(OLLAMA):
        return _in_ollama(name.removeprefix(OLLAMA))
    if name.startswith(LM_STUDIO):
        return _in_lm_studio(name.removeprefix(LM_STUDIO))
    path = expanded(name)
    if path.is_dir():
        return _only(path, name) if not shards(path) else None
    if path.suffix.lower() != SUFFIX:
        return None
    if not path.is_file():
        beside = [file.name for file in models_in(path.parent)]
        raise UserError(f"there is no file '{name}'; {_there(beside, f'in {path.parent}')}")
    return path


def models_in(folder: Path) -> list[Path]:
    """The first files of the GGUF models in a folder; projectors of pictures are none."""
    if not folder.is_dir():
        return []
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix.lower() == SUFFIX)
    except OSError as error:
        raise UserError(f"the folder '{folder}' cannot be read ({error.strerror}); give a file in it.") from None
    return list(dict.fromkeys(_first(file) for file in files if PROJECTOR not in file.name.lower()))


def _first(file: Path) -> Path:
    """The first of the files of a split model."""
    match = PART.fullmatch(file.name)
    return file.with_name(f"{match['stem']}-00001-of-{match['count']}{file.suffix}") if match else file


def parts_of(file: Path) -> list[Path]:
    """All files of a model, of which this is one."""
    match = PART.fullmatch(file.name)
    return sorted(file.parent.glob(f"{glob.escape(match['stem'])}-*-of-{match['count']}.*")) if match else [file]


def _only(folder: Path, name: str) -> Path | None:
    models = models_in(folder)
    if len(models) > 1:
        raise UserError(
            f"'{name}' has {len(models)} models in GGUF; name one of them: {_some(m.name for m in models)}."
        )
    return models[0] if models else None


def _some(names: Iterable[str]) -> str:
    known = list(names)
    return ", ".join(known[:TOLD]) + (f" and {len(known) - TOLD} more" if len(known) > TOLD else "")


def _there(names: Sequence[str], where: str) -> str:
    return f"{where} there is {_some(names)}." if names else f"{where} there is no GGUF model."


def _inside(path: Path, store: Path) -> bool:
    """Whether a file is there, and links lead to no place outside the store."""
    try:
        return path.is_file() and path.resolve().is_relative_to(store.resolve())
    except PermissionError:
        return False


def _closed(store: Path) -> bool:
    """Whether the system keeps this user out of a store, as it does for that of a service."""
    try:
        (store / "manifests").stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _ollama_stores() -> list[Path]:
    """Where Ollama keeps its models: the folder that its variable names, or else its usual ones."""
    if given := os.environ.get(VARIABLE):
        return [expanded(given)]
    return [expanded("~/.ollama/models"), SYSTEM]


def _in_ollama(name: str) -> Path:
    before, slash, last = name.rpartition("/")
    model, _, tag = last.partition(":")
    words = [*(before.split("/") if slash else []), model]
    words = [*(HOST, LIBRARY)[: max(3 - len(words), 0)], *words, tag or TAG]
    if len(words) != 4 or not all(WORD.fullmatch(word) for word in words) or ":" in "".join(words[1:]):
        raise UserError(
            f"'{OLLAMA}{name}' is not the name of a model in Ollama; give {OLLAMA}MODEL, {OLLAMA}MODEL:TAG or "
            f"{OLLAMA}USER/MODEL:TAG, as `ollama list` shows them."
        )
    stores = _ollama_stores()
    for store in stores:
        manifest = store.joinpath("manifests", *words)
        if _inside(manifest, store):
            return _weights(manifest, store, f"{OLLAMA}{name}")
    there = sorted(known for store in stores for known in _names(store))
    where = " or ".join(map(str, stores))
    if not there and (closed := next(filter(_closed, stores), None)):
        raise UserError(
            f"Ollama's store {closed} may not be read by you; join its group (`sudo usermod -aG ollama $USER`, then "
            f"log in again), or name another folder in {VARIABLE}."
        )
    if not there:
        raise UserError(
            f"there is no model of Ollama in {where}; get it with `ollama pull {name}`, or name the folder in "
            f"{VARIABLE}."
        )
    raise UserError(f"Ollama has no model '{name}' here; get it with `ollama pull {name}`, or take {_some(there)}.")


def _names(store: Path) -> list[str]:
    """The models of a store by the names that `locate` takes."""
    names = []
    for manifest in (store / "manifests").glob("*/*/*/*"):
        host, user, model, tag = manifest.parts[-4:]
        left_out = (host == HOST) + (host == HOST and user == LIBRARY)
        names.append(OLLAMA + "/".join([host, user, f"{model}:{tag}"][left_out:]))
    return names


def _weights(manifest: Path, store: Path, name: str) -> Path:
    """The file of the weights that a manifest names. Raises UserError."""
    by_type: dict[str, str] = {}
    for layer in reversed(_layers(manifest, name)):
        by_type[str(layer.get("mediaType"))] = str(layer.get("digest"))
    if ADAPTER in by_type:
        raise UserError(
            f"'{name}' is a model with a LoRA adapter, which is not applied here; take the model alone, or "
            "one that the adapter was merged into."
        )
    digest = by_type.get(MODEL, "")
    if not DIGEST.fullmatch(digest):
        raise UserError(
            f"'{name}' has no GGUF file in Ollama's store (a model of the cloud, or one in another format); take "
            "another one."
        )
    file = store / "blobs" / digest.replace(":", "-")
    if not _inside(file, store):
        pull = f"`ollama pull {name.removeprefix(OLLAMA)}`"
        raise UserError(f"'{name}' is listed in Ollama's store, and {file} is not there; get it again with {pull}.")
    return file


def _layers(manifest: Path, name: str) -> list[dict[str, Any]]:
    try:
        if manifest.stat().st_size > LARGEST_MANIFEST:
            raise ValueError
        layers = json.loads(manifest.read_text(encoding="utf-8"))["layers"]
        if not all(isinstance(layer, dict) for layer in layers):
            raise TypeError
        return list(layers)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pull = f"`ollama pull {name.removeprefix(OLLAMA)}`"
        raise UserError(f"Ollama's list of files of '{name}' ({manifest}) is damaged; get it again: {pull}.") from None


def _in_lm_studio(name: str) -> Path:
    words = name.split("/")
    if len(words) not in (2, 3) or not all(words) or any(word in (".", "..") or "\\" in word for word in words):
        raise UserError(
            f"'{LM_STUDIO}{name}' is not the name of a model in LM Studio; give {LM_STUDIO}PUBLISHER/MODEL or "
            f"{LM_STUDIO}PUBLISHER/MODEL/FILE, as its folder of models has them."
        )
    stores = [expanded("~/.lmstudio/models"), expanded("~/.cache/lm-studio/models")]  # now, and before
    for store in stores:
        folder = store.joinpath(*words[:2])
        models = [file for file in models_in(folder) if folder.resolve().is_relative_to(store.resolve())]
        if len(words) == 3 and models:
            return _named(words[2], models, store, f"{LM_STUDIO}{name}")
        if model := _only(folder, f"{LM_STUDIO}{name}") if models else None:
            return _named(model.name, [model], store, f"{LM_STUDIO}{name}")
    folders = (folder for store in stores for folder in sorted(store.glob("*/*")) if folder.is_dir())
    there = [LM_STUDIO + "/".join(folder.parts[-2:]) for folder in folders if models_in(folder)]
    where = " or ".join(map(str, stores))
    if not there:
        raise UserError(f"there is no model of LM Studio in {where}; get one in LM Studio, or give a path.")
    raise UserError(f"LM Studio has no model '{name}' here; get it there, or take {_some(there)}.")


def _named(file: str, models: list[Path], store: Path, name: str) -> Path:
    """The model of a folder by its file's name, with the suffix or without. Raises UserError."""
    for model in models:
        if file in (model.name, model.stem) or _first(model.with_name(file)) == model:
            if model.is_file() and not _inside(model, store):
                raise UserError(f"'{name}' is a link to a place outside LM Studio's folder; give {model.resolve()}.")
            return model
    raise UserError(f"'{name}' is not there; its folder has {_some(model.name for model in models)}.")
