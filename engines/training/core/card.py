"""Cards: what is known of trained weights, as card.json beside them. Every training writes its card here."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.training.core.coding import said_of
from engines.training.core.weights import KEPT, WEIGHTS

if TYPE_CHECKING:
    from engines.training.core.loop import Progress

REQUIRED = ("name", "data", "licence", "command")


def write_card(folder: Path, facts: Mapping[str, Any]) -> Path:
    """Write card.json into a folder, at once: the facts, today's date unless they have one, and the sum and storage of
    the weights where there are any. Raises UserError for facts without a name, data, licence or command."""
    if missing := [key for key in REQUIRED if not facts.get(key)]:
        raise UserError(
            f"the card of {folder.name} lacks {', '.join(missing)}; a card says at least {', '.join(REQUIRED)}."
        )
    said = {key: value for key, value in read_card(folder).items() if key in KEPT}
    card, weights = {"date": date.today().isoformat()} | dict(facts) | said, folder / WEIGHTS
    if weights.is_file():
        card |= said_of(weights, card)
        if not card["stored"]:  # as plain as any file
            del card["stored"]
    partial = folder / ".card.partial"
    partial.write_text(json.dumps(card, indent=1) + "\n")
    os.replace(partial, folder / "card.json")
    return folder / "card.json"


def spent(progress: Progress) -> dict[str, Any]:
    """What a training on the CPU took, for its card."""
    return {
        "steps": progress.step,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 1),
        "cpu_seconds": round(progress.cpu_seconds),
        "machine": trained_on("cpu"),
    }


def read_card(folder: Path) -> dict[str, Any]:
    """The card in a folder, or {} where there is none. Cards of before said `legs` for `stages`."""
    file = folder / "card.json"
    card: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    if "legs" in card:
        card["stages"] = card.pop("legs")
    return card


def stages_of(start: Path, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """The trainings that led to the weights in a folder, the earliest first and its own last: of each the facts named
    by `keys` that its card has."""
    card = read_card(start)
    return [*card.get("stages", []), {key: card[key] for key in keys if key in card}]
