"""What the numbers of every run are called, how they are obtained and what they count: said once, for the tables and for the player.

    python -m explorer.definitions     writes assets/player/definitions.js, which a test compares with this file

`terms` is the formula with the numbers of one run to be put in: the names are those of `explorer.receipts.numbers`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from explorer import ASSETS

Kind = Literal["measured", "derived", "modelled", "published"]

KINDS: dict[Kind, str] = {
    "measured": "counted or clocked while the model ran",
    "derived": "computed from measured numbers by the formula shown beside it",
    "modelled": "computed under an assumption that is stated",
    "published": "taken from a paper, never mixed with ours",
}

COUNTED: dict[str, list[tuple[str, str, bool]]] = {
    "tokens": [
        ("prompt tokens", "prompt", False),
        ("end marks", "end_tokens", False),
        ("padding behind the end mark", "padding", False),
        ("positions still masked", "masks", False),
        ("bonus tokens", "bonus", True),
    ],
    "forwards": [("forwards of every role", "forwards", True), ("the warm-up forward", "", False)],
    "fed": [("positions of the prompt, whenever they are computed", "prompt", True), ("positions read from a cache", "", False)],
    "time": [("warm-up", "warmup_seconds", False), ("recording the steps", "record_seconds", False), ("sending and drawing", "", False)],
}
"""Group -> what is counted or not: in words, the name of its number in `receipts.numbers` ("": none), and whether it is counted."""


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One number: `counts` names groups of COUNTED, `note` says under which condition it holds."""

    label: str
    unit: str
    kind: Kind
    formula: str
    terms: str = ""
    counts: list[str] = []
    note: str = ""


DEFINITIONS: dict[str, Definition] = {
    "steps": Definition("Steps", "count", "measured", "turns of the decoding loop"),
    "forwards": Definition("Forwards", "count", "measured", "calls of any model; a batch of alternatives in one call is one forward", "{roles}", ["forwards"]),
    "tokens_fed": Definition(
        "Tokens fed", "count", "measured", "rows × positions of all forwards, cached positions not counted", "summed over {forwards} forwards", ["fed"]
    ),
    "tokens": Definition(
        "Tokens",
        "count",
        "measured",
        "ids emitted before the first end mark; prompt, end marks, padding and open masks are not counted",
        "{ids} places behind the prompt − {end_tokens} end marks − {padding} padding − {masks} masks",
        ["tokens"],
    ),
    "end_tokens": Definition("End marks and padding", "count", "measured", "ids from the first end mark on", "{end_tokens} + {padding}"),
    "masks_left": Definition("Masks left", "count", "measured", "positions that the run left open"),
    "tokens_per_forward": Definition(
        "Tokens per forward",
        "ratio",
        "derived",
        "tokens ÷ forwards of all roles",
        "{tokens} ÷ {forwards}",
        ["tokens", "forwards"],
        "end marks and padding do not count as tokens, although a masked model spends forwards on them",
    ),
    "model_seconds": Definition(
        "Model time", "seconds", "measured", "time in which a model call ran; warm-up excluded", "summed over {forwards} forwards", ["time"]
    ),
    "method_seconds": Definition(
        "Method time",
        "seconds",
        "measured",
        "the method's own work between model calls; recording and drawing excluded",
        "summed over {steps} steps",
        ["time"],
    ),
    "busy_seconds": Definition("Seconds", "seconds", "derived", "model time + method time", "{model_seconds} + {method_seconds}", ["time"]),
    "tokens_per_second": Definition(
        "Tokens per second",
        "per second",
        "derived",
        "tokens ÷ (model time + method time)",
        "{tokens} ÷ ({model_seconds} + {method_seconds})",
        ["tokens", "time"],
    ),
    "record_seconds": Definition("Recording time", "seconds", "measured", "time spent on writing down the steps, not part of model or method time"),
    "recording_overhead": Definition(
        "Recording overhead",
        "share",
        "derived",
        "recording time ÷ (model time + method time)",
        "{record_seconds} ÷ ({model_seconds} + {method_seconds})",
    ),
    "warmup_seconds": Definition("Warm-up", "seconds", "measured", "one untimed forward when a model runs for the first time"),
    "wall_seconds": Definition("Wall time", "seconds", "measured", "from the first step's start to the end; recording and sending included"),
    "revised": Definition(
        "Revised later",
        "count",
        "derived",
        "tokens that stand here and are taken away by a later write, each counted once, by the first one",
        "{remasked} re-masked + {changed} changed + {cut} cut off",
        ["tokens"],
        "read off the trace; it ends where the trace ends. Tokens behind an end mark that came later are not counted here",
    ),
    "missing": Definition(
        "Still missing",
        "count",
        "derived",
        "tokens of the run's output that do not stand at their place yet",
        "{final} of the output − {kept} in their place",
        ["tokens"],
        "the output is that of this run as it ended",
    ),
}

