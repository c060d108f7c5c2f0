"""The models by name: what is there, which belong together, and the one door through which all are loaded.

Importing this and listing load neither torch nor transformers.
"""

from __future__ import annotations

import difflib
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engines.core.errors import UserError
from engines.core.events import ModelRecord
from engines.core.models import Model
from engines.models import oracle, smollm2
from engines.models.hub import HUB_ID, count_parameters, read_json, shards, snapshot
from engines.models.mapping import plan

OPTIONS = (*ModelRecord.OPTIONS, "revision")
KEPT = 4  # loaded models that stay in memory
TITLES = {
    "tiny-ar-s": "Tiny causal model, small (makes mistakes: a draft, or the small half of a pair)",
    "tiny-ar-m": "Tiny causal model, medium",
    "tiny-ar-l": "Tiny causal model, large",
    "tiny-dlm": "Tiny masked-diffusion model",
    "tiny-dlm-dparallel": "Tiny masked-diffusion model, distilled to be certain early (dParallel)",
    "tiny-blockdlm": "Tiny block-diffusion model",
    "tiny-encdec": "Tiny encoder-decoder",
    smollm2.DRAFT: "Draft model for SmolLM2-135M-Instruct (two layers)",
}
COMPANIONS = {  # model -> role -> the model that plays it beside the first
    "tiny-ar-l": {"small": "tiny-ar-s", "draft": "tiny-ar-s"},
    "tiny-ar-m": {"small": "tiny-ar-s", "draft": "tiny-ar-s"},
}
_loaded: OrderedDict[str, Model] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class ModelInfo:
    """A model that can be loaded by name. where: embedded (in the repository), cache (on this machine) or download. roles: role -> companion's name."""

    name: str
    kind: str
    title: str
    parameters: int
    where: str
    note: str = ""
    roles: dict[str, str] = field(default_factory=dict)


def assets() -> Path:
    """The folder `assets` of the repository; the variable DECODING_EXPLORER_ASSETS names another one."""
    given = os.environ.get("DECODING_EXPLORER_ASSETS")
    return Path(given) if given else Path(__file__).resolve().parents[2] / "assets"


def list_models() -> list[ModelInfo]:
    """The embedded models whose weights are there, SmolLM2, and the oracle, which is computed. Loads nothing."""
    folders = sorted(p.parent for p in (assets() / "models").glob("*/config.json") if shards(p.parent))
    names, where = {folder.name for folder in folders}, "cache" if smollm2.ready() else "download"
    drafts = [folder for folder in folders if folder.name == smollm2.DRAFT]
    roles = {"draft": smollm2.DRAFT} if drafts else {}
    return [
        *(_describe(folder, names) for folder in folders if folder not in drafts),
        ModelInfo(smollm2.NAME, "causal", "SmolLM2-135M-Instruct", smollm2.PARAMETERS, where, smollm2.NOTE, roles),
        *(replace(_describe(folder, names), where=where) for folder in drafts),  # it needs the embedding of SmolLM2
        ModelInfo(oracle.NAME, "masked", oracle.TITLE, 0, "embedded", oracle.NOTE),
    ]


def _describe(folder: Path, names: set[str]) -> ModelInfo:
    card, kind = read_json(folder / "card.json"), plan(read_json(folder / "config.json"), folder.name).kind
    title = str(card.get("title") or TITLES.get(folder.name, folder.name))
    roles = card.get("companions") or COMPANIONS.get(folder.name, {})
    there = {role: name for role, name in roles.items() if name in names}
    try:
        parameters, note = count_parameters(folder), str(card.get("note", ""))
    except UserError as error:  # one damaged file must not hide the other models; loading this one says the same
        parameters, note = 0, str(error)
    return ModelInfo(folder.name, kind, title, parameters, "embedded", note, there)


def companion(name: str, role: str) -> str | None:
    """The model that plays `role` beside `name`, or None where none is known or its weights are not there."""
    return next((info.roles.get(role) for info in list_models() if info.name == name), None)


def load_model(name_or_path: str | os.PathLike[str], *, kind: str | None = None, device: str = "cpu", dtype: Any = None, **options: Any) -> Model:
    """A model by zoo name, folder or hub id, ready to run.

    kind: "causal", "masked", "block" or "seq2seq", checked. dtype: float32, bfloat16, float16 or "auto" (as stored); by default float32 for weights
    up to 100 MB, as stored above. options: mask_id, shift (masked and block models), block_size (block models whose files do not say it), revision
    (hub), device_map, quantization (a transformers quantisation config). The last four loaded models stay in memory. Raises UserError, with what to
    do, for everything that does not fit, a damaged file included.
    """
    from engines.models.loader import load_folder, require_kind

    if unknown := sorted(set(options) - set(OPTIONS)):
        raise UserError(f"unknown option '{unknown[0]}' for a model; the options are {', '.join(OPTIONS)}.")
    name = _canonical(os.fspath(name_or_path))
    key = repr((name, device, str(dtype).removeprefix("torch."), sorted(options.items())))
    with _lock:
        if key not in _loaded and name == oracle.NAME:
            _loaded[key] = oracle.load_oracle(device=device, dtype=dtype, **options)
        elif key not in _loaded:
            folder, label, revision, licence = _locate(name, options.pop("revision", None))
            _loaded[key] = load_folder(folder, label, kind=kind, device=device, dtype=dtype, revision=revision, licence=licence, **options)
        _loaded.move_to_end(key)
        while len(_loaded) > KEPT:
            _loaded.popitem(last=False)
        model = _loaded[key]
    require_kind(model.record.name, model.record.kind, kind)
    return model


def _canonical(name: str) -> str:
    return smollm2.NAME if name.lower() in smollm2.ALIASES else name


def _locate(name: str, revision: str | None) -> tuple[Path, str, str, str]:
    """(folder, name for the record, revision, licence if it is not in a card) of a canonical name."""
    embedded, folder = assets() / "models" / name, Path(name).expanduser()
    plain = "/" not in name and "\\" not in name and name not in (".", "..")
    on_the_hub = name != smollm2.NAME and not folder.is_dir() and HUB_ID.fullmatch(name) is not None
    if revision is not None and not on_the_hub:
        raise UserError(f"revision is an option of models on the hub and '{name}' is none; leave it out.")
    if name == smollm2.NAME:
        folder, source = smollm2.ensure()
        return folder, name, source, smollm2.LICENCE
    if plain and (shards(embedded) or ((embedded / "config.json").is_file() and not folder.is_dir())):
        return embedded, name, "", ""
    if folder.is_dir():
        return folder, folder.resolve().name, "", ""
    if on_the_hub:
        folder, commit = snapshot(name, revision)
        return folder, name, commit, ""
    names = [info.name for info in list_models()]
    near = difflib.get_close_matches(name, names, 1, 0.7)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UserError(f"no model '{name}': {hint}choose one of {', '.join(names)}, a folder with config.json and safetensors, or a hub id such as owner/name.")
