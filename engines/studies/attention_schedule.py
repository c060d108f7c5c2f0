"""How long one layer's attention of a decode step takes in tile units, by context: one worker per head, FlashDecoding's
equal split, and lean attention (arXiv:2405.10480), with the published rules for their grids.

A model of the schedule alone: a tile costs 1 wherever it runs, and nothing else costs anything. Nothing is computed
and no text is written at these lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engines.core.errors import UserError
from engines.core.params import Float, Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.methods.system.lean_attention.partition import (
    grid,
    lean,
    makespan,
    num_splits,
    split,
    tile_tokens,
    tiles,
    timeline,
)

CONTEXTS = "1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576"
LONGEST = 1_048_576


class Row(NamedTuple):
    """One context. Lengths in tile units; planned: lean as the published host code plans a batch, by its longest
    context, with the missing tiles skipped."""

    context: int
    tiles: int
    workers: int
    splits: int
    plain: float
    flash: float
    lean: float
    planned: float


@study(
    "attention-schedule",
    "Attention of one step by schedule",
    "arXiv:2405.10480",
    summary="Length of one layer's attention in tile units, by context, of plain, FlashDecoding's and the lean "
    "schedule, modelled.",
    inputs=[
        Text("contexts", CONTEXTS, help="Lengths of the context in tokens, with commas between them."),
        Int("heads", 56, 1, 128, symbol="H", help="Heads that have keys and values of their own."),
        Int("head_size", 64, 16, 256, help="Numbers of a key; a tile has 256 tokens up to 64, 128 up to 128, else 64."),
        Int("batch", 1, 1, 32, symbol="B", help="Sequences that are decoded at once."),
        Int(
            "processors",
            108,
            1,
            256,
            symbol="P",
            help="108 on an A100; lean and FlashDecoding run two workers on each.",
        ),
        Float(
            "shortest",
            1.0,
            0.05,
            1.0,
            step=0.05,
            help="The shortest context of the batch, as a share of the longest; the others lie evenly between them.",
        ),
    ],
    departures="The cost of a launch, of scratch memory and of merging is left out, and so is what two workers on one "
    "processor take from each other. Nothing is measured, and no text is written at these lengths.",
)
def attention_schedule(p: Params, progress: Progress) -> Study:
    """Lay out every context by all schedules."""
    contexts = lengths(p.contexts)
    b, rows = tile_tokens(p.head_size), list[Row]()
    for done, N in enumerate(contexts):
        progress(done, len(contexts))
        rows.append(row(N, [tiles(n, b) for n in spread(N, p.batch, p.shortest) for _ in range(p.heads)], p.processors))
    best = max(rows, key=lambda r: (r.flash / r.lean, r.context))
    return Study(
        tables=[Table("contexts", "Length in tile units", columns(p.batch > 1 and p.shortest < 1), cells(rows, p))],
        figures=[picture(rows)],
        receipts=[
            Receipt(
                f"FlashDecoding's length over lean's at {best.context:,} tokens",
                "flash / lean",
                {"flash": best.flash, "lean": best.lean, "splits": best.splits, "workers": best.workers},
                best.flash / best.lean,
                "",
                "modelled",
            ),
            Receipt(
                f"plain's length over lean's at {rows[-1].context:,} tokens, two workers sharing a processor",
                "plain / (2 · lean)",
                {"plain": rows[-1].plain, "lean": rows[-1].lean},
                rows[-1].plain / (2 * rows[-1].lean),
                "",
                "modelled",
            ),
        ],
        notes=[
            "Lean and FlashDecoding run two workers on a processor, plain one. If a processor's speed is shared by its "
            "workers, plain has to be compared with twice the others' length: the second receipt does.",
            "The published times hold what is not in this model: one launch instead of two, and the merge inside it.",
        ],
    )


def lengths(text: str) -> list[int]:
    """The contexts, in order. Raises UserError for none, and for anything but whole numbers up to a million."""
    try:
        found = [int(one) for one in text.replace("_", "").split(",") if one.strip()]
    except ValueError:
        raise UserError(f"contexts='{text}' holds what is not a number; write whole numbers with commas.") from None
    if not found or not all(1 <= n <= LONGEST for n in found) or len(found) > 64:
        raise UserError(f"contexts='{text}' does not fit; give 1 to 64 numbers from 1 to {LONGEST}.")
    return sorted(set(found))


def spread(N: int, batch: int, shortest: float) -> list[int]:
    """Contexts of a batch, the longest first, evenly down to that share of it."""
    step = (1 - shortest) / max(1, batch - 1)
    return [max(1, round(N * (1 - step * i))) for i in range(batch)]


def row(N: int, t: Sequence[int], P: int) -> Row:
    """All schedules of problems with t tiles each."""
    T, most = sum(t), max(t)
    G = grid(T, most, len(t), P)
    s = num_splits(len(t), most, 2 * P)
    longest = lean([most] * len(t), grid(most * len(t), most, len(t), P))
    left = [piece._replace(end=max(piece.first, min(piece.end, t[piece.problem]))) for piece in longest]
    return Row(
        N,
        T,
        G,
        s,
        makespan(split(t, 1, P)),
        makespan(split(t, s, 2 * P)),
        makespan(lean(t, G)),
        max(end for _, end in timeline(left)),
    )


def columns(ragged: bool) -> list[Column]:
    """Of the table; ragged: the contexts of the batch differ."""
    return [
        Column("context", "tokens", "given"),
        Column("tiles", "", "derived"),
        Column("lean workers", "", "derived"),
        Column("splits", "", "derived"),
        Column("plain", "tiles", "modelled"),
        Column("FlashDecoding", "tiles", "modelled"),
        Column("lean", "tiles", "modelled"),
        *([Column("lean, planned by the longest", "tiles", "modelled")] if ragged else []),
        Column("FlashDecoding over lean", "", "modelled", 2),
        Column("slots busy, lean", "", "modelled", 3),
    ]


def cells(rows: Sequence[Row], p: Params) -> list[list[str | float | int | bool | None]]:
    """Of the table."""
    ragged = p.batch > 1 and p.shortest < 1
    return [
        [*r[:-1], *([r.planned] if ragged else []), r.flash / r.lean, r.tiles / (2 * p.processors * r.lean)]
        for r in rows
    ]


def picture(rows: Sequence[Row]) -> Figure:
    """Lengths by context, both on a logarithmic axis."""
    x: list[float] = [r.context for r in rows]
    series = [
        Series(name, x, [float(getattr(r, field)) for r in rows], "modelled")
        for name, field in (("plain", "plain"), ("FlashDecoding", "flash"), ("lean", "lean"))
    ]
    return Figure(
        "lengths", "Length by context", Axis("context", "tokens", True), Axis("length", "tiles", True), series
    )
