"""The files of a published drafter: a folder or a hub id, its config.json and its tensors, read one by one.

Weights are safetensors, whole or in shards, or a PyTorch archive (`pytorch_model.bin`, `*_lm_head.pt`) of tensors
alone. Code that a checkpoint brings (`auto_map`, *.py) is never run."""

import functools
import os
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.core.errors import UserError
from engines.core.lazy import Tensor
from engines.core.places import expanded
from engines.models.files import hub
from engines.models.files.unread import unread

ARCHIVES = ("pytorch_model.bin", "medusa_lm_head.pt", "hydra_lm_head.pt")
SAFE = ("model.safetensors", "medusa_lm_head.safetensors", "hydra_lm_head.safetensors")
WANTED = (*hub.WANTED, *ARCHIVES)
LARGEST_ARCHIVE = 8_000_000_000  # bytes; the largest published one has 4.1 GB (EAGLE for a 70B model)


Shapes = dict[str, tuple[int, ...]]


@dataclass
class Checkpoint:
    """A drafter as it lies on disk: its config, and once they are asked for the names and shapes of its tensors. `read`
    gives one of them.

    sha256: of the first weight file. files: safetensors, or one PyTorch archive. held: the tensors by name where they
    are in memory; then there are no files."""

    folder: Path
    name: str
    revision: str
    config: Mapping[str, Any]
    files: Sequence[Path]
    sha256: str
    held: Mapping[str, Tensor] | None = None

    @functools.cached_property
    def _held(self) -> tuple[Shapes, Callable[[str], Tensor]]:
        if self.held is None and self.files[0].name not in ARCHIVES:
            return _unwrapped(*_safetensors(self.files))
        tensors = read_archive(self.files[0]) if self.held is None else self.held
        return _unwrapped({key: tuple(tensor.shape) for key, tensor in tensors.items()}, tensors.__getitem__)

    @property
    def shapes(self) -> Shapes:
        """The shape of each tensor by its name. Raises UserError for an archive that holds more than tensors."""
        return self._held[0]

    def read(self, name: str) -> Tensor:
        """A tensor as it is stored."""
        return self._held[1](name)


def find(id_or_folder: str | os.PathLike[str], revision: str | None = None) -> Checkpoint:
    """The checkpoint in a folder or of a hub id. Raises UserError where there is none, where a file is missing or
    damaged, and on a public host for a PyTorch archive."""
    name = os.fspath(id_or_folder)
    folder, commit = expanded(name), ""
    if not folder.is_dir():
        if hub.HUB_ID.fullmatch(name) is None:
            raise UserError(
                f"no drafter '{name}': give a folder with config.json and weights, or a hub id such as owner/name."
            )
        folder, commit = hub.snapshot(name, revision, WANTED)
    config = hub.read_json(folder / "config.json")
    if not config:
        raise UserError(
            f"'{name}' has no config.json, so its format cannot be told; give the folder that holds config.json."
        )
    shown = folder.resolve().name if not commit else name
    files = safe_files(folder, shown)
    if files:
        return Checkpoint(folder, shown, commit, config, files, hub.identity(files[0]))
    archive = next((folder / filename for filename in ARCHIVES if (folder / filename).is_file()), None)
    if archive is None:
        if any(folder.glob("*.safetensors")):
            contents, what_to_do = unread(folder)
            raise UserError(f"'{name}' needs weights as *.safetensors and has {contents}; {what_to_do}.")
        raise UserError(
            f"'{name}' holds no weights that a drafter is published in ({', '.join((*SAFE, *ARCHIVES))}); "
            "download it again."
        )
    if os.environ.get("EXPLORER_PUBLIC") == "1" or os.environ.get("SPACE_ID"):
        raise UserError(
            f"{archive.name} is a PyTorch archive, which a public host does not read; convert it to safetensors."
        )
    return Checkpoint(folder, shown, commit, config, [archive], hub.sha256(archive))


def safe_files(folder: Path, name: str) -> list[Path]:
    """The safetensors files of a drafter in order; none where it has none. Raises UserError for a shard that is
    missing."""
    files = hub.shards(folder) or [folder / filename for filename in SAFE if (folder / filename).is_file()][:1]
    hub.check_index(folder, files)
    if lost := next((file for file in files if not file.is_file()), None):
        raise UserError(f"{lost.name} of '{name}' is missing, though its index names it; download it again.")
    return files


def _safetensors(files: Sequence[Path]) -> tuple[Shapes, Callable[[str], Tensor]]:
    """Shapes by name, and what reads a tensor: only those that a format asks for are read."""
    from safetensors import safe_open

    where, shapes = {}, {}
    for file in files:
        for key, entry in hub.header(file).items():
            where[key], shapes[key] = file, tuple(int(side) for side in entry["shape"])

    def read(key: str) -> Tensor:
        with safe_open(where[key], "pt") as opened:
            tensor: Tensor = opened.get_tensor(key)
        return tensor

    return shapes, read


def _unwrapped(shapes: Shapes, read: Callable[[str], Tensor]) -> tuple[Shapes, Callable[[str], Tensor]]:
    """Shapes by name and what reads a tensor, without the `model.` that trainers write before every name of a draft
    that they wrap (NeMo Automodel)."""
    names = {key.removeprefix("model."): key for key in shapes}
    if len(names) < len(shapes):
        return shapes, read
    return {name: shapes[key] for name, key in names.items()}, lambda name: read(names[name])


def read_archive(file: Path) -> dict[str, Tensor]:
    """The tensors of a PyTorch archive. Its pickle may name tensors and nothing else (`weights_only`); its size is
    bounded before anything is read. Raises UserError for a file that is too large, and for one that is no such
    archive."""
    import torch

    size = file.stat().st_size
    if size > LARGEST_ARCHIVE:
        raise UserError(f"{file} has {size:,} bytes; archives of at most {LARGEST_ARCHIVE:,} are read.")
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            if (whole := sum(entry.file_size for entry in archive.infolist())) > LARGEST_ARCHIVE:
                raise UserError(f"{file} would unpack to {whole:,} bytes; at most {LARGEST_ARCHIVE:,} are read.")
    try:
        held = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch says it in many ways, over many lines
        reason = re.split(r"[.\n]", str(error))[0][:160]
        raise UserError(
            f"{file.name} is not an archive of tensors alone ({reason}), and nothing else is read; convert it to "
            "safetensors on the machine that made it."
        ) from error
    if not isinstance(held, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in held.values()):
        raise UserError(f"{file.name} holds {type(held).__name__} in place of tensors by name; give a state dict.")
    return {str(key): tensor for key, tensor in held.items()}
