"""Lossless methods against their plain control by class of prompt, in one process, alternating; and what a forward of n
rows costs on this machine.

Speed is told as tokens per second over the control's: wall seconds of whole runs after a warm-up, nothing recorded,
medians over repeats, then over the prompts of a class, then over classes. The reading of the prompt is inside, as it is
for a user. The interval is that of the median over classes, so that a method is faster or slower only where nearly all
classes say so."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np

import engines
from engines import ASSETS, median_interval
from explorer.bench import shipped, stopped_early
from explorer.bench.measure import refuse_bad
from explorer.figures.compare import answer_ids

PROMPTS = ASSETS / "tasks" / "spec_prompts.json"
FOLDER = ASSETS / "bench"
ROW_INVARIANT = FOLDER / "row_invariant"
LIGHT = 0.02  # a speed within this of 1 is no difference


@dataclass(frozen=True)
class Score:
    """One method on the prompts of one class. speed: tokens per second over the control's, the median prompt, with the
    slowest and the fastest one.

    tokens_per_forward: of the main model. rows: mean rows of the trees that it verified. same: prompts with the
    control's very tokens."""

    method: str
    params: dict[str, Any]
    group: str
    prompts: int
    speed: float
    slowest: float
    fastest: float
    tokens_per_forward: float
    rows: float
    same: int

    @property
    def label(self) -> str:
        """The method, with its parameters where they are not the defaults."""
        given = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return f"{self.method} ({given})" if given else self.method


class Bench(msgspec.Struct, frozen=True):
    """A benchmark in a file: models, machine, length of the answers, repeats, seconds of a forward by rows, and a score
    per method and class. command, date: what was typed, and when. partial: it was stopped; the scores are of the
    prompts that were finished."""

    models: list[engines.ModelRecord]
    control: str
    machine: str
    versions: dict[str, str]
    max_new_tokens: int
    repeats: int
    row_seconds: dict[int, float]
    scores: list[Score]
    command: str = ""
    date: str = ""
    partial: bool = False

    def classes(self) -> list[str]:
        """The classes in the order of the prompts."""
        return list(dict.fromkeys(score.group for score in self.scores))

    def labels(self) -> list[str]:
        """The methods with their parameters, in the order in which they were asked for."""
        return list(dict.fromkeys(score.label for score in self.scores))

    def overall(self, label: str) -> float:
        """The median over the classes of a method's speed."""
        return median(self._speeds(label))

    def interval(self, label: str) -> tuple[float, float] | None:
        """The 95 % interval of `overall`, by order statistics; None for fewer than six classes."""
        return median_interval(self._speeds(label))

    def _speeds(self, label: str) -> list[float]:
        return [score.speed for score in self.scores if score.label == label]

    def break_even(self, rows: float) -> float:
        """Tokens per forward that a forward of so many rows has to bring to cost no more than single rows do, between
        the measured sizes."""
        sizes, seconds = zip(*sorted(self.row_seconds.items()), strict=True)
        return float(np.interp(rows, sizes, seconds)) / seconds[0]


def class_prompts() -> dict[str, list[str]]:
    """The bundled prompts by class."""
    by_class: dict[str, list[str]] = {}
    for entry in json.loads(PROMPTS.read_text())["prompts"]:
        by_class.setdefault(entry["class"], []).append(entry["prompt"])
    return by_class


Plan = tuple[str, Mapping[str, Any]]  # slug and parameters