_BUSY = ("model_seconds", "method_seconds")
NEEDS: dict[str, tuple[str, ...]] = {
    "end_tokens": ("end_marks",),
    "tokens_per_forward": ("tokens", "forwards"),
    "tokens_per_second": ("tokens", *_BUSY),
    "recording_overhead": ("record_seconds", *_BUSY),
    "busy_seconds": _BUSY,
    "revised": ("tokens", "steps"),
    "missing": ("tokens", "steps"),
    "mbsu": ("forwards",),
    "weighted_cost": ("forwards",),
    "commit_delay_mean": ("forwards",),
    "commit_delay_max": ("forwards",),
    "forwards_enough": ("forwards",),
}
"""What a number is computed from, where that is not the field of its own name."""

LOST: dict[str, tuple[str, ...]] = {"end_marks": ("end_tokens", "padding"), "forwards": ("forwards", "roles"), "prompt_ids": ("prompt",)}
"""The names in `receipts.numbers` that a field which was not recorded takes away, where that is not its own name alone."""

PLAYED = (
    "steps", "tokens", "forwards", "tokens_per_forward", "tokens_per_second", "model_seconds", "method_seconds", "tokens_fed", "busy_seconds", "revised",
    "missing",
)  # fmt: skip
"""The numbers that the player shows."""


def needs(name: str) -> tuple[str, ...]:
    """The recorded fields that a number is computed from."""
    return NEEDS.get(name, (name,))


def shown(name: str, value: float | str | None) -> str:
    """A number as a receipt writes it: seconds with six digits behind the point, counts with thousands set apart."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return f"{value:.6f} s" if name.endswith("_seconds") else f"{value:,}"


def fill(terms: str, numbers: Mapping[str, float | str | None]) -> str:
    """The formula with the numbers put in. Raises KeyError for a name that is no number."""
    return re.sub(r"\{(\w+)\}", lambda found: shown(found[1], numbers[found[1]]), terms)


def module() -> str:
    """The text of the player's module."""
    facts = {name: msgspec.to_builtins(DEFINITIONS[name]) | ({} if needs(name) == (name,) else {"needs": needs(name)}) for name in PLAYED}
    for one in facts.values():
        del one["unit"]  # the player writes each number in its own way
        if one["kind"] == "measured":
            del one["kind"]
    lines = [f"  {json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}," for name, one in facts.items()]
    groups = [f"  {json.dumps(name)}: {json.dumps(rows, ensure_ascii=False)}," for name, rows in COUNTED.items()]
    return "\n".join(
        [
            "// Made by `python -m explorer.definitions`; the words stand in explorer/definitions.py. Do not edit.",
            "",
            "export const DEFINITIONS = {",
            *lines,
            "};",
            "export const COUNTED = {",
            *groups,
            "};",
            f"export const LOST = {json.dumps(LOST)};",
            f"export const KINDS = {json.dumps(KINDS, ensure_ascii=False)};",
            "",
        ]
    )


if __name__ == "__main__":
    (ASSETS / "player" / "definitions.js").write_text(module(), encoding="utf-8")
