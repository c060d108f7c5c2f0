"""What the numbers of every run are called, how they are obtained and what they count: said once, for the tables and
for the player, which is given it by the page (`script`).

`terms` is the formula with the numbers of one run to be put in: the names are those of
`explorer.figures.metrics.numbers`."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

import engines

Kind = Literal["measured", "derived", "modelled", "published"]

KINDS: dict[Kind, str] = {
    "measured": "counted or clocked while the model ran",
    "derived": "computed from measured numbers by the formula shown with it",
    "modelled": "computed under an assumption that is stated",
    "published": "taken from a paper, never mixed with ours",
}

COUNTED: dict[str, list[tuple[str, str, bool]]] = {
    "tokens": [
        ("prompt tokens", "prompt", False),
        ("end marks", "end_tokens", False),
        ("padding after the end mark", "padding", False),
        ("positions still masked", "masks", False),
        ("bonus tokens", "bonus", True),
        ("corrections after a refusal", "corrections", True),
    ],
    "calls": [
        ("calls of the chosen model", "target_calls", True),
        ("calls of a draft or another model", "draft_calls", False),
        ("the warm-up call", "", False),
    ],
    "fed": [
        ("positions of the prompt, whenever they are computed", "prompt", True),
        ("positions read from a cache", "", False),
    ],
    "time": [
        ("warm-up", "warmup_seconds", False),
        ("recording the steps", "record_seconds", False),
        ("sending and drawing", "", False),
    ],
}
"""Group -> what is counted or not: in words, the name of its number in `metrics.numbers` ("": none), and whether it
is counted. `gained`, the same as `tokens`, stands with numbers of all samples: where there are several, a receipt has
no amounts in it, since those that are known are of the answer."""
COUNTED["gained"] = COUNTED["tokens"]


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One number: `counts` names groups of COUNTED, `note` says under which condition it holds."""

    label: str
    unit: str
    formula: str
    terms: str = ""
    counts: list[str] = []
    note: str = ""
    kind: Kind = "measured"


DEFINITIONS: dict[str, Definition] = {
    "steps": Definition("Steps", "count", "iterations of the decoding loop"),
    "target_calls": Definition(
        "Model calls",
        "count",
        "calls of the chosen model; a batch of alternatives in one call is one call",
        "all calls: {roles}",
        ["calls"],
    ),
    "draft_calls": Definition(
        "Draft calls",
        "count",
        "calls of all other models of the run: a draft, a small model, an encoder",
        "all calls: {roles}; the target's are left out",
    ),
    "work": Definition(
        "Work",
        "layer-rows",
        "rows × transformer layers that were really computed, all models together",
        "{work_roles}",
        note="an early exit, a skipped layer or a short draft pays only for the layers that it ran",
    ),
    "tokens_fed": Definition(
        "Tokens fed",
        "count",
        "rows × positions of all model calls, cached positions not counted",
        "summed over all calls: {roles}",
        ["fed"],
    ),
    "tokens": Definition(
        "Tokens",
        "count",
        "ids emitted before the first end mark; prompt, end marks, padding and open masks are not counted",
        "{ids} (positions after the prompt) − {end_tokens} (end mark) − {padding} (padding) − {masks} (masks)",
        ["tokens"],
    ),
    "all_tokens": Definition(
        "Tokens of all samples",
        "count",
        "tokens that were added to any sample or path of the answer; end marks are not counted",
        note="the calls of this run served all of them; the answer is one",
    ),
    "end_tokens": Definition(
        "End marks and padding", "count", "ids from the first end mark on", "{end_tokens} + {padding}"
    ),
    "masks_left": Definition("Masks left", "count", "positions that the run left open"),
    "tokens_per_call": Definition(
        "Tokens per model call",
        "ratio",
        "tokens ÷ model calls",
        "{gained} ÷ {target_calls}",
        ["gained", "calls"],
        "end marks and padding do not count as tokens, although a masked model spends calls on them; draft calls "
        "are shown separately; of a run with several samples the tokens of all count, since the calls served all",
        kind="derived",
    ),
    "model_seconds": Definition(
        "Model time",
        "seconds",
        "time in which a model call ran; warm-up excluded",
        "summed over all calls: {roles}",
        ["time"],
    ),
    "waiting_seconds": Definition(
        "Waiting for the server",
        "seconds",
        "time until each piece of the answer was here: the server's queue, its model, its own work and the network "
        "together; connecting excluded",
        "summed over {steps} arrivals",
    ),
    "method_seconds": Definition(
        "Method time",
        "seconds",
        "the method's own work between model calls; recording and drawing excluded",
        "summed over {steps} steps",
        ["time"],
    ),
    "busy_seconds": Definition(
        "Seconds",
        "seconds",
        "model time + method time",
        "{model_seconds} + {method_seconds}",
        ["time"],
        kind="derived",
    ),
    "tokens_per_second": Definition(
        "Tokens per second",
        "per second",
        "tokens ÷ (model time + method time)",
        "{gained} ÷ ({model_seconds} + {method_seconds})",
        ["gained", "time"],
        "of a run with several samples the tokens of all count",
        kind="derived",
    ),
    "record_seconds": Definition(
        "Recording time",
        "seconds",
        "time spent on recording the steps, not part of model or method time",
    ),
    "recording_overhead": Definition(
        "Recording overhead",
        "share",
        "recording time ÷ (model time + method time)",
        "{record_seconds} ÷ ({model_seconds} + {method_seconds})",
        kind="derived",
    ),
    "warmup_seconds": Definition("Warm-up", "seconds", "one untimed forward when a model runs for the first time"),
    "wall_seconds": Definition(
        "Wall time", "seconds", "from the first step's start to the end; recording and sending included"
    ),
    "revised": Definition(
        "Revised later",
        "count",
        "tokens written by now that a later write replaces or removes, each counted once, by the first one",
        "{remasked} re-masked + {changed} changed + {cut} cut off",
        ["tokens"],
        "read off the trace; it ends where the trace ends. Tokens after an end mark that came later are not counted "
        "here",
        kind="derived",
    ),
    "missing": Definition(
        "Still missing",
        "count",
        "tokens of the run's output that are not in their place yet",
        "{final} of the output − {kept} in their place",
        ["tokens"],
        "the output is that of this run as it ended",
        kind="derived",
    ),
    "acceptance_rate_of_drafted": Definition(
        "Acceptance rate",
        "share",
        "Σ accepted ÷ Σ drafted nodes",
        note="over the steps that verified a draft tree; the root row is not a drafted node",
        kind="derived",
    ),
    "same_tokens": Definition(
        "Text",
        "tokens",
        "the emitted ids of both runs before their first end mark, compared in order",
        kind="derived",
    ),
    "same_characters": Definition(
        "Text",
        "characters",
        "the texts of both runs, character by character, since their models have other tokenizers",
        kind="derived",
    ),
    "speed": Definition(
        "Tokens per second over those of another run",
        "times",
        "tokens per second of this run ÷ tokens per second of the other; each is tokens ÷ (model time + method time) "
        "of the whole run",
        note="the reading of the prompt is inside; warm-up, recording and drawing are left out. One run of each on the "
        "machine below: no benchmark",
        kind="derived",
    ),
    "too_busy": Definition(
        "this machine was too busy to tell the speed",
        "",
        "no ratio: single steps took far longer than the others of their run, other programs had the processor for "
        "much of the calls, or the ratio is more than the calls and the work of the two runs explain. Run both again "
        "on a quiet machine, or use decoding-explorer bench, which repeats",
        kind="derived",
    ),
}
"""The last five are said of runs that are held against each other."""

