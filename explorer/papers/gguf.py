"""The tables of `assets/docs/measured.md` on GGUF files, from the records of `python -m tests.gguf_speed`."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.bench import gguf
from explorer.papers.tables import Cell, Measured


def tables() -> Iterator[Measured]:
    """All tables of the records that ship."""
    for found in gguf.recorded():
        sample = f"`{found.file}`, {found.prompt_tokens} tokens of prompt and {found.new_tokens} new ones"
        machine = f"{found.machine}, {found.threads} thread{'s' * (found.threads > 1)}"
        loops: list[list[Cell]] = [
            [
                one.name,
                round(1000 * one.prompt),
                round(one.speed, 1),
                round(one.wall, 3),
                round(one.processor, 3),
                one.same,
            ]
            for one in found.loops
        ]
        yield Measured(
            "Greedy on a GGUF file beside llama.cpp's own server",
            found.command,
            machine,
            found.date,
            [
                "loop",
                "prompt, ms",
                "tokens per second after it",
                "whole request, s",
                "processor, s",
                "tokens as greedy's",
            ],
            loops,
            sample,
            [
                f"Medians of {found.rounds} rounds in which all loops take turns; both run {found.build}, so that the "
                "programs alone are compared.",
                "The last column counts tokens up to the first other one. Where a file's rows keep their bits, our "
                "cache keeps values in bfloat16, the server's in float16, and near-ties fall differently.",
                f"{found.again} measurements were disturbed by others and made again, {found.left} stayed disturbed.",
            ],
        )
        ratios: list[list[Cell]] = [[one.name, one.after, one.wall, one.processor, one.goal] for one in found.ratios]
        yield Measured(
            "The same as ratios of a round, median (quarters)",
            found.command,
            machine,
            found.date,
            ["ratio", "after the first token", "whole request", "processor seconds", "goal"],
            ratios,
            sample,
        )
        if found.rows:
            yield _rows(found, machine)


def _rows(found: gguf.Speeds, machine: str) -> Measured:
    """Milliseconds of a forward by rows, a line for each way of coding the weights."""
    sizes = list(found.rows[0].seconds)
    rows: list[list[Cell]] = [
        [
            one.code,
            round(one.bytes / 1e6),
            f"move by up to {one.moved:.2g}" if one.moved else "the same bits",
            *("{:.1f} ({:.1f})".format(*(1000 * s for s in one.seconds[n])) for n in sizes),
        ]
        for one in found.rows
    ]
    made = ", ".join(one.code for one in found.rows if one.made)
    last = max(sizes)
    dear = ", ".join(f"{one.code} {one.seconds[last][0] / one.seconds[1][0]:.1f}" for one in found.rows)
    return Measured(
        f"Milliseconds of a forward (processor) by rows and code of the weights, behind {found.past} positions",
        found.command,
        machine,
        found.date,
        ["weights", "MB", "a row's logits beside others", *(f"{n} row{'s' * (n > 1)}" for n in sizes)],
        rows,
        f"`{found.file}`",
        [
            f"{last} rows in forwards of one row: {dear}. A draft of so many rows pays only where a forward writes "
            "more tokens.",
            f"Logits: 1 to 32 rows at once and a small tree behind 20, 200 and 700 positions ({found.build}).",
            f"{made} were made from the file by llama.cpp's quantiser: they tell speed and bits, not quality.",
        ],
    )
