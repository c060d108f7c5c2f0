"""The tables of `bench --length` in the documents: what a token costs as an answer grows."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.bench import length
from explorer.papers.tables import Cell, Measured


def tables() -> Iterator[Measured]:
    """A table for each record, a row for each stretch of each loop."""
    for found in length.recorded():
        rows: list[list[Cell]] = [
            [
                loop.name,
                one.until,
                round(1000 * one.seconds, 2),
                [round(value, 2) for value in one.over] if len(one.over) > 1 else round(one.over[0], 2),
                None if one.bytes is None else round(1000 * one.recording, 3),
                None if one.bytes is None else round(one.bytes / 1000),
                loop.same,
            ]
            for loop in found.loops
            for one in loop.stretches
        ]
        yield Measured(
            f"What a token costs as an answer grows, on {found.model.name}",
            found.command,
            f"{found.machine}, {found.model.dtype}",
            found.date,
            [
                "loop",
                "up to token",
                "ms per token",
                "× over generate (95 %)",
                "recording, ms per token",
                "trace, kB",
                "tokens as generate's",
            ],
            rows,
            f"{found.prompt_tokens} tokens of prompt and {found.new_tokens:,} new ones, end marks ignored",
            [
                f"Medians over turns of {found.chunk} tokens, in which all loops take turns; each stretch begins where "
                "the one before ends. The prompt's own forward is left out. Below 1 is faster than generate.",
                "The last column counts tokens up to the first other one: rounding decides near-ties. A long answer "
                "without an end goes round in circles, which drafting by copying profits from.",
            ],
        )
