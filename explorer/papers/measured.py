"""The tables of `assets/docs/measured.md`, made of the JSON that `bench`, `sweep`, `parallelbench` and `study` write,
of the cards beside weights, and of the records in `assets/measured`, which hold what was measured otherwise.

    python -m explorer.papers.documents assets/docs/measured.md    writes them into the document

Every table names its command, machine and date; rows made of cards name their own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

import engines
from engines import ASSETS, parallelbench
from explorer.bench import certified, classes, grid, names, quality
from explorer.papers import cards, gguf, lengths
from explorer.papers.tables import Cell, Measured, markdown

RECORDS = ASSETS / "measured"
TINY = 1e-4  # below it a number would be written with an exponent
MERGED = "2026-11-28"  # from then on layers of Llama's family run in few calls
OLDER = (
    "Measured before the layers ran in few calls (see [a forward beside transformers' own](#the-program-itself)): a "
    "forward of one row, which is greedy's, has gained more than one of several."
)
MOST_ROWS = 12  # of a study's table that is shown; longer ones are left to `study --open`
# --- where they are from


def section(name: str) -> str:
    """All tables of one part of the document. Raises KeyError for a part that there is not."""
    made = SECTIONS[name]()
    file = RECORDS / f"{name}.json"
    kept = msgspec.json.decode(file.read_bytes(), type=list[Measured]) if file.is_file() else []
    return "\n\n".join(map(markdown, chain(made, kept)))


def _bench() -> Iterator[Measured]:
    plain, invariant = classes.recorded(), classes.recorded(classes.ROW_INVARIANT)
    for found in (*sorted(plain, key=lambda found: found.max_new_tokens), *invariant):
        said = {line["method"]: line for line in classes.rows(found)}
        rows: list[list[Cell]] = []
        for label in sorted(said, key=found.overall, reverse=True):
            line, span = said[label], found.interval(label)
            speed = [round(x, 2) for x in (found.overall(label), *(span or ()))]
            cell: Cell = speed if span else speed[0]
            each = [str(line[group]).replace("×", "") for group in found.classes()]
            rows.append([label, cell, line["tokens/forward"], line["same text"], *each])
        main = found.models[0]
        if main.slower is None:
            how, texts = "", f"In {main.dtype} rounding decides between near-ties; in float32 all texts are greedy's."
        else:
            how = " with row-invariant forwards"
            texts = (
                "Speeds are over greedy on the plain network. The texts are held against greedy's with row-invariant "
                f"forwards, and that one's (the row `{found.control}`, which shows what these cost) against plain "
                "greedy's."
            )
        costs = ", ".join(f"{1000 * s:.1f} ms for {n} row{'s' * (n > 1)}" for n, s in found.row_seconds.items())
        yield Measured(
            f"{found.max_new_tokens} new tokens on {main.name}{how}",
            found.command,
            f"{found.machine}, {main.dtype}",
            found.date,
            ["method", "× over greedy, median class (95 %)", "tokens per forward", "greedy's text", *found.classes()],
            rows,
            "tokens per second over greedy's in the same process, the prompt's forward included",
            [
                "The interval is that of the median over the classes, by order statistics: a method is faster or "
                "slower than greedy only where it excludes 1; methods whose intervals overlap are not told apart.",
                texts,
                f"A forward took {costs}.",
                *([OLDER] if found.date < MERGED else []),
            ],
        )


def _certified() -> Iterator[Measured]:
    for found in certified.recorded():
        rows: list[list[Cell]] = []
        for one in (*found.kept, *found.network):
            name = f"{one.method} against the network without a cache" if one in found.network else one.method
            given = ", ".join(f"{key}={value}" for key, value in one.params.items())
            first = ", ".join(str(at + 1) for at in one.first)
            rows.append(
                [f"{name} ({given})" if given else name, f"{one.same} of {one.prompts}", one.tokens, first or "–"]
            )
        yield Measured(
            f"Lossless methods on {found.model.name}, token by token",
            found.command,
            f"{found.machine}, {found.model.dtype}",
            found.date,
            ["method", "same text as its control", "tokens compared", "differs from token"],
            rows,
            "bundled prompts, temperature 0",
        )


def _sweeps() -> Iterator[Measured]:
    for found in quality.recorded():
        base = next(p for p in found.points if p.control)
        rows: list[list[Cell]] = []
        for p in sorted(found.points, key=lambda p: p.forwards, reverse=True):
            low, high = p.interval
            share = [round(100 * x, 1) for x in (p.share, low, high)]
            against = quality.against_curve(p, found.points).replace("-", "–")
            rows.append([p.label, share, round(p.forwards, 2), round(p.forwards / base.forwards, 3), against])
        apart = grid.apart(found.points)
        yield Measured(
            f"Quality against forwards on {found.model.name}{f', by {apart}' if apart else ''}",
            found.command,
            "counted, on any machine",
            found.date,
            ["method", "answered exactly, % (95 %)", "forwards", "of one token per forward", "against the threshold"],
            rows,
            f"{base.tried} held-out prompts of {len(found.tasks)} tasks, answers checked exactly",
            [
                "The last column compares with the swept plain threshold at as many forwards; above and below only "
                "where the two intervals do not overlap. The intervals are marginal; the record holds no pairs.",
                "Every method decodes the board to its end: what a rule for the end mark saves, a plain threshold "
                "with that rule would save too. *Sweeps* has the figure.",
            ],
        )


def _parallel() -> Iterator[Measured]:
    for part in parallelbench.recorded(quality.PARALLELBENCH):
        rows: list[list[Cell]] = [
            [p.task, round(p.tokens_per_forward, 2), [round(100 * x, 1) for x in (p.share, *p.interval)],
             None if p.chance is None else round(100 * p.chance, 1)]
            for p in part.points
            if p.setting.sampled and p.setting.per_forward in (2, 3) and p.chance is not None
            and p.task in ("copy", "replace any", "shuffle")
        ]  # fmt: skip
        if rows and part.model.name == "oracle":
            yield Measured(
                "ParallelBench: several tokens at once from the true marginals",
                part.command,
                "counted, on any machine",
                part.date,
                ["task", "tokens per forward", "right, % (95 %)", "derived, %"],
                rows,
                f"exact oracle, random order, six items, {part.prompts} prompts",
                [
                    "What is lost is lost by drawing tokens of one forward independently; no training restores it. "
                    "*Sweeps → ParallelBench* has every point."
                ],
            )


def _names() -> Iterator[Measured]:
    for found in names.recorded():
        rows: list[list[Cell]] = []
        for lane, line in zip(found.lanes, names.rows(found), strict=True):
            shares = [round(100 * x) for x in (lane.exist / lane.prompts, *lane.interval)]
            rows.append([line["method"], [float(x) for x in shares], line["the author's"], lane.cut])
            rows[-1] += [line["legal mass at the dot"].replace("-", "–"), line["analyser, median"].replace("-", "–")]
        yield Measured(
            "Names that exist at a dot (Monitor-Guided Decoding)",
            found.command,
            f"{found.machine}, Python {found.python}",
            found.date,
            ["method", "names that exist, % (95 %)", "the author's", "cut off", "mass on members", "analyser, median"],
            rows,
            f"files of the standard library cut at a dot, {found.lanes[0].prompts} of them",
            [
                "The 100 % follows from the rule: the analyser that restricts is the one that marks. The author's own "
                "name does not follow from it.",
                f"The analyser was asked about {found.asked} places; at {found.wrong} it knew names and the author's "
                "was none of them. Names longer than 12 tokens are cut off and count as not existing.",
            ],
        )


def _study(name: str, method: str, *wanted: str) -> Iterator[Measured]:
    """The tables of a study's record in `assets/studies`: those named, else all that are short."""
    file = ASSETS / "studies" / f"{name}.json"
    if not file.is_file():
        return
    found = engines.Study.from_json(file.read_bytes())
    command, made_by = _origin(found)
    for table in found.tables:
        if table.name in wanted or (not wanted and len(table.rows) <= MOST_ROWS):
            columns, rows = _joined([column.head.removesuffix(" (given)") for column in table.columns], table.rows)
            notes = [note for note in (table.note, *(found.notes if table is found.tables[0] else [])) if note]
            left = f"All tables and figures: `decoding-explorer study --open assets/studies/{name}.json`."
            title = f"{method}: {table.title[:1].lower()}{table.title[1:]}"
            day = found.made_at[:10]
            yield Measured(title, command, found.machine, day, columns, rows, "", [*notes, left], made_by)


