"""The models by name: what is there, which belong together, and the one door through which all are loaded. Importing
this and listing load neither torch nor transformers."""

from __future__ import annotations

import difflib
import functools
import gc
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from engines.core.devices import AUTO, chosen_device
from engines.core.errors import UserError
from engines.core.kinds import Model, kinds_of
from engines.core.places import expanded
from engines.core.trace import ModelRecord
from engines.models import grid_drafts, oracle, smollm2
from engines.models.hub import CONFIGS, HUB_ID, assets, count_parameters, read_json, shards, snapshot
from engines.models.mapping import plan
from engines.models.parts import parts_for

if TYPE_CHECKING:
    from engines.models.sizing import Size

OPTIONS = (*ModelRecord.OPTIONS, "revision")
KEPT = 4  # loaded models that stay in memory
BESIDE = " + "  # between the names of a target and of a published drafter
_loaded: OrderedDict[str, Model] = OrderedDict()
_lock = threading.RLock()  # a row-invariant model is made of the plain one


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
    """The embedded models whose weights are there, SmolLM2, and the oracle, which is computed. Loads nothing."""
    return [*_listed("cache" if smollm2.ready() else "download", _files())]


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
    found = {folder: _describe(folder, card, names) for folder, card in cards.items()}
    drafts = {folder: info for folder, info in found.items() if targets[folder]}
    size, about, computed = smollm2.PARAMETERS, smollm2.NOTE, (*oracle.ONE, *oracle.MANY)
    models = _introduced(
        [
            *(info for folder, info in found.items() if folder not in drafts),
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
    return str(next((one for one in several if one != smollm2.NAME or smollm2.ready()), several[-1]))


def _introduced(models: list[ModelInfo], offers: Mapping[str, Any]) -> list[ModelInfo]:
    """The models with the companions that offer themselves: `companion_of` in a card (model -> role), or a draft that
    was made for one."""
    beside: dict[str, dict[str, str]] = {}
    for name, offer in offers.items():
        for model, role in offer.items() if isinstance(offer, Mapping) else ():
            beside.setdefault(model, {})[str(role)] = name
    return [replace(info, roles={**beside.get(info.name, {}), **info.roles}) for info in models]


def companion(name: str, role: str) -> str | None:
    """The model that plays `role` beside `name`, or None where none is known or its weights are not there."""
    if role == grid_drafts.ROLE and (draft := grid_drafts.draft_beside(name)):
        return draft
    return next((info.roles.get(role) for info in list_models() if info.name == plain_name(name)), None)


def plain_name(name: str) -> str:
    """The name without the draft that it asks for: whose weights these are."""
    found = grid_drafts.split(name)
    return found[0] if found and not found[2] else name


def is_known(name: str) -> bool:
    """Whether a model of that name is here: listed, or a checkpoint of a grid of drafts."""
    found = grid_drafts.split(name)
    if found:
        return found[1] in grid_drafts.checkpoints(found[0])
    return any(info.name == name for info in list_models())


def target_and_drafter(name: str) -> tuple[str, str]:
    """The two names in TARGET + DRAFTER; the second is "" where there is none."""
    target, mark, drafter = name.partition(BESIDE)
    return (target.strip(), drafter.strip()) if mark and not expanded(name).exists() else (name, "")


def is_loaded(name: str, device: str = "cpu") -> bool:
    """Whether `load_model(name, device=device)` has the weights in memory, so that a run begins at once."""
    plain = _canonical(plain_name(target_and_drafter(name)[0]))
    if device == AUTO:
        if not _loaded:  # and torch perhaps not yet imported, which would have to say what it stands for
            return False
        device = chosen_device(device)
    return _key(smollm2.NAME if plain == smollm2.TEXT else plain, device) in _loaded


def _key(name: str, device: str, dtype: Any = None, options: Mapping[str, Any] = {}) -> str:
    """Under which a model is kept; the folder of the assets counts, too: the same name may stand for other weights in
    another one."""
    return repr((str(assets()), name, device, str(dtype).removeprefix("torch."), sorted(options.items())))


def load_model(
    name_or_path: str | os.PathLike[str],
    *,
    kind: str | None = None,
    device: str = "cpu",
    dtype: Any = None,
    **options: Any,
) -> Model:
    """A model by zoo name, folder or hub id, ready to run; TARGET + DRAFTER is a target with a published drafter beside
    it (`engines.load_drafter`), each by its own name.

    kind: "causal", "layered", "two-way", "moe", "split", "memory", "masked", "block", "canvas", "seq2seq",
    "reader", "power-law" or "scene", checked. device: cpu, cuda, cuda:1, mps, or auto: the best that torch has. dtype:
    float32, bfloat16, float16 or "auto" (as stored); by default float32 for weights up to 100 MB, as stored above.
    options: eos_id, mask_id, shift and block_size (where the files do not say it), revision (hub), device_map ("auto",
    or module -> device), quantization ("4bit", "8bit" or a transformers quantisation config), row_invariant (True: a
    row's logits are the same bits beside any rows). The last four loaded models stay in memory. Raises UserError, with
    what to do, for everything that does not fit, a damaged file and weights for which there is no room (`size_of`)
    included."""
    from engines.models.loader import require_kind, usable

    target, drafter = target_and_drafter(os.fspath(name_or_path))
    if drafter:
        from engines.models.drafters import load_drafter, with_drafter

        alone = load_model(target, kind=kind, device=device, dtype=dtype, **options)
        return cast(Model, with_drafter(alone, load_drafter(drafter, alone)))
    if "trust_remote_code" in options:
        raise UserError(
            "no code of a checkpoint is run here, so trust_remote_code is no option; leave it out: what is loaded goes "
            "through the classes of transformers."
        )
    if unknown := sorted(set(options) - set(OPTIONS)):
        raise UserError(f"unknown option '{unknown[0]}' for a model; the options are {', '.join(OPTIONS)}.")
    device = chosen_device(device)
    if device != "cpu":
        usable(device)  # also for what ships, and before anything is fetched
    name = _canonical(os.fspath(name_or_path))
    if (found := grid_drafts.load(name, load_model, device=device, dtype=dtype, **options)) is not None:
        require_kind(found.record.name, kinds_of(found), kind)
        return found
    if name == smollm2.TEXT:
        return smollm2.as_text(load_model(smollm2.NAME, kind=kind, device=device, dtype=dtype, **options))
    key = _key(name, device, dtype, options)
    if (model := _kept(key)) is None:
        with _lock:
            if key not in _loaded and name == oracle.NAME:
                _loaded[key] = oracle.load_oracle(device=device, dtype=dtype, **options)
            elif key not in _loaded:
                _loaded[key] = _with_room(lambda: _load(name, kind=kind, device=device, dtype=dtype, **options))
            model = _loaded[key]
            _loaded.move_to_end(key)
            while len(_loaded) > KEPT:
                _loaded.popitem(last=False)
    require_kind(model.record.name, kinds_of(model), kind)
    return model


def _kept(key: str) -> Model | None:
    """A model in memory, at once: it does not wait for another one that is being loaded."""
    try:
        _loaded.move_to_end(key)
        return _loaded[key]
    except KeyError:
        return None


def _load(name: str, *, device: str, dtype: Any, revision: str | None = None, **options: Any) -> Model:
    if (wish := options.pop("row_invariant", None)) not in (None, False):
        from engines.models.row_invariant.model import of

        return of(load_model(name, device=device, dtype=dtype, revision=revision, **options), wish)
    from engines.models.gguf.stores import locate
    from engines.models.loader import load_folder
    from engines.models.sizing import check_folder, refuse_options

    if not is_known(name) and (file := locate(name)) is not None:
        from engines.models.gguf.loading import load_gguf

        refuse_options(name, {"revision": revision})
        return load_gguf(file, name, device=device, dtype=dtype, **options)
    if options.pop("gpu_layers", None) is not None:
        raise UserError(f"gpu_layers is an option of GGUF files and '{name}' is none; take device or device_map.")

    def check(folder: Path) -> None:
        check_folder(folder, name, device, dtype, options)

    folder, label, commit, licence = _locate(name, revision, check)
    return load_folder(folder, label, device=device, dtype=dtype, revision=commit, licence=licence, **options)


def _with_room(load: Callable[[], Model]) -> Model:
    """What `load` gives; where there is no room, tried again without the models that were kept."""
    from engines.models.sizing import NoRoom

    try:
        return load()
    except NoRoom:
        if not _loaded:
            raise
        _loaded.clear()
        gc.collect()
    return load()


def size_of(
    name_or_path: str | os.PathLike[str],
    *,
    dtype: Any = None,
    quantization: str | None = None,
    revision: str | None = None,
    block_size: int | None = None,
) -> Size:
    """What `load_model` with these arguments needs, without reading a weight; of a hub id only the config is fetched,
    of a GGUF file only its header is read.

    dtype: as `load_model` takes it; by default float32 for weights up to 100 MB, as stored above. quantization: "4bit"
    or "8bit". Raises UserError for a model that cannot be loaded here, and for options that a GGUF file does not
    have."""
    from engines.models.gguf.stores import locate
    from engines.models.sizing import Size, refuse_options, size_of_folder, size_of_gguf

    if name_or_path == oracle.NAME:
        return Size(oracle.NAME, 0, "float32", "", 0)
    plain = target_and_drafter(os.fspath(name_or_path))[0]
    if not is_known(plain) and (file := locate(plain)) is not None:
        wishes = {"dtype": dtype, "quantization": quantization, "revision": revision, "block_size": block_size}
        refuse_options(plain, wishes)
        return size_of_gguf(file, plain)
    folder, name = config_folder(os.fspath(name_or_path), revision)
    return size_of_folder(folder, name, dtype, quantization, block_size)


def _canonical(name: str) -> str:
    return smollm2.NAME if name.lower() in smollm2.ALIASES else name


def config_folder(name: str, revision: str | None = None) -> tuple[Path, str]:
    """The folder that holds the config.json of a model, and its name; of a hub id nothing else is fetched. Raises
    UserError."""
    plain = _canonical(plain_name(target_and_drafter(name)[0]))
    if plain in (smollm2.NAME, smollm2.TEXT):
        if not smollm2.ready():
            raise UserError(f"{smollm2.NAME} is not on this machine yet; `decoding-explorer models --fetch` gets it.")
        return smollm2.ensure()[0], plain
    return _locate(plain, revision, whole=False)[:2]


def _locate(
    name: str, revision: str | None, check: Callable[[Path], None] = lambda folder: None, whole: bool = True
) -> tuple[Path, str, str, str]:
    """(folder, name for the record, revision, licence if it is not in a card) of a canonical name. check: of a hub id,
    looks at the config before the weights are fetched. whole: with the weights."""
    embedded, folder = assets() / "models" / name, expanded(name)
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
        folder, commit = snapshot(name, revision, CONFIGS)
        if whole:
            check(folder)
            folder, commit = snapshot(name, commit)
        return folder, name, commit, ""
    names = [info.name for info in list_models()]
    near = difflib.get_close_matches(name, names, 1, 0.7)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UserError(
        f"no model '{name}': {hint}choose one of {', '.join(names)}, a folder with config.json and safetensors, or a "
        "hub id such as owner/name."
    )
