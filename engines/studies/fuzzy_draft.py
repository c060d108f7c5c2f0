"""What a fuzzy forward costs and saves (EasySpec, arXiv:2502.02493): how often its first choice is the exact forward's,
by the size N of a group, and how long it would take on N devices.

The history is exact, as it is behind a calibration, and the model writes greedily; at each token the same row is read
once more for each N and for each choice of what reads the old state. Time is modelled: parts of the exact forwards are
timed one after another on this machine, and their middle times laid out as a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from engines.core.errors import UserError
from engines.core.lazy import torch
from engines.core.params import Int, Params, Text
from engines.core.statistics import wilson
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.methods.system.easyspec.fuzzy import ATTENTION, WHOLE, Times, forward, groups_of, schedule

SIZES = (2, 3, 4, 5, 6, 7)
PROMPTS = "add: 457 + 86 | sort: Zoe, Mia, Leo, Ada, Kim | story: Mia, boat | copy: blue red green | reverse: a b c d e"


@dataclass
class Row:
    """What was seen of one way to read: equal first choices, and 1 - total variation to the exact distribution."""

    equal: int = 0
    overlap: list[float] = field(default_factory=list)


@study(
    "fuzzy-draft",
    "What layers that attend at once cost and save",
    "arXiv:2502.02493",
    summary="Agreement of a fuzzy forward with the exact one for N = 2 to 7, measured, and the time of a draft step on "
    "N devices, modelled from measured times of attention and feed-forward parts.",
    inputs=[
        Text("model", "tiny-ar-l", help="A causal model that can be run layer by layer; it is read in float32."),
        Text("prompts", PROMPTS, help="Prompts to answer, with | between them."),
        Int("tokens", 32, 4, 256, help="Tokens written behind each prompt."),
        Int("ends", 1, 0, 3, help="Layers at either end that are not grouped."),
    ],
    departures="The draft is the model itself; nothing runs on several devices. Synchronising them is left out of the "
    "modelled times, so they are the best case.",
    runs_models=True,
)
def fuzzy_draft(p: Params, progress: Progress) -> Study:
    """Write, read again, lay out."""
    from engines import load_model
    from engines.core.kinds import KINDS
    from engines.core.meter import Meter

    loaded: Any = load_model(p.model, dtype="float32")
    record = loaded.record
    if not isinstance(loaded, KINDS["layered"].protocol):
        raise UserError(f"'{p.model}' cannot be run layer by layer; choose a Llama- or Qwen-like causal model.")
    model = KINDS["layered"].counted(loaded, "draft", Meter())
    prompts = [text.strip() for text in p.prompts.split("|") if text.strip()]
    if not prompts:
        raise UserError("no prompt was given; write one or several with | between them.")
    rows = {(way, N): Row() for way in (ATTENTION, WHOLE) for N in SIZES}
    timed, tokens = list[Times](), 0
    for done, text in enumerate(prompts):
        progress(done, len(prompts))
        tokens += answered(model, text, p, rows, timed)
    if tokens == 0:
        raise UserError("every answer ended at once, so nothing could be compared; give other prompts.")
    return told(rows, tokens, len(prompts), timed, p, record)


def answered(model: Any, text: str, p: Params, rows: dict[tuple[str, int], Row], timed: list[Times]) -> int:
    """Write one answer, and read each of its tokens but the last in every way. Returns how many were compared."""
    ids = model.tokenizer.encode_prompt(text)
    cache, n = model.new_cache(len(ids) + p.tokens), 0
    z = forward(model, ids, cache, {})
    for _ in range(p.tokens - 1):
        token = int(z.argmax())
        if token in model.eos_ids:
            break
        held, fuzzy = cache.length, {}
        for way, N in rows:
            fuzzy[way, N] = forward(model, [token], cache, groups_of(model.num_layers, N, p.ends), way == WHOLE)
            cache.crop(held)
        timed.append(Times())
        z = forward(model, [token], cache, {}, times=timed[-1])
        exact, n = z.softmax(-1), n + 1
        for key, found in fuzzy.items():
            rows[key].equal += int(found.argmax() == z.argmax())
            rows[key].overlap.append(float(torch.minimum(exact, found.softmax(-1)).sum()))
    return n


def told(
    rows: dict[tuple[str, int], Row], tokens: int, prompts: int, timed: Sequence[Times], p: Params, record: Any
) -> Study:
    """Table, both curves, and the ratio of times with its numbers."""
    a, m, (head,) = (
        [median(times) for times in zip(*(one.seconds(what) for one in timed), strict=True)]
        for what in ("attention", "feed-forward", "head")
    )
    serial, table, steps = sum(a) + sum(m) + head, [], dict[tuple[str, int], float]()
    for (way, N), row in rows.items():
        blocks = schedule(a, m, groups_of(len(a), N, p.ends), 0.0, whole=way == WHOLE)
        steps[way, N] = max(block.end for block in blocks) + head
        share, overlap = row.equal / tokens, sum(row.overlap) / tokens
        table.append([way, N, share, *wilson(row.equal, tokens), overlap, 1e3 * steps[way, N], serial / steps[way, N]])
    columns = [
        Column("reads the old state", "", "given"),
        Column("N", "layers", "given"),
        Column("same first choice", "", "measured", 3),
        Column("from", "", "derived", 3),
        Column("to", "", "derived", 3),
        Column("1 - total variation", "", "measured", 3),
        Column("a draft step on N devices", "ms", "modelled", 2),
        Column("times as fast as in order", "", "modelled", 2),
    ]
    return Study(
        tables=[
            Table(
                "sizes",
                "Fuzzy against exact, by the size of a group",
                columns,
                table,
                note=f"{tokens} tokens of {prompts} answers; intervals of 95 %, as if tokens were independent.",
            )
        ],
        figures=[
            curve(table, 2, "agreement", "Same first choice", "measured"),
            curve(table, 7, "time", "Ratio of times", "modelled"),
        ],
        receipts=[
            Receipt(
                "a draft step at N = 4",
                "serial / fuzzy; serial = sum of all attention and feed-forward parts + head",
                {
                    "attention parts, sum in ms": 1e3 * sum(a),
                    "feed-forward parts, sum in ms": 1e3 * sum(m),
                    "head in ms": 1e3 * head,
                    "fuzzy in ms": 1e3 * steps[ATTENTION, 4],
                },
                serial / steps[ATTENTION, 4],
                provenance="modelled",
            )
        ],
        notes=[
            "Agreement is that of the first fuzzy token behind an exact history; later ones read fuzzy rows.",
            "Times are middle ones of the parts, timed one after another here. No part ran beside another.",
        ],
        models=[record],
    )


def curve(table: Sequence[Sequence[Any]], column: int, name: str, title: str, source: Any) -> Figure:
    """One column over N, a line for each way to read."""
    series = []
    for way in (ATTENTION, WHOLE):
        own = [row for row in table if row[0] == way]
        low, high = ([row[i] for row in own] if column == 2 else [] for i in (3, 4))
        series.append(
            Series(way, [float(row[1]) for row in own], [row[column] for row in own], source, low=low, high=high)
        )
    return Figure(name, title, Axis("N", "layers"), Axis(title), series)
