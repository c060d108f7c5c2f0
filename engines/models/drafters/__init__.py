"""Published drafters: what people download to speed up a target, in the formats that they are published in.

    from engines.models.drafters import load_drafter
    drafter = load_drafter("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", target)

A format is told by config and tensors, never by a name. Every tensor's shape is checked against the target before
anything is computed, and nothing that a checkpoint brings is executed."""

from __future__ import annotations

import copy
import json
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.core.errors import UserError
from engines.models.drafters.files import Checkpoint, find
from engines.models.files.hub import HUB_ID, stamp

if TYPE_CHECKING:
    from engines.models.drafters.base import Drafter
    from engines.models.parts import Part

EMBEDDED = ("smollm2", "smollm2-text")  # names of a published model that are no hub ids
MARKS = ("accuracy", "vocabulary")  # what a training keeps in a part beside the weights
KEPT = 2  # loaded drafters that stay in memory
_loaded: OrderedDict[tuple[str, ...], Drafter] = OrderedDict()


def load_drafter(
    id_or_folder: str | os.PathLike[str], target: Any, *, revision: str | None = None, force: bool = False
) -> Drafter:
    """The drafter of a folder or hub id, for a loaded target, in its type and on its device.

    force: take it although it names another target. Raises UserError, with what to do, for a format that is not known,
    tensors missing, left over, of another shape or no numbers, and a target that it was not made for."""
    checkpoint = find(id_or_folder, revision)
    warning, other = _other_target(checkpoint, target)
    if other and not force:
        raise UserError(f"{warning}; load that target, or take the drafter all the same with --force (force=True).")
    config, record = json.dumps(checkpoint.config, sort_keys=True), target.record
    of_target = (record.sha256, record.dtype, record.device, str(getattr(target, "config", "")))

    def read() -> Drafter:
        drafter = _read(checkpoint, target)
        if warning:
            taken = "and it was taken all the same (--force)" if other else "a folder that does not say what it is"
            drafter.notes.insert(0, f"{warning}, {taken}.")
        return drafter

    return _kept((str(stamp(checkpoint.files)), checkpoint.sha256, config, *of_target), read)


def trained_drafter(part: Part, target: Any) -> Drafter:
    """A part that was trained here and stored under a published format's names, its card holding the `config`: computed
    by what computes that format. Raises UserError as `load_drafter`."""
    record = target.record

    def read() -> Drafter:
        held = {name: tensor for name, tensor in part.tensors.items() if name not in MARKS}
        drafter = _read(Checkpoint(Path(), part.name, "", part.card["config"], (), part.sha256, held), target)
        drafter.trained_here, drafter.licence = True, str(part.card.get("licence", ""))
        return drafter

    return _kept((part.name, part.sha256, record.sha256, record.dtype, record.device), read)


def with_drafter(target: Any, drafter: Drafter) -> Any:
    """The same target with a drafter beside it, for the methods that can draft with it: weights, cache and calls are
    the target's own. Raises UserError for a drafter that was loaded for another target."""
    if drafter.target.sha256 != target.record.sha256:
        raise UserError(
            f"{drafter.name} was loaded for {drafter.target.name}, and the target is {target.record.name}; load it for "
            "this one (engines.load_drafter(id_or_folder, target))."
        )
    twin = copy.copy(target)
    twin.drafter = drafter
    return twin


def format_of(checkpoint: Checkpoint) -> type[Drafter]:
    """The class that computes a checkpoint. Raises UserError where no format is like it."""
    from engines.models.drafters import dflash, eagle, heads, mtp

    formats: tuple[type[Drafter], ...] = (
        *(eagle.PEagle, eagle.Eagle3, mtp.MTP, dflash.DFlash),
        *(heads.Hydra, heads.Medusa, eagle.Eagle),
    )
    drafter_class = next((made for made in formats if made.like(checkpoint.shapes)), None)
    if drafter_class is None:
        known = ", ".join(made.title for made in formats)
        first = ", ".join(sorted(checkpoint.shapes)[:3])
        raise UserError(
            f"'{checkpoint.name}' is not a drafter of a known format: its tensors are {first} ...; known are {known}."
        )
    return drafter_class


def _kept(key: tuple[str, ...], read: Callable[[], Drafter]) -> Drafter:
    _loaded[key] = _loaded.pop(key) if key in _loaded else read()
    while len(_loaded) > KEPT:
        _loaded.popitem(last=False)
    return _loaded[key]


def loaded() -> list[Drafter]:
    """Those that stay in memory."""
    return list(_loaded.values())


def _read(checkpoint: Checkpoint, target: Any) -> Drafter:
    import torch

    from engines.models.drafters.base import width_of
    from engines.models.drafters.tensors import Tensors

    width_of(target)
    made = format_of(checkpoint)
    tensors = Tensors(checkpoint, getattr(torch, target.record.dtype, torch.float32), target.device)
    drafter = made(checkpoint, target, tensors)
    tensors.finish(drafter.title)
    return drafter


def _other_target(checkpoint: Checkpoint, target: Any) -> tuple[str, bool]:
    """(what to say where a drafter names another target than this, whether it is surely another). A drafter names a hub
    id: its author's path names nothing. A folder has none, so its name alone proves nothing."""
    held = checkpoint.config.get("speculators_config")
    verifier = held.get("verifier") if isinstance(held, dict) else None
    own = verifier.get("name_or_path") if isinstance(verifier, dict) else None
    named, given = own or checkpoint.config.get("base_model_name_or_path"), target.record.name
    if not isinstance(named, str) or not HUB_ID.fullmatch(named) or _plain(named) == _plain(given):
        return "", False
    message = f"'{checkpoint.name}' was made for {named}, and the target is {given}"
    return message, bool(HUB_ID.fullmatch(given)) or given in EMBEDDED


def _plain(name: str) -> str:
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
