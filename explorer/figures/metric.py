"""One displayed number, and how one is made from its definition."""

from collections.abc import Mapping

import msgspec

from explorer.figures.definitions import DEFINITIONS, Kind, fill


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One number. `value` is None where the run did nothing it could be computed from, or, with `absent`, where the
    trace does not hold what it needs; `conditions` say under which the number holds. terms: the formula with the
    numbers of this run put in, "" where there is nothing to put in."""

    name: str
    label: str
    value: float | None
    unit: str
    kind: Kind
    formula: str
    conditions: str = ""
    absent: bool = False
    terms: str = ""

    @property
    def shown(self) -> str:
        """The value as a person reads it, unit included."""
        if self.absent:
            return "not recorded"
        return "–" if self.value is None else f"{_number(self.value, self.unit)}{_SUFFIX.get(self.unit, '')}"


_SUFFIX = {"share": "", "times": "×"}


def _number(value: float, unit: str) -> str:
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "seconds":
        return _seconds(value)
    return f"{int(value):,}" if float(value).is_integer() and unit in ("count", "layer-rows") else f"{value:,.2f}"


def _seconds(value: float) -> str:
    """As the player writes them (`seconds` in words.js)."""
    if value == 0 or value >= 1:
        return f"{value:.2f} s" if value else "0 s"
    return f"{value * 1e6:.0f} µs" if value < 0.001 else f"{value * 1e3:.{1 if value < 0.1 else 0}f} ms"


def counted(name: str, label: str, value: int, formula: str) -> Metric:
    """A measured count without terms."""
    return Metric(name=name, label=label, value=value, unit="count", kind="measured", formula=formula)


def derived(
    name: str,
    label: str,
    value: float | None,
    unit: str,
    formula: str,
    about: str = "",
    terms: str = "",
    kind: Kind = "derived",
) -> Metric:
    """A number that follows from others by `formula`; `terms`: the formula with this run's numbers."""
    return Metric(
        name=name, label=label, value=value, unit=unit, kind=kind, formula=formula, conditions=about, terms=terms
    )


def quotient(
    name: str, label: str, unit: str, formula: str, part: int, whole: int, about: str = "", kind: Kind = "derived"
) -> Metric:
    """A number that is one count over another."""
    return derived(name, label, ratio(part, whole), unit, formula, about, f"{part} ÷ {whole}", kind)


def clocked(name: str, label: str, seconds: float | None, formula: str, where: str) -> Metric:
    """Measured seconds."""
    return Metric(
        name=name, label=label, value=seconds, unit="seconds", kind="measured", formula=formula, conditions=where
    )


def defined(
    name: str, value: float | None, known: Mapping[str, float | str | None], where: str = "", label: str = ""
) -> Metric:
    """A number of `DEFINITIONS`, its terms filled."""
    it = DEFINITIONS[name]
    return Metric(
        name=name,
        label=label or it.label,
        value=value,
        unit=it.unit,
        kind=it.kind,
        formula=it.formula,
        conditions=it.note or where,
        terms=fill(it.terms, known),
    )


def ratio(part: float, whole: float) -> float | None:
    """part ÷ whole; None where there is nothing to divide by."""
    return part / whole if whole else None
