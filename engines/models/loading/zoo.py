"""The one door through which models are loaded, by name, folder or hub id. Imports neither torch nor transformers."""

from __future__ import annotations

import difflib
import gc
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from engines.core.devices import AUTO, chosen_device
from engines.core.errors import UserError
from engines.core.kinds import Model, kinds_of
from engines.core.places import assets, expanded
from engines.core.trace import ModelRecord
from engines.models.adapters import oracle
from engines.models.files import smollm2
from engines.models.files.hub import (
    CONFIGS,
    HUB_ID,
    commit_of,
    names_of,
    read_json,
    shards,
    snapshot,
    stamp,
)
from engines.models.files.unread import check_tokenizer
from engines.models.loading import kept
from engines.models.loading.listing import list_models as list_models  # part of what this module offers
from engines.models.parts import grid_drafts

if TYPE_CHECKING:
    from engines.models.loading.sizing import Size

OPTIONS = (*ModelRecord.OPTIONS, "revision")
ALWAYS = 2  # models used last that stay loaded whatever they take: a target and its draft, both sides of a comparison
BESIDE = " + "  # between the names of a target and of a published drafter
_loaded: OrderedDict[str, Model] = OrderedDict()
_stamps: dict[str, tuple[Any, ...]] = {}  # what the files of each were when it was loaded
_lock = threading.RLock()  # a row-invariant model is made of the plain one


def companion(name: str, role: str) -> str | None:
    """The model that plays `role` beside `name`, or None where none is known or its weights are not there."""
    if role == grid_drafts.ROLE and (draft := grid_drafts.draft_beside(name)):
        return draft
    return next((info.roles.get(role) for info in list_models() if info.name == plain_name(name)), None)


def plain_name(name: str) -> str:
    """The name without the draft that it asks for: whose weights these are."""
    name_parts = grid_drafts.split(name)
    return name_parts[0] if name_parts and not name_parts[2] else name


def is_known(name: str) -> bool:
    """Whether a model of that name is here: listed, or a checkpoint of a grid of drafts."""
    name_parts = grid_drafts.split(name)
    if name_parts:
        return name_parts[1] in grid_drafts.checkpoints(name_parts[0])
    return any(info.name == name for info in list_models())


def target_and_drafter(name: str) -> tuple[str, str]:
    """The two names in TARGET + DRAFTER; the second is "" where there is none."""
    target, mark, drafter = name.partition(BESIDE)
    return (target.strip(), drafter.strip()) if mark and not expanded(name).exists() else (name, "")


def is_loaded(name: str, device: str = "cpu") -> bool:
    """Whether `load_model(name, device=device)` has the weights in memory, so that a run begins at once. Of a hub id
    the hub is not asked."""
    plain = _canonical(plain_name(target_and_drafter(name)[0]))
    if device == AUTO:
        if not _loaded:  # and torch perhaps not yet imported, which would have to say what it stands for
            return False
        device = chosen_device(device)
    name = smollm2.NAME if plain == smollm2.TEXT else plain
    try:
        return _kept(_key(name, device), name, ask=False) is not None
    except UserError:  # its files are gone, which loading it says
        return False


def _key(name: str, device: str, dtype: Any = None, options: Mapping[str, Any] = {}) -> str:
    """Under which a model is kept; the folder of the assets counts, too: the same name may stand for other weights in
    another one, and so does that which a path begins in."""
    place = os.path.abspath(expanded(name)) if expanded(name).exists() else name
    return repr((str(assets()), name, place, device, str(dtype).removeprefix("torch."), sorted(options.items())))


def _stamp(name: str) -> tuple[Any, ...]:
    """What the files of a model on this machine are now, by which it is told whether the one in memory is theirs:
    weights, settings and tokenizer, or a GGUF file with its parts. Raises UserError where they cannot be found."""
    from engines.models.gguf.stores import parts_of

    if (file := _gguf(name)) is not None:
        return stamp(parts_of(file))
    folder = _locate(name, None)[0]
    borrowed = [read_json(folder / "config.json").get(key) for key in ("weights_from", "tokenizer_from", "draft_of")]
    places = [
        folder,
        *(place / str(source) for source in borrowed if source for place in (folder.parent, assets() / "models")),
    ]
    return stamp(file for place in places if place.is_dir() for file in place.iterdir() if file.is_file())


