"""Quality against speed: exact match and forwards of methods on held-out tasks, with the threshold sweep of the same
model behind them.

Published speed-ups are mostly told against one token per forward, while a plain confidence threshold already takes most
of them. So every sweep runs the curve of its model kind too (the method that declares `curve`), and says for each
method what the curve has at the same number of forwards."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise, product
from typing import Any, NamedTuple

import msgspec

import engines
from engines import ASSETS, wilson
from engines.tasks import TASKS
from explorer.bench import shipped

SEED = 3  # of the held-out prompts; the models' cards use others
PARALLELBENCH = ASSETS / "sweeps" / "parallelbench.json.gz"  # beside the sweeps; `engines.parallelbench` reads it


@dataclass(frozen=True)
class Point:
    """One method with its parameters over all prompts: what was right by task as (right, tried), and what it took.

    forwards: mean per prompt. tokens_per_forward: tokens before the end mark over forwards, of all prompts together.
    on_curve: it belongs to the model's own sweep. control: it is the one that the forwards of the others are compared
    with."""

    method: str
    params: dict[str, Any]
    exact: dict[str, tuple[int, int]]
    forwards: float
    tokens_fed: float
    tokens_per_forward: float
    on_curve: bool = False
    control: bool = False

    @property
    def share(self) -> float:
        """Share answered exactly, of all prompts."""
        return sum(right for right, _ in self.exact.values()) / self.tried

    @property
    def tried(self) -> int:
        """Prompts."""
        return sum(tried for _, tried in self.exact.values())

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share."""
        return wilson(sum(right for right, _ in self.exact.values()), self.tried)

    @property
    def label(self) -> str:
        """As a list says it."""
        return Setting(self.method, self.params).label

    def part(self, many: bool) -> float | None:
        """Share answered exactly on tasks with many right answers, or on the others; None where none was tried."""
        marks = [mark for task, mark in self.exact.items() if TASKS[task].many == many]
        return sum(right for right, _ in marks) / sum(tried for _, tried in marks) if marks else None


class Setting(NamedTuple):
    """A method with the parameters that are not at their defaults; whether it belongs to the model's own curve, and
    whether it is the control."""

    method: str
    params: dict[str, Any]
    on_curve: bool = False
    control: bool = False

    @property
    def label(self) -> str:
        """As a list says it."""
        return " ".join([self.method, *(f"{name}={value}" for name, value in self.params.items())])