def _origin(found: engines.Study) -> tuple[str, str]:
    """The command that makes a study's record again; or what made it, where the study is no more."""
    if found.study in {info.slug for info in engines.list_studies()}:
        given = " ".join(f"--set {key}={_quoted(value)}" for key, value in found.inputs.items())
        return f"decoding-explorer study {found.study} {given}", ""
    given = ", ".join(f"{key}={_quoted(value)}" for key, value in found.inputs.items() if value != "")
    return "", f"a study that is no longer part of the program ({found.study}: {given})"


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) and " " in value else str(value)


def _joined(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[list[str], list[list[Cell]]]:
    """A study's columns, those that are ends of an interval put behind its value."""
    ends = [bool(re.match(r"(.*: )?(from|to)\b", head)) for head in heads]
    keep = [i for i, end in enumerate(ends) if not end]
    made: list[list[Cell]] = []
    for row in rows:
        shown = [
            f"{_number(row[i])} ({_number(row[i + 1])} to {_number(row[i + 2])})"
            if i + 2 < len(heads) and ends[i + 1] and row[i + 1] is not None
            else _number(row[i])
            for i in keep
        ]
        made.append(list(shown))
    return [heads[i] for i in keep], made


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    if 0 < abs(value) < TINY:
        return f"{value:.5f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _coherence() -> Iterator[Measured]:
    """The study's long table turned: a row for each sampler."""
    file = ASSETS / "studies" / "coherence-of-samplers.json"
    if not file.is_file():
        return
    found = engines.Study.from_json(file.read_bytes())
    table = found.tables[0]
    heat = list(dict.fromkeys(row[1] for row in table.rows))
    by = {(row[0], row[1]): [round(float(row[i]), 1) for i in (2, 3, 4)] for row in table.rows}  # type: ignore[arg-type]
    rows: list[list[Cell]] = [
        [str(name), *(by[name, t] for t in heat)] for name in dict.fromkeys(r[0] for r in table.rows)
    ]
    yield Measured(
        "Coherence of samplers by temperature",
        "",
        f"{found.machine}, {found.models[0].dtype}",
        found.made_at[:10],
        ["sampler", *(f"T = {t}" for t in heat)],
        rows,
        "mean log-likelihood per token at temperature 1 of texts drawn at T (95 % over twenty openings), in nats",
        ["It is coherence for the model itself, not quality. The samplers of an opening share one seed."],
        _origin(found)[1],
    )


SECTIONS: Mapping[str, Any] = {
    "speculation": lambda: chain(
        _bench(),
        _certified(),
        _study("needles-in-documents", "RAPID"),
        _study("regret-of-bets", "Adaptive drafts", "texts", "lengths"),
    ),
    "length": lengths.tables,
    "gguf": gguf.tables,
    "heads": lambda: chain(cards.calls(), _study("scaling-laws", "Scylla", "laws", "widths", "plan")),
    "diffusion": lambda: chain(_sweeps(), _parallel()),
    "sampling": lambda: chain(_coherence(), _names()),
    "architectures": lambda: chain(cards.domains(), _study("expert-unions", "BlockFFN", "sparsity")),
    "pictures": lambda: chain(cards.reader(), cards.vision()),
    "program": tuple,
    "training": tuple,
}
