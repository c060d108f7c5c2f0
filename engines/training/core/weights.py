"""Writing what a training leaves: tensors into one file, and a folder put in place as a whole."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

from engines.models.files import stored
from engines.training.core.coding import code

WEIGHTS = "model.safetensors"
KEPT = ("title", "note", "companions", "companion_of")  # what the zoo says of a model, which no training changes


def write_weights(folder: Path, tensors: Mapping[str, Tensor], how: str = "plain") -> Path:
    """Write the tensors to model.safetensors in a folder, stored one of the ways of `coding`. Every weight file of a
    training is written here. Returns the file."""
    file = folder / WEIGHTS
    save_file({key: value.contiguous() for key, value in tensors.items()}, file, metadata={"format": "pt"})
    file.chmod(0o644)  # the library writes it for the owner alone
    if how != "plain":
        code(file, how)
    return file


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of a folder's model.safetensors, plain or coded."""
    return stored.read(folder / WEIGHTS)


def write_network(folder: Path, network: PreTrainedModel, how: str = "plain") -> Path:
    """Write a transformers network, in the type that it has, with its config. Returns the weights' file."""
    network.save_pretrained(folder)  # knows which tied tensors are written once
    return write_weights(folder, read_weights(folder), how)


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """An empty folder that takes the place of `folder` when the block ends, and goes where it fails: nothing of an
    asset is replaced before the new one is whole."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _keep_what_the_zoo_says(folder / "card.json", partial / "card.json")
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(partial, folder)


def _keep_what_the_zoo_says(old: Path, new: Path) -> None:
    """Fields of a card that no training changes go over to the one that takes its place."""
    if not (old.is_file() and new.is_file()):
        return
    before, card = json.loads(old.read_text()), json.loads(new.read_text())
    if said := {key: value for key, value in before.items() if key in KEPT and key not in card}:
        new.write_text(json.dumps(card | said, indent=1) + "\n")
