"""A sweep of one or two parameters as curves: along the first, one curve for each value of the second."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from engines import UserError
from explorer.bench.quality import Point, Setting

MAX_SWEPT, MAX_PAIRS = 2, 96  # parameters with several values, and pairs of their values


@dataclass(frozen=True)
class Curve:
    """Points of one method that differ in one parameter only, by its values. along: that parameter, empty where there
    is one point. fixed: the other swept ones and what they are here. points: (number of the setting, point)."""

    method: str
    along: str
    fixed: dict[str, Any]
    points: tuple[tuple[int, Point], ...]

    @property
    def label(self) -> str:
        """As a legend says it: the whole setting where it is one point."""
        return Setting(self.method, self.fixed).label if self.along else self.points[0][1].label

    @property
    def values(self) -> list[str]:
        """The values of `along`, one for each point; empty where there is one point."""
        return [_text(point.params[self.along]) for _, point in self.points] if self.along else []


def check(swept: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
    """The same, where a figure can show it. Raises UserError for a third parameter and for too many pairs."""
    names = list(swept)
    if len(names) > MAX_SWEPT:
        raise UserError(
            f"{', '.join(names[:-1])} and {names[-1]} have several values each; at most two parameters are swept at a "
            "time: give the others one value."
        )
    pairs = len(list(product(*swept.values())))
    if len(names) == MAX_SWEPT and pairs > MAX_PAIRS:
        sizes = " × ".join(str(len(values)) for values in swept.values())
        raise UserError(
            f"{names[0]} and {names[1]} have {sizes} = {pairs} pairs of values; at most {MAX_PAIRS} are taken in one "
            "sweep, so give fewer values."
        )
    return swept


def swept_of(points: Sequence[Point]) -> dict[str, list[str]]:
    """Method -> the parameters that vary among its points, in the order in which they were asked for; the control and
    its curve are left out."""
    swept: dict[str, list[str]] = {}
    for method in dict.fromkeys(point.method for point in points if not (point.on_curve or point.control)):
        own = [point.params for point in points if point.method == method and not (point.on_curve or point.control)]
        names = dict.fromkeys(name for params in own for name in params)
        swept[method] = [name for name in names if len({str(params.get(name)) for params in own}) > 1]
    return swept


def curves(points: Mapping[int, Point]) -> list[Curve]:
    """All points but the control and its curve, as curves. points: setting number -> point."""
    swept, groups = swept_of(list(points.values())), dict[tuple[str, ...], list[tuple[int, Point]]]()
    for number, point in points.items():
        if not (point.on_curve or point.control):
            others = [str(point.params.get(name)) for name in swept[point.method][1:]]
            groups.setdefault((point.method, *others), []).append((number, point))
    made = []
    for (method, *_), group in groups.items():
        names = swept[method]
        if not names:
            made += [Curve(method, "", {}, (pair,)) for pair in group]
            continue
        fixed = {name: group[0][1].params[name] for name in names[1:] if name in group[0][1].params}
        ordered = sorted(group, key=lambda pair: _place(pair[1].params.get(names[0])))
        made.append(Curve(method, names[0], fixed, tuple(ordered)))
    return made


def apart(points: Sequence[Point]) -> str:
    """The parameter that tells the curves of a method apart; empty where only one was swept."""
    return next((names[1] for names in swept_of(points).values() if len(names) > 1), "")


def _place(value: Any) -> float:
    """Numbers by size; others stay as they were asked for."""
    return float(value) if isinstance(value, (int, float)) else 0.0


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