def _gguf(name: str) -> Path | None:
    """The GGUF file of a model, None of others; names of our own come before those of files. Raises UserError."""
    from engines.models.gguf.llama_cpp import require
    from engines.models.gguf.stores import locate

    if name == smollm2.CODED:
        if not smollm2.gguf_file().is_file():
            require()  # before 92.9 MB are fetched that nothing could run
        return smollm2.ensure_gguf()
    ours = Path(name).name == name != ".." and (assets() / "models" / name).is_dir()
    return None if ours or name == smollm2.NAME else locate(name)


def _on_the_hub(name: str) -> bool:
    """Whether the name is that of no model on this machine and can be one of the hub."""
    known = name == smollm2.NAME or expanded(name).is_dir() or (assets() / "models" / name).is_dir()
    return not known and HUB_ID.fullmatch(name) is not None


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
    row's logits are the same bits beside any rows). The two models used last stay loaded, and others as long as all of
    them take no more than EXPLORER_KEEP_MB (450). Raises UserError, with what to do, for everything that does not fit,
    a damaged file and weights for which there is no room (`size_of`) included."""
    from engines.models.loading.loader import require_kind, usable

    target, drafter = target_and_drafter(os.fspath(name_or_path))
    if drafter:
        from engines.models.drafters import load_drafter, with_drafter

        alone = load_model(target, kind=kind, device=device, dtype=dtype, **options)
        return cast(Model, with_drafter(alone, load_drafter(drafter, alone)))
    if "trust_remote_code" in options:
        raise UserError(
            "no code of a checkpoint is run here, so trust_remote_code is not an option; leave it out: what is loaded "
            "goes through the classes of transformers."
        )
    if unknown := sorted(set(options) - set(OPTIONS)):
        raise UserError(f"unknown option '{unknown[0]}' for a model; the options are {', '.join(OPTIONS)}.")
    device = chosen_device(device)
    if device != "cpu":
        usable(device)  # also for what ships, and before anything is fetched
    name = _canonical(os.fspath(name_or_path))
    if (grid_model := grid_drafts.load(name, load_model, device=device, dtype=dtype, **options)) is not None:
        require_kind(grid_model.record.name, kinds_of(grid_model), kind)
        return grid_model
    if name == smollm2.TEXT:
        return smollm2.as_text(load_model(smollm2.NAME, kind=kind, device=device, dtype=dtype, **options))
    key = _key(name, device, dtype, options)
    if (model := _kept(key, name, options.get("revision"))) is None:
        with _lock:
            model = _kept(key, name, options.get("revision")) or _loaded_anew(key, name, kind, device, dtype, options)
    require_kind(model.record.name, kinds_of(model), kind)
    return model


def _kept(key: str, name: str, revision: str | None = None, ask: bool = True) -> Model | None:
    """A model in memory whose files are what they were, at once: it does not wait for another one that is being loaded.
    ask: of a hub id, what its revision is now. Raises UserError where its files are gone."""
    try:
        _loaded.move_to_end(key)
        model = _loaded[key]
    except KeyError:
        return None
    if name == oracle.NAME:
        return model
    if _on_the_hub(name):
        same = not ask or commit_of(name, revision) in ("", model.record.revision)
    else:
        same = _stamps.get(key) == _stamp(name)
    return model if same else None


def _loaded_anew(key: str, name: str, kind: str | None, device: str, dtype: Any, options: Mapping[str, Any]) -> Model:
    """The model, loaded and kept in the place of one that its files no longer are."""
    _loaded.pop(key, None)
    if name == oracle.NAME:
        model: Model = oracle.load_oracle(device=device, dtype=dtype, **options)
    else:
        _stamps[key] = () if _on_the_hub(name) else _stamp(name)  # before it is read: what changes meanwhile is seen
        model = _with_room(lambda: _load(name, kind=kind, device=device, dtype=dtype, **options))
    _loaded[key] = model
    _make_room()
    return model


def loaded_bytes() -> tuple[int, int]:
    """Bytes of the weights that are loaded, published drafters' too, and how many of them may stay. Raises UserError
    where that is said wrongly."""
    from engines.models import drafters

    return kept.held([*_loaded.values(), *drafters.loaded()]), kept.budget()


def _make_room() -> None:
    """Put away what was not used for longest until the rest is within the budget."""
    while len(_loaded) > ALWAYS and (sizes := loaded_bytes())[0] > sizes[1]:
        _stamps.pop(_loaded.popitem(last=False)[0], None)


def _load(name: str, *, device: str, dtype: Any, revision: str | None = None, **options: Any) -> Model:
    if (wish := options.pop("row_invariant", None)) not in (None, False):
        from engines.models.forwards import prepared

        return prepared(load_model(name, device=device, dtype=dtype, revision=revision, **options), wish)
    from engines.models.loading.loader import load_folder
    from engines.models.loading.sizing import check_folder, refuse_options

    if (file := _gguf(name)) is not None:
        from engines.models.loading.gguf import load_gguf

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
    from engines.models.loading.sizing import NoRoom

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
    or "8bit". Raises UserError for what cannot be loaded here, and for options that no GGUF file has."""
    from engines.models.gguf import refusals
    from engines.models.gguf.header import read_header
    from engines.models.loading.sizing import Size, refuse_options, size_of_folder, size_of_header

    if name_or_path == oracle.NAME:
        return Size(oracle.NAME, 0, "float32", "", 0)
    plain = target_and_drafter(os.fspath(name_or_path))[0]
    if plain == smollm2.CODED and not smollm2.gguf_file().is_file():
        raise _not_yet(plain)
    if (file := _gguf(plain)) is not None:
        wishes = {"dtype": dtype, "quantization": quantization, "revision": revision, "block_size": block_size}
        refuse_options(plain, wishes)
        header = read_header(file)
        refusals.check(header)
        return size_of_header(header, plain)
    folder, name = config_folder(os.fspath(name_or_path), revision)
    return size_of_folder(folder, name, dtype, quantization, block_size)


