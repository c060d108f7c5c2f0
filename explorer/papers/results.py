"""What was measured here of each method: taken from the records of `bench`, `sweep` and `bench --names`, from the cards
beside trained parts, and from the tables in `assets/measured`. A result names what it compares and where it is from;
none is made up where there is no record."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from engines import ASSETS, MethodInfo
from explorer.bench import classes, names, quality, shipped
from explorer.papers.cards import COST, cards, per_call
from explorer.papers.tables import Cell, Measured

OVER = "× over"  # how a column that holds a speed begins
MOST = 4  # values of a card or a table that are told


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """One measured result. kind: how it was obtained, which is how the page says it; `values` fill that sentence.
    speed: the method's seconds against its control's, where it was timed; calls: its control's model calls over its
    own, where it lost no answer by them."""

    kind: str
    values: dict[str, Any]
    speed: float | None = None
    calls: float | None = None


def results(infos: Mapping[str, MethodInfo], called: Mapping[str, Sequence[str]]) -> dict[str, list[Result]]:
    """Method -> what was measured of it, timed runs first. called: method -> the names that tables may call it by."""
    by_method: dict[str, list[Result]] = {slug: [] for slug in infos}
    for slug, result in (*_timed(), *_swept(infos), *_existing(), *_by_part(infos), *_in_tables(called)):
        if slug in by_method:
            by_method[slug].append(result)
    return {slug: sorted(those, key=lambda outcome: outcome.speed is None) for slug, those in by_method.items()}


def _timed() -> Iterator[tuple[str, Result]]:
    """The shortest answers first; of several settings of a method the fastest, which is named."""
    for record in sorted(classes.recorded(), key=lambda bench: bench.max_new_tokens):
        best: dict[str, classes.Score] = {}
        for score in record.scores:
            held = best.get(score.method)
            if held is None or record.overall(score.label) > record.overall(held.label):
                best[score.method] = score
        for slug, score in best.items():
            class_scores = [class_score for class_score in record.scores if class_score.label == score.label]
            values = {
                "control": record.control,
                "speed": round(record.overall(score.label), 2),
                "span": [round(end, 2) for end in record.interval(score.label) or ()],
                "classes": len(record.classes()),
                "model": record.models[0].name,
                "dtype": record.models[0].dtype,
                "tokens": record.max_new_tokens,
                "same": sum(class_score.same for class_score in class_scores),
                "prompts": sum(class_score.prompts for class_score in class_scores),
                "machine": record.machine.partition(",")[0],
                "given": score.label[len(slug) :].strip(" ()"),
            }
            yield slug, Result("timed", values, speed=record.overall(score.label))


def _swept(infos: Mapping[str, MethodInfo]) -> Iterator[tuple[str, Result]]:
    seen = set[tuple[str, str]]()  # a method's figure from the record with the most prompts, not from each
    for record in sorted(quality.recorded(), key=lambda sweep: -sweep.points[0].tried):
        base = next(point for point in record.points if point.control)
        for slug in dict.fromkeys(point.method for point in record.points):
            if slug not in infos or (record.model.name, slug) in seen:
                continue
            seen.add((record.model.name, slug))
            own = [point for point in record.points if point.method == slug]
            usual = {param.name: param.default for param in infos[slug].params}
            plain = (point for point in own if all(usual.get(k) == v for k, v in point.params.items()))
            point = next(plain, own[0])
            low, high = point.interval
            values = {
                "control": base.method,
                "share": round(100 * point.share, 1),
                "span": [round(100 * low, 1), round(100 * high, 1)],
                "tried": point.tried,
                "calls": round(point.forwards, 2),
                "base": round(base.forwards, 2),
                "base_share": round(100 * base.share, 1),
                "model": record.model.name,
                "given": ", ".join(f"{k}={v}" for k, v in point.params.items()),
            }
            kept = high >= base.interval[0]
            yield slug, Result("swept", values, calls=base.forwards / point.forwards if kept else None)


def _existing() -> Iterator[tuple[str, Result]]:
    for record in shipped(names.Names, names.FOLDER):
        for score in record.lanes:
            values = {
                "share": round(100 * score.exist / score.prompts),
                "span": [round(100 * end) for end in score.interval],
                "prompts": score.prompts,
                "model": record.model.name,
                "control": record.lanes[0].method,
                "base": round(100 * record.lanes[0].exist / record.lanes[0].prompts),
            }
            if score is not record.lanes[0]:
                yield score.method, Result("names", values)


def _by_part(infos: Mapping[str, MethodInfo]) -> Iterator[tuple[str, Result]]:
    """Tokens per model call, from the card of the part that a method asks for. Its first lines are the part's own."""
    for name, card in cards("parts").items():
        calls, prompts = per_call(card)
        means = {key: value for key, value in calls.items() if isinstance(value, float) and not key.endswith(COST)}
        lines = [f"{key.replace('_', ' ')}: {value:.2f}" for key, value in means.items()]
        for slug, info in infos.items():
            if lines and any(name.endswith(f"-{part}") for part in info.parts.values()):
                values = {"part": name, "lines": "; ".join(lines[:MOST]), "prompts": int(prompts) if prompts else None}
                yield slug, Result("part", values)


def _in_tables(called: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Result]]:
    """A row that a table has for a method; else the title of a table that is about it."""
    files = sorted((ASSETS / "measured").glob("*.json"))
    tables = [record for file in files for record in msgspec.json.decode(file.read_bytes(), type=list[Measured])]
    for slug, wanted in called.items():
        names_of = {name.lower() for name in wanted}
        for table in tables:
            rows = table.rows if table.columns[0] == "method" else ()
            row = next((row for row in rows if str(row[0]).lower() in names_of), None)
            if row is not None:
                yield slug, _of_row(table, row)
            elif any(re.match(rf"{re.escape(name)}(?!\w)", table.title.lower()) for name in names_of):
                yield slug, Result("table", {"title": table.title})


def _of_row(table: Measured, row: Sequence[Cell]) -> Result:
    pairs = list(zip(table.columns[1:], row[1:], strict=True))
    lines = [f"{column}: {_said(cell)}" for column, cell in pairs if cell is not None][:MOST]
    speeds = [cell for column, cell in pairs if column.startswith(OVER)]
    speed = speeds[0][0] if speeds and isinstance(speeds[0], list) else None
    values = {"title": table.title, "lines": "; ".join(lines), "where": table.machine}
    return Result("row", values, speed=speed)


def _said(cell: Cell) -> str:
    return f"{cell[0]:g} ({cell[1]:g} to {cell[2]:g})" if isinstance(cell, list) else f"{cell}"