def plan(
    kind: str,
    slugs: Sequence[str],
    swept: Mapping[str, Sequence[Any]] | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> list[Setting]:
    """Everything that a sweep of these methods runs: the control first, then the curve of the kind of model, then the
    methods.

    swept: parameters and their values, for the methods that declare them; a method that declares two runs with
    every pair, one that declares none runs at its defaults. fixed: other values for those that declare them.
    Without a curve the control is the baseline of the first method that has one. Raises UserError for a method of
    another kind of model, and for parameters that none of the methods has."""
    infos = [engines.get_method(slug).info for slug in slugs]
    if wrong := [info.slug for info in infos if info.kind != kind]:
        raise engines.UserError(
            f"{', '.join(wrong)} cannot be swept on this model, which is {kind}; leave it out or choose another model."
        )
    declared(infos, [*(swept or {}), *(fixed or {})])
    first = _curve(kind) or _control(infos)
    settings = [*first]
    for info in infos:
        params = {p.name: p for p in info.params}
        here = {name: params[name].check(value) for name, value in (fixed or {}).items() if name in params}
        own = {name: map(params[name].check, values) for name, values in (swept or {}).items() if name in params}
        for values in product(*own.values()):
            asked = Setting(info.slug, {**here, **dict(zip(own, values, strict=True))})
            of_curve = not asked.params and asked.method in [setting.method for setting in first]
            if not of_curve and asked[:2] not in [setting[:2] for setting in settings]:  # the curve says it better
                settings.append(asked)
    return settings


def declared(infos: Sequence[engines.MethodInfo], names: Sequence[str]) -> None:
    """Raises UserError for a parameter that none of these methods has."""
    known = sorted({p.name for info in infos for p in info.params})
    if unknown := [name for name in names if name not in known]:
        raise engines.UserError(
            f"none of these methods has the parameter '{unknown[0][:60]}'; they have {', '.join(known) or 'none'}."
        )


def _curve(kind: str) -> list[Setting]:
    """The model kind's own sweep behind its control; nothing where no method declares one."""
    curve = next((info for info in engines.list_methods() if info.curve and info.kind == kind), None)
    if curve is None or curve.curve is None:
        return []
    name, values = curve.curve
    points = [Setting(curve.slug, {name: value}, True) for value in values]
    if curve.baseline:
        return [Setting(curve.baseline, {}, False, True), *points]
    return [points[0]._replace(control=True), *points[1:]]  # the safest value


def _control(infos: Sequence[engines.MethodInfo]) -> list[Setting]:
    base = next((info.baseline for info in infos if info.baseline), infos[0].slug if infos else None)
    if base is None:
        raise engines.UserError("no method is chosen; give at least one.")
    return [Setting(base, {}, False, True)]


@cache
def _longest(task: str, tokenizer: Any) -> int:
    examples = islice(TASKS[task].generate("train", SEED), 200)
    return max(len(tokenizer.encode(f" {example.answer}")) for example in examples)


def canvas(task: str, model: Any) -> int:
    """Answer positions of a task: its longest answer among 200 of the training split and the end mark, up to a multiple
    of 16."""
    return -(-(_longest(task, model.tokenizer) + 1) // 16) * 16


def fitted(info: engines.MethodInfo, length: int) -> dict[str, Any]:
    """The parameters that follow the canvas: its length, and a fixed number of steps in the same proportion to it as
    the defaults have."""
    usual = {p.name: p.default for p in info.params}
    params = {"max_new_tokens": length} if "max_new_tokens" in usual else {}
    if params and usual.get("steps"):
        params["steps"] = max(1, usual["steps"] * length // usual["max_new_tokens"])
    return params


def at_same_forwards(point: Point, points: Sequence[Point]) -> float | None:
    """What the curve answers exactly in as many forwards as `point` took, between its two nearest points; None outside
    the curve."""
    return between(point.forwards, [(p.forwards, p.share) for p in points if p.on_curve or p.control])


def between(x: float, points: Iterable[tuple[float, float]]) -> float | None:
    """The height at x of the line through points; None beside it."""
    for (x0, y0), (x1, y1) in pairwise(sorted(points)):
        if x0 <= x <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return None


def against_curve(point: Point, points: Sequence[Point]) -> str:
    """Whether the point's 95 % interval lies above or below that of the curve at as many forwards, which is uncertain
    as well; '-' outside of the curve and for the curve itself."""
    there = None if point.on_curve or point.control else at_same_forwards(point, points)
    if there is None:
        return "-"
    (low, high), (least, most) = point.interval, wilson(round(there * point.tried), point.tried)
    return "above" if low > most else "below" if high < least else "not told apart"


def rows(points: Sequence[Point]) -> list[dict[str, Any]]:
    """The points as a table says them, in the order in which they ran."""
    base = next(p for p in points if p.control)
    return [
        {
            "method": point.method,
            "parameters": " ".join(f"{k}={v}" for k, v in point.params.items()) or "default",
            "exact": _percent(point.share),
            "95 %": "{:.0%}-{:.0%}".format(*point.interval),
            "one answer": _percent(point.part(many=False)),
            "many answers": _percent(point.part(many=True)),
            "forwards": round(point.forwards, 1),
            "of control": round(point.forwards / base.forwards, 3),
            "tokens/forward": round(point.tokens_per_forward, 2),
            "tokens fed": round(point.tokens_fed),
            "curve there": "-" if point.on_curve or point.control else _percent(at_same_forwards(point, points)),
            "against it": against_curve(point, points),
        }
        for point in points
    ]


LEGEND = (
    "exact: share of held-out prompts answered exactly, with its 95 % interval (Wilson); forwards: mean per prompt; "
    "of control: over the first line's;\n"
    "curve there: what the swept threshold of the same model answers exactly in as many forwards (interpolated), '-' "
    "outside of the sweep;\nagainst it: above or below where the two intervals do not overlap"
)


class Recorded(msgspec.Struct, frozen=True):
    """A sweep in a file: the model that ran (with the sha256 of its weights), the tasks, the prompts of each, and every
    point with every task.

    seed: of every run. code: `engines.code_version()`. command, date: what was typed, and when. refused: settings that
    could not run, with the reason. left: runs that the budget did not reach; points then count only the prompts that
    all settings have run on."""

    model: engines.ModelRecord
    tasks: list[str]
    prompts_per_task: int
    points: list[Point]
    seed: int = 0
    code: str = ""
    refused: dict[str, str] = {}
    left: int = 0
    command: str = ""
    date: str = ""


def recorded() -> list[Recorded]:
    """The sweeps that ship, written by `decoding-explorer sweep --json`. Raises msgspec.ValidationError for a damaged
    file."""
    return shipped(Recorded, ASSETS / "sweeps")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
