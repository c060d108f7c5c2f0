"""What the trainings of small trained parts of a model share (filters, acceptance heads): prompts, the split of what
was recorded, and the folder."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.tasks import TASKS
from engines.training.core.card import write_card
from engines.training.core.loop import checkpoint_file
from engines.training.core.weights import replaced, write_weights

T = TypeVar("T")


def prompts_of(seed: int) -> Iterator[str]:
    """Endless prompts of the training split, the tasks in turn."""
    for stream in cycle([task.generate("train", seed) for task in TASKS.values()]):
        yield next(stream).prompt


def split(records: Sequence[T], seed: int) -> tuple[list[T], list[T], list[T]]:
    """80, 10 and 10 % of the records, one per prompt, at least one each. Raises UserError for fewer than three."""
    if len(records) < 3:
        raise UserError(f"{len(records)} prompts cannot be split in three; give at least 3 with --prompts.")
    order = list(range(len(records)))
    random.Random(seed).shuffle(order)
    tenth = max(1, len(order) // 10)
    train, validation, test = (order[2 * tenth :], order[:tenth], order[tenth : 2 * tenth])
    return [records[i] for i in train], [records[i] for i in validation], [records[i] for i in test]


def records_file(name: str) -> Path:
    """Where what was recorded for a part is kept until the part is there."""
    return checkpoint_file(f"{name}-records")


def recorded(
    name: str, settings: str, kind: Callable[..., T], make: Callable[[], list[T]], resume: bool
) -> tuple[list[T], float]:
    """(records of `kind`, a dataclass of tensors; minutes): made now, or with `resume` those that an interrupted
    training of the same settings left, so that going on records nothing twice."""
    file = records_file(name)
    if resume and file.is_file():
        kept = torch.load(file, weights_only=True)
        if kept["settings"] == settings:
            return [kind(**one) for one in kept["records"]], kept["minutes"]
    began = time.monotonic()
    records = make()
    minutes = (time.monotonic() - began) / 60
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"settings": settings, "minutes": minutes, "records": [vars(one) for one in records]}, file)
    return records, minutes


def cleared(name: str) -> None:
    """Remove what was kept for a part that is finished."""
    for file in (records_file(name), checkpoint_file(name)):
        file.unlink(missing_ok=True)


def install_part(out: Path, state: Mapping[str, Tensor], card: Mapping[str, Any]) -> Path:
    """Write model.safetensors and card.json (with the sum of the weights) into the folder `out`, replaced when all is
    there. Returns it."""
    with replaced(out) as folder:
        write_weights(folder, state)
        write_card(folder, card)
    return out
