"""Trained parts of a model: heads, filters, adapters, judges. One way to find them, check them and keep them.

A part is a folder NAME-PART (tiny-dlm-filter, smollm2-accept-head) in `assets/parts`, or beside the models as the first
ones are, with model.safetensors and card.json. It belongs to the weights that it was trained on: the card names their
sha256, by role where there are several. A part for other weights is refused, so is a file that is not the card's, and a
missing part says which command makes it.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.core.errors import UserError
from engines.core.lazy import Tensor
from engines.core.places import assets
from engines.core.trace import ModelRecord
from engines.models.files import stored
from engines.models.files.hub import expected_file, header, read_json, sha256

LARGEST = 200_000_000  # bytes; two blocks for a hidden size of 4096 have 134 MB in float32
WEIGHTS, CARD = "model.safetensors", "card.json"


@dataclass(frozen=True)
class Part:
    """A part as read: its name, the base that it belongs to, the sha256 of its file, its tensors by name in the types
    they have on disk, and its card."""

    name: str
    base: str
    sha256: str
    tensors: Mapping[str, Tensor]
    card: Mapping[str, Any]

    @property
    def parameters(self) -> int:
        """How many numbers of it were learned, as its card says; all that it has where the card does not. A part may
        hold what was measured or counted beside them, such as accuracies or a draft vocabulary."""
        return int(self.card.get("parameters") or sum(tensor.numel() for tensor in self.tensors.values()))

    def record(self, role: str, beside: ModelRecord) -> ModelRecord:
        """How a trace names it; it runs where the model `beside` runs."""
        licence = str(self.card.get("licence", ""))
        return ModelRecord(
            role, self.name, "part", self.sha256, parameters=self.parameters, device=beside.device, licence=licence
        )


def parts_for(base: str) -> tuple[str, ...]:
    """The names of the parts that lie in `assets/parts` or beside the models for a base, in alphabetical order."""
    cards = (path for place in ("parts", "models") for path in (assets() / place).glob(f"{base}-*/{CARD}"))
    names = {path.parent.name for path in cards if not (path.parent / "config.json").is_file()}  # else it is a model
    return tuple(sorted(name.removeprefix(f"{base}-") for name in names))


def folder_of(part: str, base: str) -> Path:
    """Where a part of a base is, or will be made: the folder that exists, else the one in `assets/parts`."""
    name = f"{base.replace(chr(92), '/').rpartition('/')[2]}-{part}"
    places = [assets() / "parts" / name, assets() / "models" / name]
    return next((place for place in places if (place / WEIGHTS).is_file()), places[0])


def by_training(command: str) -> str:
    """How a part is made. The trainings lie in the repository and not in the wheel."""
    return f"a clone of the repository makes it with `python -m engines.training {command}`"


def load_part(
    part: str, bases: Sequence[ModelRecord], *, what: str = "", way_out: Callable[[], str] = lambda: ""
) -> Part:
    """The part that was trained for these weights, the first base being the one that it is named after.

    what: the part in words, its name by default. way_out: what a person may do besides making it, asked only then.
    Raises UserError where there is none, or one of other weights, or a file that its card does not describe; each names
    the command.
    """
    base, what = bases[0], what or part
    folder = folder_of(part, base.name)
    pair = " with ".join(record.name for record in bases)
    card = read_json(folder / CARD)

    def hint() -> str:
        ways = [by_training(f"{part} {base.name}"), way_out()]
        return f"{', '.join(filter(None, ways))}."

    if not (folder / WEIGHTS).is_file():
        raise UserError(f"there is no {what} for {pair} in {folder.parent}; {hint()}")
    theirs = bases_of(card)
    if theirs != [record.sha256 for record in bases]:
        raise UserError(
            f"{folder.name} was trained for other weights "
            f"({', '.join(digest[:12] for digest in theirs) or 'unknown'}) than "
            f"{pair} has ({', '.join(record.sha256[:12] for record in bases)}); {hint()}"
        )
    loaded = read_part(folder / WEIGHTS, folder.name, base.name)
    if loaded.sha256 != expected_file(card):
        raise UserError(f"{folder / WEIGHTS} is not the file that its card describes; {hint()}")
    return loaded


def bases_of(card: Mapping[str, Any]) -> list[str]:
    """The sha256 of the weights that a part belongs to, in the order of its bases: `bases` of its card, or the fields
    that the first parts have."""
    given = card.get("bases")
    if isinstance(given, Mapping):
        return [str(digest) for digest in given.values()]
    return [str(card[name]) for name in ("model_sha256", "target_sha256", "draft_sha256") if name in card]


def fits(state: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether these are the tensors of those names and shapes and no others, with finite numbers."""
    actual = {key: tuple(getattr(tensor, "shape", (-1,))) for key, tensor in state.items()}
    return actual == {**shapes} and all(bool(tensor.isfinite().all()) for tensor in state.values())


def read_part(file: Path, name: str, base: str = "") -> Part:
    """A part from its file, read once while the file stays as it is. Raises UserError for a file that is too large, no
    safetensors, or cut short."""
    changed = file.stat()
    if changed.st_size > LARGEST:
        raise UserError(f"{file} has {changed.st_size:,} bytes; at most {LARGEST:,} are read as a part of a model.")
    return _cached(str(file), name, base, changed.st_mtime_ns, changed.st_size)


@functools.lru_cache(maxsize=16)
def _cached(path: str, name: str, base: str, changed: int, size: int) -> Part:
    file = Path(path)
    header(file)
    return Part(name, base, sha256(file), stored.read(file), read_json(file.parent / CARD))
