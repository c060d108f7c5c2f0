"""Quality against speed: exact match and forwards of methods on held-out tasks, with the threshold sweep of the same model behind them.

Published speed-ups are mostly told against one token per forward, while a plain confidence threshold already takes most of them. So every sweep runs
the curve of its model kind too (the method that declares `curve`), and says for each method what the curve has at the same number of forwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from typing import Any

import msgspec

import engines
from engines.tasks import TASKS, check
from explorer import ASSETS

SEED = 3  # of the held-out prompts; the models' cards use others
PARALLELBENCH = "parallelbench.json"  # stands beside the sweeps and is read by its own module
Z = 1.96  # 95 %


@dataclass(frozen=True)
class Point:
    """One method with its parameters over all prompts: what was right by task as (right, tried), and what it took.

    forwards: mean per prompt. tokens_per_forward: tokens before the end mark over forwards, of all prompts together. on_curve: it belongs to the
    model's own sweep. control: it is the one that the forwards of the others are compared with.
    """

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

    def part(self, many: bool) -> float | None:
        """Share answered exactly on tasks with many right answers, or on the others; None where none was tried."""
        marks = [mark for task, mark in self.exact.items() if TASKS[task].many == many]
        return sum(right for right, _ in marks) / sum(tried for _, tried in marks) if marks else None


def wilson(right: int, tried: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), which stays inside 0..1 and does not shrink to a point where all or none are right."""
    p, z2 = right / tried, Z * Z / tried
    middle, half = p + z2 / 2, Z * math.sqrt(p * (1 - p) / tried + z2 / (4 * tried))
    return (middle - half) / (1 + z2), (middle + half) / (1 + z2)


def plan(kind: str, slugs: Sequence[str]) -> list[tuple[str, dict[str, Any], bool, bool]]:
    """(method, parameters, on the curve, control) of everything that a sweep of these methods runs; the control comes first.

    Raises UserError for a method of another kind of model.
    """
    infos = [engines.get_method(slug).info for slug in slugs]
    if wrong := [info.slug for info in infos if info.kind != kind or len(info.needs) > 1]:
        raise engines.UserError(f"{', '.join(wrong)} cannot be swept on this model, which is {kind}; leave it out or choose another model.")
    curve = next((info for info in engines.list_methods() if info.curve and info.kind == kind), None)
    if curve is None or curve.curve is None:
        raise engines.UserError(f"no method of {kind} models has a curve to sweep.")
    name, values = curve.curve
    swept = [(curve.slug, {name: value}, True, False) for value in values]
    swept[:0] = [(curve.baseline, {}, False, True)] if curve.baseline else [(*swept.pop(0)[:3], True)]  # else the safest value is the control
    return swept + [(slug, {}, False, False) for slug in slugs if slug not in (curve.baseline, curve.slug)]


def sweep(
    slugs: Sequence[str], model: Any, tasks: Sequence[str], prompts: int, progress: Callable[[int, int], None] = lambda done, total: None
) -> Iterator[Point]:
    """Run everything in `plan` at its defaults on the same held-out prompts; a point as soon as it is whole. Answers get the canvas of their task."""
    runs = plan(model.record.kind, slugs)
    examples = {task: list(islice(TASKS[task].generate("held-out", SEED), prompts)) for task in tasks}
    total, done = len(runs) * prompts * len(tasks), 0
    for slug, params, on_curve, control in runs:
        exact, forwards, fed, tokens = {}, 0, 0, 0
        info = engines.get_method(slug).info
        for task, asked in examples.items():
            right = 0
            for example in asked:
                trace = engines.run(slug, model, example.prompt, params=fitted(info, canvas(task, model)) | params, detail="none")
                right += check(example, trace.text).correct
                forwards, fed, tokens = forwards + trace.totals.forwards, fed + trace.totals.tokens_fed, tokens + trace.totals.tokens
                done += 1
                progress(done, total)
            exact[task] = (right, len(asked))
        n = prompts * len(tasks)
        yield Point(slug, params, exact, forwards / n, fed / n, tokens / max(1, forwards), on_curve, control)


@cache
def _longest(task: str, tokenizer: Any) -> int:
    examples = islice(TASKS[task].generate("train", SEED), 200)
    return max(len(tokenizer.encode(f" {example.answer}")) for example in examples)


def canvas(task: str, model: Any) -> int:
    """Answer positions of a task: its longest answer among 200 of the training split and the end mark, up to a multiple of 16."""
    return -(-(_longest(task, model.tokenizer) + 1) // 16) * 16


def fitted(info: engines.MethodInfo, length: int) -> dict[str, Any]:
    """The parameters that follow the canvas: its length, and a fixed number of steps in the same proportion to it as the defaults have."""
    usual = {p.name: p.default for p in info.params}
    found = {"max_new_tokens": length} if "max_new_tokens" in usual else {}
    if found and usual.get("steps"):
        found["steps"] = max(1, usual["steps"] * length // usual["max_new_tokens"])
    return found


def at_same_forwards(point: Point, points: Sequence[Point]) -> float | None:
    """What the curve answers exactly in as many forwards as `point` took, between its two nearest points; None outside the curve."""
    curve = sorted((p.forwards, p.share) for p in points if p.on_curve or p.control)
    for (x0, y0), (x1, y1) in pairwise(curve):
        if x0 <= point.forwards <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (point.forwards - x0) / (x1 - x0)
    return None


def rows(points: Sequence[Point]) -> list[dict[str, Any]]:
    """The points as a table says them."""
    base = next(p for p in points if p.control)
    return [
        {
            "method": point.method,
            "parameters": " ".join(f"{k}={v}" for k, v in point.params.items()) or "default",
            "exact": _percent(point.share),
            "95 %": "{:.0%}-{:.0%}".format(*wilson(round(point.share * point.tried), point.tried)),
            "one answer": _percent(point.part(many=False)),
            "many answers": _percent(point.part(many=True)),
            "forwards": round(point.forwards, 1),
            "of control": round(point.forwards / base.forwards, 3),
            "tokens/forward": round(point.tokens_per_forward, 2),
            "tokens fed": round(point.tokens_fed),
            "curve there": "-" if point.on_curve or point.control else _percent(at_same_forwards(point, points)),
        }
        for point in points
    ]


LEGEND = (
    "exact: share of held-out prompts answered exactly, with its 95 % interval (Wilson); forwards: mean per prompt; of control: over the first line's;\n"
    "curve there: what the swept threshold of the same model answers exactly in as many forwards (interpolated), '-' outside of the sweep"
)


class Recorded(msgspec.Struct, frozen=True):
    """A sweep in a file: the model that ran (with the sha256 of its weights), the tasks, the prompts of each, and every point with every task."""

    model: engines.ModelRecord
    tasks: list[str]
    prompts_per_task: int
    points: list[Point]


def recorded() -> list[Recorded]:
    """The sweeps that ship, written by `decoding-explorer sweep --json`. Raises msgspec.ValidationError for a damaged file."""
    return [msgspec.json.decode(path.read_bytes(), type=Recorded) for path in sorted((ASSETS / "sweeps").glob("*.json")) if path.name != PARALLELBENCH]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