def bench_classes(
    plans: Sequence[Plan],
    model: Any,
    prompts: Mapping[str, Sequence[str]],
    *,
    repeats: int = 3,
    max_new_tokens: int = 64,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Bench:
    """Measure methods that share one control. Of a model with row-invariant forwards the speed is told over the control
    on the plain network, as it is fastest, and the control under them is measured as the methods are; whose text it is
    is told against the control under them, and of that one against the plain one.

    At Ctrl-C it returns what was finished, as partial; raises KeyboardInterrupt where that is nothing, UserError where
    they have different controls, are not lossless, or need another kind of model."""
    infos = [engines.get_method(slug).info for slug, _ in plans]
    controls = {info.baseline for info in infos}
    if len(controls) != 1 or not all(info.keeps(given) for info, (_, given) in zip(infos, plans, strict=True)):
        raise engines.UserError("the benchmark by class needs lossless methods with one control; leave the others out.")
    control, plain = str(controls.pop()), getattr(model, "plain", None)
    if plain:
        plans = [(control, {}), *plans]
    runs, models = [(control, {}), *plans], [plain or model, *(model for _ in plans)]
    first = next(text for texts in prompts.values() for text in texts)
    refuse_bad(((slug, {**given, "max_new_tokens": max_new_tokens}) for slug, given in runs), model, first)
    total, done = sum(map(len, prompts.values())), 0
    progress(done, total)
    measurements: dict[tuple[int, str], list[_One]] = {}
    records: dict[str, engines.ModelRecord] = {}
    row_seconds = dict(engines.row_costs(model))  # first, so that a benchmark that is stopped has them at once
    with stopped_early(measurements) as interrupts:
        for group, text in ((group, text) for group, texts in prompts.items() for text in texts):
            ones = _alternate(runs, models, text, repeats, max_new_tokens)
            for i, measurement in enumerate(ones[1:]):
                measurements.setdefault((i, group), []).append(measurement)
                records |= {record.role: record for record in measurement.trace.header.models}
            progress(done := done + 1, total)
    header = next(iter(measurements.values()))[0].trace.header
    by_plan = sorted(measurements.items(), key=lambda item: item[0][0])
    return Bench(
        models=list(records.values()),
        control=control,
        machine=header.machine,
        versions=header.versions,
        max_new_tokens=max_new_tokens,
        repeats=repeats,
        row_seconds=row_seconds,
        scores=[_score(plans[i], group, ones) for (i, group), ones in by_plan],
        partial=bool(interrupts),
    )


@dataclass(frozen=True)
class _One:
    """One prompt: speed over the control's, the recorded run, and whether it has the control's very tokens."""

    speed: float
    trace: engines.Trace
    same: bool


def _alternate(runs: Sequence[Plan], models: Sequence[Any], text: str, repeats: int, length: int) -> list[_One]:
    """Every run once on its model with a light record, which also warms it, then all of them in turn, timed with
    nothing recorded. The control stands first, and speeds are over its own. A text is held against that of the first
    run on the same model; the text of that first run, against the control's."""
    traces = [
        engines.run(slug, model, text, params={**params, "max_new_tokens": length}, detail="light")
        for (slug, params), model in zip(runs, models, strict=True)
    ]
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for own, (slug, params), model in zip(seconds, runs, models, strict=True):
            began = time.perf_counter()
            engines.run(slug, model, text, params={**params, "max_new_tokens": length}, detail="none")
            own.append(time.perf_counter() - began)
    per_token = [median(own) / max(1, len(trace.output_ids)) for own, trace in zip(seconds, traces, strict=True)]
    ids, firsts = [answer_ids(trace) for trace in traces], [models.index(model) for model in models]
    return [
        _One(per_token[0] / own, trace, ids[i] == ids[first if first < i else 0])
        for i, (own, trace, first) in enumerate(zip(per_token, traces, firsts, strict=True))
    ]


def _score(plan: Plan, group: str, measured: Sequence[_One]) -> Score:
    speeds, traces = [measurement.speed for measurement in measured], [measurement.trace for measurement in measured]
    role = traces[0].header.models[0].role
    forwards = sum(step.forwards.get(role, 0) for trace in traces for step in trace.steps)
    trees = [len(step.tree.parents) for trace in traces for step in trace.steps if step.tree]
    return Score(
        method=plan[0],
        params=dict(plan[1]),
        group=group,
        prompts=len(measured),
        speed=median(speeds),
        slowest=min(speeds),
        fastest=max(speeds),
        tokens_per_forward=sum(len(trace.output_ids) for trace in traces) / max(1, forwards),
        rows=sum(trees) / max(1, len(trees)),
        same=sum(measurement.same for measurement in measured),
    )


def rows(bench: Bench) -> list[dict[str, Any]]:
    """One line per method: its speed in every class, the median over classes with its interval, tokens per forward, and
    what it needs to break even."""
    lines = []
    for method in bench.labels():
        own = [score for score in bench.scores if score.label == method]
        prompts = sum(score.prompts for score in own)
        tokens = sum(score.tokens_per_forward * score.prompts for score in own) / prompts
        fed = sum(score.rows * score.prompts for score in own) / prompts
        lines.append(
            {
                "method": method,
                **{score.group: f"{score.speed:.2f}×" for score in own},
                "median class": f"{bench.overall(method):.2f}×",
                "95 %": span(bench.interval(method)),
                "tokens/forward": f"{tokens:.2f}",
                "same text": f"{sum(s.same for s in own)} of {prompts}",
                "verdict": _verdict(bench, method, tokens, fed),
            }
        )
    return lines


LEGEND = (
    "95 %: interval of the median over the classes, by order statistics; methods whose intervals overlap are not told "
    "apart, whichever comes first"
)


def span(interval: tuple[float, float] | None) -> str:
    """An interval as a table says it; a dash where there are too few values for one."""
    return "-" if interval is None else f"{interval[0]:.2f}-{interval[1]:.2f}"


def _verdict(bench: Bench, label: str, tokens: float, fed: float) -> str:
    """Faster or slower than the control, where the interval tells them apart, and why a slower one is."""
    speed, interval = bench.overall(label), bench.interval(label)
    if label == bench.control:
        return "what row-invariant forwards cost; its text is held against that of the plain network"
    if interval is None:
        few = f"; {len(bench.classes())} classes are too few for an interval"
    elif interval[0] <= 1 <= interval[1]:
        return "not told apart from the control"
    else:
        few = ""
    if speed >= 1 + LIGHT:
        return f"faster{few}"
    if speed > 1 - LIGHT:
        return f"no difference{few}"
    need = bench.break_even(fed)
    if tokens < need:
        return f"slower: its forwards of about {fed:.0f} rows pay from {need:.2f} tokens on{few}"
    return f"slower: drafting costs more than its {tokens:.2f} tokens per forward save{few}"


def recorded(folder: Path = FOLDER) -> list[Bench]:
    """The benchmarks that ship, written by `decoding-explorer bench --by-class --json`; those with row-invariant
    forwards lie in a folder of their own. Raises msgspec.ValidationError for a damaged file."""
    return shipped(Bench, folder)
