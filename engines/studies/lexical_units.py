"""What lexical units save and what they cost in quality, by the line of the confidence (Lexical Unit Decoding,
arXiv:2405.15208).

The same held-out prompts are answered by the untouched model, by the tuned one token by token, with units at several
lines, and by the variant that verifies (ours). Quality is told in four ways: tokens of a unit that the tuned model
would have written one by one, whole answers that are the same, perplexity of the answers under the untouched model, and
the tasks' own check."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from engines.core.errors import UserError
from engines.core.lazy import torch
from engines.core.params import Int, Params, Text
from engines.core.statistics import wilson
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study

LINES = (0.3, 0.5, 0.7, 0.9, 0.99)
TASKS = "copy, sort, add, spell, grammar, read, python, story"


@dataclass
class Way:
    """What one way of decoding made of all prompts: the texts as ids, and sums over them."""

    texts: list[list[int]] = field(default_factory=list)
    calls: int = 0
    work: int = 0
    checked: int = 0
    agreed: int = 0
    right: int = 0
    surprise: float = 0.0  # nats under the untouched model

    @property
    def tokens(self) -> int:
        """Written in all."""
        return sum(map(len, self.texts))


@study(
    "lexical-units",
    "Units, and what they cost",
    "arXiv:2405.15208",
    summary="Tokens per call, agreement, perplexity and right answers of lexical units by the line of the confidence, "
    "beside the untouched model, the tuned one token by token, and units that are verified.",
    inputs=[
        Text("model", "tiny-ar-l", help="A causal model with adapters for lexical units."),
        Text("tasks", TASKS, help="Tasks to ask, with commas between them; they have checks of their own."),
        Int("prompts", 3, 1, 50, help="Held-out prompts of each task."),
        Int("tokens", 64, 8, 200, help="Tokens written at most."),
        Int("k", 4, 2, 6, symbol="k", help="Tokens foreseen in one forward."),
    ],
    departures="A tiny model and tasks with short answers; the figures of the paper are of large models, and are not "
    "reproduced here.",
    runs_models=True,
)
def lexical_units(p: Params, progress: Progress) -> Study:
    """Answer every prompt in every way."""
    from engines import load_model
    from engines.tasks import TASKS as KNOWN

    names = [name.strip() for name in p.tasks.split(",") if name.strip()]
    if unknown := [name for name in names if name not in KNOWN] or ([] if names else ["nothing"]):
        raise UserError(f"the task '{unknown[0]}' was given; choose some of {', '.join(KNOWN)}.")
    model: Any = load_model(p.model, kind="layered", dtype="float32")
    asked = [one for name in names for one in islice(KNOWN[name].generate("held-out", 0), p.prompts)]
    ways = ways_of(p.k)
    found = {name: Way() for name in ways}
    for done, example in enumerate(asked):
        progress(done, len(asked))
        for name, (slug, params) in ways.items():
            answer(found[name], model, example, slug, {**params, "max_new_tokens": p.tokens})
    return told(found, len(asked), model.record)


def ways_of(k: int) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Name -> (method, parameters)."""
    from engines.methods.baselines.greedy import decode as greedy
    from engines.methods.heads.lud import decode as units
    from engines.methods.heads.lud_verified import decode as verified

    return {
        "untouched, one by one": (greedy.info.slug, {}),
        "tuned, one by one": (units.info.slug, {"k": 1}),
        **{f"units, line {line:g}": (units.info.slug, {"k": k, "beta": line}) for line in LINES},
        "units, verified (ours)": (verified.info.slug, {"k": k}),
    }


def answer(way: Way, model: Any, example: Any, slug: str, params: Mapping[str, Any]) -> None:
    """Add one prompt's answer."""
    from engines import run
    from engines.tasks import check

    trace = run(slug, model, example.prompt, params=params, detail="light")
    prompt, ids = trace.header.prompt_ids, trace.output_ids
    way.texts.append(list(ids))
    way.calls += trace.totals.forwards_by_role["target"]
    way.work += sum(trace.totals.work_by_role.values())
    way.checked += int(sum(step.facts.get("checked", 0) for step in trace.steps))
    way.agreed += int(sum(step.facts.get("agreed", 0) for step in trace.steps))
    way.right += check(example, trace.text).correct
    z = model.extend([*prompt, *ids], model.new_cache(len(prompt) + len(ids))).logits[len(prompt) - 1 : -1]
    wanted = torch.tensor(ids, device=z.device)[:, None]
    way.surprise -= float(z.double().log_softmax(-1).gather(-1, wanted).sum())


def told(found: Mapping[str, Way], prompts: int, record: Any) -> Study:
    """The table, and two figures over the line."""
    alone = found["tuned, one by one"]
    rows: list[list[str | float | int | bool | None]] = []
    for name, way in found.items():
        low, high = wilson(way.right, prompts)
        same = sum(a == b for a, b in zip(way.texts, alone.texts, strict=True)) / prompts
        parted = way.agreed / way.checked if way.checked else None
        rows.append(
            [
                name,
                way.tokens / way.calls,
                way.work / way.tokens,
                parted,
                same,
                math.exp(way.surprise / way.tokens),
                way.right / prompts,
                low,
                high,
            ]
        )
    columns = [
        Column("way", "", "given"),
        Column("tokens per call", "", "measured", 2),
        Column("layer-rows per token", "", "measured", 1),
        Column("unit tokens as one by one", "", "measured", 3),
        Column("answers as tuned one by one", "", "measured", 3),
        Column("perplexity, untouched model", "", "measured", 3),
        Column("right", "", "measured", 3),
        Column("from", "", "derived", 3),
        Column("to", "", "derived", 3),
    ]
    by_line = {line: found[f"units, line {line:g}"] for line in LINES}
    speed = [way.tokens / way.calls for way in by_line.values()]
    right = [way.right / prompts for way in by_line.values()]
    receipt = Receipt(
        "saved", "1 - calls per token with units at 0.9 / without",
        {"tokens": by_line[0.9].tokens, "calls": by_line[0.9].calls}, 1 - by_line[0.9].calls / by_line[0.9].tokens,
    )  # fmt: skip
    line = Axis("line of the confidence", "probability")
    return Study(
        tables=[Table("ways", "The same prompts, greedily, in each way", columns, rows)],
        figures=[
            curve("speed", "What a lower line saves", line, Axis("tokens per call"), speed),
            curve("right", "And what it costs", line, Axis("share of answers right"), right),
        ],
        receipts=[receipt],
        notes=[
            "Units are not verified: no line makes them lossless. The verified variant is ours and writes the "
            "untouched model's text.",
            "A unit's last tokens before the end of an answer are read by no later forward and are not in the share "
            "that is as one by one.",
        ],
        models=[record],
    )


def curve(name: str, title: str, x: Axis, y: Axis, values: Sequence[float]) -> Figure:
    """A figure over the line."""
    return Figure(name, title, x, y, [Series("units", list(LINES), list(values), "measured")])


if __name__ == "__main__":
    import engines

    print(engines.run_study("lexical-units", {"prompts": 1}).tables[0])
