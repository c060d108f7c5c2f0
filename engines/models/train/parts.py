"""What the trainings of small trained parts of a model share (filters, acceptance heads): prompts, the split of what was recorded, and the folder."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

from safetensors.torch import save_file
from torch import Tensor

from engines.core.errors import UserError
from engines.models.hub import sha256
from engines.tasks import TASKS

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


def install_part(out: Path, state: Mapping[str, Tensor], card: Mapping[str, Any]) -> Path:
    """Write model.safetensors and card.json (with the sum of the weights) into the folder `out`, replaced when all is there. Returns it."""
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    save_file(dict(state), part / "model.safetensors")
    (part / "model.safetensors").chmod(0o644)  # the library writes it for the owner alone
    (part / "card.json").write_text(json.dumps({**card, "sha256": sha256(part / "model.safetensors")}, indent=1) + "\n")
    shutil.rmtree(out, ignore_errors=True)
    return part.rename(out)
