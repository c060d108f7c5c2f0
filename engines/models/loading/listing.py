"""Which models are here by name, and which belong together; found without torch and transformers."""

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engines.core.errors import UserError
from engines.core.places import assets
from engines.models.adapters import oracle
from engines.models.configs.mapping import plan
from engines.models.files import smollm2
from engines.models.files.hub import count_parameters, read_json, shards
from engines.models.parts import parts_for


@dataclass(frozen=True)
class ModelInfo:
    """A model that can be loaded by name. where: embedded (in the repository), cache (on this machine) or download.
    roles: role -> companion's name. kinds: all that it satisfies; methods name one of them in `needs`. tasks:
    slugs of the tasks (`engines.tasks`) that it knows and nothing else, as its card says; none: it reads any text.
    parts: names of the trained parts that lie here for it (`engines.models.parts`)."""

    name: str
    kind: str
    title: str
    parameters: int
    where: str
    note: str = ""
    roles: dict[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


def list_models() -> list[ModelInfo]:
    """The embedded models whose weights are there, SmolLM2 in both of its forms, and the oracle, which is computed.
    Loads nothing."""
    coded = "cache" if smollm2.gguf_file().is_file() else "download"
    gguf = ModelInfo(
        smollm2.CODED, "causal", smollm2.CODED_TITLE, smollm2.PARAMETERS, coded, smollm2.CODED_NOTE, kinds=("causal",)
    )
    return [*_listed("cache" if smollm2.ready() else "download", _files()), gguf]


def _files() -> tuple[tuple[str, int, int], ...]:
    """The files of models and of parts as they are now: all that the list depends on."""
    there = (file for place in ("models", "parts") for file in (assets() / place).glob("*/*"))
    return tuple((str(file), (stat := file.stat()).st_mtime_ns, stat.st_size) for file in there)


@functools.lru_cache(maxsize=2)
def _listed(where: str, files: tuple[tuple[str, int, int], ...]) -> tuple[ModelInfo, ...]:
    """The list, read once for what is there."""
    folders = sorted(p.parent for p in (assets() / "models").glob("*/config.json") if shards(p.parent))
    cards = {folder: read_json(folder / "card.json") for folder in folders}
    targets = {folder: read_json(folder / "config.json").get("draft_of") for folder in folders}
    names, kinds = {folder.name for folder in folders} | {smollm2.NAME}, ("causal", "layered")
    infos = {folder: _describe(folder, card, names) for folder, card in cards.items()}
    drafts = {folder: info for folder, info in infos.items() if targets[folder]}
    size, about, computed = smollm2.PARAMETERS, smollm2.NOTE, (*oracle.ONE, *oracle.MANY)
    models = _introduced(
        [
            *(info for folder, info in infos.items() if folder not in drafts),
            ModelInfo(smollm2.NAME, "causal", smollm2.TITLE, size, where, about, kinds=kinds),
            *(replace(info, where=where) for info in drafts.values()),  # they need the embedding of SmolLM2
            ModelInfo(
                oracle.NAME, "masked", oracle.TITLE, 0, "embedded", oracle.NOTE, kinds=("masked",), tasks=computed
            ),
        ],
        {
            folder.name: card.get("companion_of") or ({targets[folder]: "draft"} if targets[folder] else {})
            for folder, card in cards.items()
        },
    )
    chat = next(info for info in models if info.name == smollm2.NAME)
    text = replace(chat, name=smollm2.TEXT, title=smollm2.TEXT_TITLE, note=smollm2.TEXT_NOTE)
    return tuple(replace(info, parts=parts_for(info.name)) for info in (*models, text))


def _describe(folder: Path, card: Mapping[str, Any], names: Collection[str]) -> ModelInfo:
    """A model as its card tells it: `title`, `note`, and `companions`, role -> the model that plays it beside this
    one, or several of which the first that is on this machine does."""
    how, title, roles = plan(read_json(folder / "config.json"), folder.name), card.get("title"), card.get("companions")
    beside = {role: _at_hand(name) for role, name in roles.items()} if isinstance(roles, Mapping) else {}
    there = {role: name for role, name in beside.items() if name in names}
    try:
        parameters, note = count_parameters(folder), str(card.get("note", ""))
    except UserError as error:  # one damaged file must not hide the other models; loading this one says the same
        parameters, note = 0, str(error)
    tasks = tuple(map(str, card.get("tasks") or card.get("held_out_exact_match") or ()))
    name, title = folder.name, str(title or folder.name)
    return ModelInfo(name, how.kind, title, parameters, "embedded", note, there, how.kinds, tasks)


def _at_hand(name: Any) -> str:
    """The name, or of several the first whose weights need no download."""
    several = name if isinstance(name, list) else [name]
    return str(next((candidate for candidate in several if candidate != smollm2.NAME or smollm2.ready()), several[-1]))


def _introduced(models: list[ModelInfo], offers: Mapping[str, Any]) -> list[ModelInfo]:
    """The models with the companions that offer themselves: `companion_of` in a card (model -> role), or a draft that
    was made for one."""
    beside: dict[str, dict[str, str]] = {}
    for name, offer in offers.items():
        for model, role in offer.items() if isinstance(offer, Mapping) else ():
            beside.setdefault(model, {})[str(role)] = name
    return [replace(info, roles={**beside.get(info.name, {}), **info.roles}) for info in models]