_BUSY = ("model_seconds", "method_seconds")
NEEDS: dict[str, tuple[str, ...]] = {
    "end_tokens": ("end_marks",),
    "target_calls": ("forwards",),
    "draft_calls": ("forwards",),
    "all_tokens": ("tokens",),
    "tokens_per_call": ("tokens", "forwards"),
    "tokens_per_second": ("tokens", *_BUSY),
    "waiting_seconds": ("model_seconds",),
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

LOST: dict[str, tuple[str, ...]] = {
    "end_marks": ("end_tokens", "padding"),
    "forwards": ("target_calls", "draft_calls", "roles"),
    "work": ("work", "work_roles"),
    "prompt_ids": ("prompt",),
    "tokens": ("tokens", "gained"),
}
"""The names in `metrics.numbers` that a field which was not recorded takes away, where that is not its own name
alone."""

_AT_THE_END = {"end_tokens", "masks_left", "record_seconds", "recording_overhead", "warmup_seconds", "wall_seconds"}
PLAYED = tuple(name for name in DEFINITIONS if name not in _AT_THE_END)
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
    """The formula with the numbers put in; "" where one of them was not recorded, since the others alone do not give
    its value. Raises KeyError for a name that is not a number."""
    if any(numbers[name] is None for name in re.findall(r"\{(\w+)\}", terms)):
        return ""
    return re.sub(r"\{(\w+)\}", lambda match: shown(match[1], numbers[match[1]]), terms)


def played() -> dict[str, Any]:
    """What the player writes receipts with: {DEFINITIONS, COUNTED, LOST, KINDS}."""
    facts = {name: {"kind": DEFINITIONS[name].kind} | msgspec.to_builtins(DEFINITIONS[name]) for name in PLAYED}
    for name in PLAYED:
        facts[name] |= {} if needs(name) == (name,) else {"needs": needs(name)}
    return {"DEFINITIONS": facts, "COUNTED": COUNTED, "LOST": LOST, "KINDS": KINDS}


def script() -> str:
    """That, and the published costs that two pictures scale, as JavaScript which stands in a page before the player's
    modules."""
    constants = {"dxDefinitions": played(), "dxCosts": engines.published_costs()}
    return "".join(f"globalThis.{name} = {inert(value)};\n" for name, value in constants.items())


def inert(value: Any) -> str:
    """As JSON that stands in a page without being markup."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")
