"""What a study gives: named tables, figures as data, receipts. Each column and each series says where its numbers come
from. Versioned JSON; whatever is read is checked, for it may come from anywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from engines.core.errors import UserError
from engines.core.texts import utf8
from engines.core.trace import ModelRecord
from engines.core.trace.base import Count, Index, Record

STUDY_VERSION = 1
MAX_BYTES = 32 * 2**20
Provenance = Literal["given", "measured", "derived", "modelled", "published"]
Cell = str | int | float | bool | None


class Column(Record):
    """A column: its unit and where its numbers come from. None: it holds no results but names the row.

    given: an input; measured: by a clock or a run, here; derived: follows exactly; modelled: a formula with
    assumptions; published: from the paper. digits: behind the point when shown."""

    name: str
    unit: str = ""
    provenance: Provenance | None = None
    digits: Index | None = None

    @property
    def head(self) -> str:
        """As a table says it: name, unit and provenance."""
        unit = f", {self.unit}" if self.unit else ""
        return f"{self.name}{unit}{f' ({self.provenance})' if self.provenance else ''}"


class Table(Record):
    """Rows under named columns; None: no value. `name` is for programs, `title` for people."""

    name: str
    title: str
    columns: list[Column]
    rows: list[list[Cell]]
    note: str = ""


class Axis(Record):
    """An axis: what it shows and in what unit; `labels`: names of the places 0, 1, 2 ... where it has no numbers."""

    title: str
    unit: str = ""
    log: bool = False
    labels: list[str] = []

    @property
    def head(self) -> str:
        """As a figure says it."""
        unit = f", {self.unit}" if self.unit else ""
        return f"{self.title}{unit}{' (logarithmic)' if self.log else ''}"


class Played(Record):
    """A run that shows what a point measured: slug of a method, name of a model, parameters that are not as usual."""

    method: str
    model: str
    params: dict[str, str | int | float | bool] = {}


class Series(Record):
    """Points with a name. y None: a gap. low, high: ends of an interval of each. base: where each bar begins, y being
    where it ends; spans are such bars lying, in row x of an axis with labels; text: what a point says when it is
    looked at; runs: what plays it."""

    name: str
    x: list[float]
    y: list[float | None]
    provenance: Provenance
    style: Literal["line", "steps", "points", "bars", "spans"] = "line"
    low: list[float] = []
    high: list[float] = []
    base: list[float] = []
    text: list[str] = []
    runs: list[Played | None] = []


class Figure(Record):
    """A figure as data: two axes and what is drawn on them. Drawing it is for others."""

    name: str
    title: str
    x: Axis
    y: Axis
    series: list[Series]
    note: str = ""


class Receipt(Record):
    """A formula with the numbers put in, so that a result can be checked by hand."""

    name: str
    formula: str
    inputs: dict[str, float | str]
    result: float
    unit: str = ""
    provenance: Provenance = "derived"

    @property
    def sentence(self) -> str:
        """The formula, what went in, and what came out."""
        given = ", ".join(f"{name} = {_number(value)}" for name, value in self.inputs.items())
        return f"{self.formula}; {given}: {_number(self.result)}{f' {self.unit}' if self.unit else ''}"


class Study(Record):
    """The whole record. A study's function fills tables, figures, receipts, notes and models; the rest is filled by
    `run_study`."""

    tables: list[Table]
    figures: list[Figure] = []
    receipts: list[Receipt] = []
    notes: list[str] = []
    models: list[ModelRecord] = []
    version: Count = STUDY_VERSION
    study: str = ""
    title: str = ""
    paper: str = ""
    inputs: dict[str, Any] = {}
    departures: str = ""
    versions: dict[str, str] = {}
    machine: str = ""
    made_at: str = ""
    seconds: float = 0.0

    def to_json(self) -> str:
        """As JSON, the version first."""
        return msgspec.json.encode({"version": self.version} | msgspec.to_builtins(self)).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Study:
        """A study from JSON. Raises UserError for another version, a damaged file, or numbers that do not fit
        together."""
        if len(text) > MAX_BYTES:
            raise UserError(f"the study has {len(text):,} characters; at most {MAX_BYTES:,} are read.")
        try:
            text = text.removeprefix("\ufeff") if isinstance(text, str) else utf8(text)
            version = msgspec.json.decode(text, type=_Probe).version
            if version != STUDY_VERSION:
                raise UserError(
                    f"the study has version {version}; this program reads version {STUDY_VERSION}, so make it again "
                    "with the command `study`."
                )
            study = msgspec.json.decode(text, type=cls)
            _check_content(study)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise UserError(f"this is not a study: {str(error)[:300]}.") from None
        except ValueError as error:
            raise UserError(f"the study does not hold together: {str(error)[:300]}.") from None
        return study

    def table(self, name: str = "") -> Table:
        """The table of that name, the first one if none is given. Raises UserError with the names there are."""
        return _named(self.tables, name, "table", self.study)

    def figure(self, name: str = "") -> Figure:
        """The figure of that name, the first one if none is given. Raises UserError with the names there are."""
        return _named(self.figures, name, "figure", self.study)


class _Probe(msgspec.Struct):
    version: int


def check_study(study: Study) -> None:
    """Raises ValueError: a field of another type than its declaration (which Python lets pass when a record is made,
    and reading it does not), names twice, rows or series of unequal length, numbers that are not finite, results that
    do not say where they come from."""
    try:
        msgspec.convert(msgspec.to_builtins(study), Study)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    _check_content(study)


def _check_content(study: Study) -> None:
    """What types cannot say. Raises ValueError."""
    if not study.tables:
        raise ValueError("there is no table")
    for kind, names in (("table", [t.name for t in study.tables]), ("figure", [f.name for f in study.figures])):
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two {kind}s are called '{sorted(twice)[0]}'")
    for table in study.tables:
        _check_table(table)
    for figure in study.figures:
        for series in figure.series:
            _check_series(figure, series)
    for receipt in study.receipts:
        _finite([receipt.result], f"receipt '{receipt.name}'")


def _check_table(table: Table) -> None:
    for row in table.rows:
        if len(row) != len(table.columns):
            raise ValueError(f"table '{table.name}' has a row of {len(row)} cells for {len(table.columns)} columns")
        _finite([cell for cell in row if isinstance(cell, float)], f"table '{table.name}'")
    for i, column in enumerate(table.columns):
        numbers = any(isinstance(row[i], (int, float)) and not isinstance(row[i], bool) for row in table.rows)
        if numbers and column.provenance is None:
            raise ValueError(f"column '{column.name}' of table '{table.name}' holds numbers and no provenance")


def _check_series(figure: Figure, series: Series) -> None:
    where = f"series '{series.name}' of figure '{figure.name}'"
    for name in ("y", "low", "high", "base", "text", "runs"):
        values: Sequence[Any] = getattr(series, name)
        if len(values) != len(series.x) and (values or name == "y"):
            raise ValueError(f"{where} has {len(series.x)} x and {len(values)} {name}")
    if len(series.low) != len(series.high):
        raise ValueError(f"{where} has intervals with one end")
    _finite([v for v in (*series.x, *series.y, *series.low, *series.high, *series.base) if v is not None], where)
    if (figure.x.log and any(x <= 0 for x in series.x)) or (figure.y.log and any((y or 1) <= 0 for y in series.y)):
        raise ValueError(f"{where} has numbers that a logarithmic axis cannot show")


def _finite(values: Sequence[float], where: str) -> None:
    if odd := next((v for v in values if not math.isfinite(v)), None):
        raise ValueError(f"{where} holds {odd}; a number is finite, and no value is None")


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _named(parts: Sequence[Any], name: str, kind: str, study: str) -> Any:
    part = next((x for x in parts if not name or x.name == name), None)
    if part is None:
        names = ", ".join(x.name for x in parts) or "none"
        raise UserError(f"study '{study}' has no {kind} '{name[:60]}'; there is {names}.")
    return part


read_study = Study.from_json