def _not_yet(name: str) -> UserError:
    return UserError(f"{name} is not on this machine yet; `decoding-explorer models --fetch {name}` gets it.")


def _canonical(name: str) -> str:
    return smollm2.NAME if name.lower() in smollm2.ALIASES else name


def config_folder(name: str, revision: str | None = None) -> tuple[Path, str]:
    """The folder that holds the config.json of a model, and its name; of a hub id nothing else is fetched. Raises
    UserError."""
    plain = _canonical(plain_name(target_and_drafter(name)[0]))
    if plain in (smollm2.NAME, smollm2.TEXT):
        if not smollm2.ready():
            raise _not_yet(smollm2.NAME)
        return smollm2.ensure()[0], plain
    return _locate(plain, revision, whole=False)[:2]


def _locate(
    name: str, revision: str | None, check: Callable[[Path], None] = lambda folder: None, whole: bool = True
) -> tuple[Path, str, str, str]:
    """(folder, name for the record, revision, licence if it is not in a card) of a canonical name. check: of a hub id,
    looks at the config before the weights are fetched. whole: with the weights."""
    embedded, folder = assets() / "models" / name, expanded(name)
    plain = "/" not in name and "\\" not in name and name not in (".", "..")
    if revision is not None and not _on_the_hub(name):
        raise UserError(f"revision is an option of models on the hub and '{name}' is none; leave it out.")
    if name == smollm2.NAME:
        folder, source = smollm2.ensure()
        return folder, name, source, smollm2.LICENCE
    if plain and (shards(embedded) or ((embedded / "config.json").is_file() and not folder.is_dir())):
        return embedded, name, "", ""
    if folder.is_dir():
        return folder, folder.resolve().name, "", ""
    if _on_the_hub(name):
        folder, commit = snapshot(name, revision, CONFIGS)
        check_tokenizer(names_of(name, commit), name)
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
