"""The benchmark behind `decoding-explorer bench`: methods against their baseline on bundled prompts, in one process,
alternating.

All figures are wall seconds of whole runs after a warm-up run, the model loaded and warm. Ratios come from the same
session; nothing is compared across machines. `recording` is the wall time with full recording over that without; `loop`
is the wall time without recording over the time spent inside the model's forwards in the same runs, so it says what
everything around the model costs.

Medians stand with their 95 % intervals over the prompts (order statistics), shares with Wilson's; of fewer than six
prompts a median has none. Methods whose intervals overlap are not told apart.

Behind the methods stands the model's own curve where its kind has one (the plain method that declares `curve`, at each
of its values): a ratio to one token per forward says little while a plain threshold takes most of it."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import median
from typing import Any, Literal

import engines
from engines import ASSETS, median_interval, wilson
from engines.tasks import TASKS, check, recognise
from explorer.bench.quality import between
from explorer.figures.calls import target_calls, target_role
from explorer.figures.compare import fills_end, saved_at_end
from explorer.figures.samples import gained

PROMPTS = ASSETS / "tasks" / "chat_prompts.json"
LEGEND = (
    "forwards and wall are ratios to the baseline; recording = wall with full recording / without; loop = wall without "
    "recording / model seconds\nin brackets: 95 % interval over the prompts, of medians by order statistics (none for "
    "fewer than six), of shares Wilson's; methods whose intervals overlap are not told apart"
)
LEGEND_OF_CURVE = (
    "curve there = what the sweep answers exactly at as many tokens per forward (interpolated), '-' outside of it"
)


@dataclass(frozen=True)
class Figure:
    """One method on one set of prompts. Ratios are medians over prompts of medians over repeats; below 1 is faster than
    the baseline.

    intervals: of 95 %, by the name of the field that they belong to; a median of fewer than six prompts has none.
    checked: prompts whose answer has a check. params: those that are not at their defaults, the length of the answer
    left out. on_curve: a point of the model's own sweep. saved_by_end_rule: mean calls of a prompt that the baseline
    made after its end mark and a rule for the end, not the method, saved; fair_ratio: `forwards_ratio` without those
    calls of the baseline, None where there were none."""

    method: str
    baseline: str | None
    prompts: int
    tokens_per_forward: float
    forwards_ratio: float | None
    wall_ratio: float | None
    record_ratio: float
    bare_ratio: float
    exact: float | None
    same_text: float | None
    params: dict[str, Any]
    on_curve: bool = False
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    checked: int = 0
    saved_by_end_rule: float = 0.0
    fair_ratio: float | None = None


def prompts_for(model: str, n: int) -> list[str]:
    """Bundled prompts: held-out tasks for the embedded models, chat prompts for the others."""
    info = next((m for m in engines.list_models() if m.name == model), None)
    if info is not None and info.where == "embedded":
        streams = [task.generate("held-out", seed=2) for task in TASKS.values() if not task.many]
        return [next(streams[i % len(streams)]).prompt for i in range(n)]
    return [entry["prompt"] for entry in islice(json.loads(PROMPTS.read_text())["prompts"], n)]


def timed(
    slug: str, model: Any, prompt: str, detail: Literal["none", "full"], params: Mapping[str, Any]
) -> tuple[float, engines.Trace]:
    """Wall seconds of one run, and its trace."""
    began = time.perf_counter()
    trace = engines.run(slug, model, prompt, params=params, detail=detail)
    return time.perf_counter() - began, trace


Plan = tuple[engines.MethodInfo, dict[str, Any], bool]  # method, its own parameters, whether on the model's own curve


def plan(slugs: Sequence[str], model: Any, params: Mapping[str, Mapping[str, Any]] = {}) -> list[Plan]:
    """What `bench` measures, in order: the methods, then the points of the model's own curve. params: by slug. Raises
    UserError."""
    plain = next((info for info in engines.list_methods() if info.curve and info.kind == model.record.kind), None)
    infos = [engines.get_method(slug).info for slug in slugs]
    asked: list[Plan] = [(info, dict(params.get(info.slug, {})), False) for info in infos]
    return asked + [(plain, {name: value}, True) for name, value in sweep_of(plain) if plain]


def refuse_bad(runs: Iterable[tuple[str, Mapping[str, Any]]], model: Any, prompt: str) -> None:
    """Raises UserError for what a run would refuse, before the first one is made: a late refusal would cost what was
    measured by then."""
    for slug, params in runs:
        engines.stream(slug, model, prompt, params=params, detail="none").close()


def measured(
    plans: Sequence[Plan],
    model: Any,
    texts: Sequence[str],
    *,
    repeats: int,
    max_new_tokens: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[Figure]:
    """Measure every method and its baseline on a loaded model, then the model's own curve, a figure at a time, so that
    whoever stops it has those that came. progress: prompts done and in all, at the start and after each; a point of the
    curve that was measured as a method is done at once. Raises UserError, before anything is measured."""
    refuse_bad(((info.slug, _params(info, own, max_new_tokens)) for info, own, _ in plans), model, texts[0])
    progress(0, len(plans) * len(texts))
    figures: list[Figure] = []
    for i, (info, own, on_curve) in enumerate(plans):
        asked = _asked(info, own, figures) if on_curve else None
        report = lambda n, i=i: progress(i * len(texts) + n, len(plans) * len(texts))  # noqa: E731
        figure = asked or _figure(info, model, texts, repeats, max_new_tokens, own, report)
        if asked:
            report(len(texts))
        figures.append(replace(figure, params=own, on_curve=on_curve))
        yield figures[-1]


def _asked(plain: engines.MethodInfo, own: Mapping[str, Any], figures: Sequence[Figure]) -> Figure | None:
    """The curve's own method where it was asked for as it is, at the point that its default lies on."""
    ((name, value),) = own.items()
    if value != next(p.default for p in plain.params if p.name == name):
        return None
    return next((f for f in figures if f.method == plain.slug and not f.on_curve and not f.params), None)


def label(method: str, params: Mapping[str, Any]) -> str:
    """A method with its own parameters, as the table and the progress call it."""
    return " ".join([method, *(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in params.items())])


def sweep_of(plain: engines.MethodInfo | None) -> list[tuple[str, float]]:
    """Parameter and value of each point of a method's declared curve."""
    return [(plain.curve[0], value) for value in plain.curve[1]] if plain and plain.curve else []


def curve_there(figure: Figure, figures: Sequence[Figure]) -> float | None:
    """What the curve answers exactly at as many tokens per forward, between its two nearest points; None outside of it
    and where nothing is checked."""
    curve = [(f.tokens_per_forward, f.exact) for f in figures if f.on_curve and f.exact is not None]
    return between(figure.tokens_per_forward, curve)


def _params(info: engines.MethodInfo, own: Mapping[str, Any], length: int) -> dict[str, Any]:
    return {**own, **({"max_new_tokens": length} if any(p.name == "max_new_tokens" for p in info.params) else {})}


def _figure(
    info: engines.MethodInfo,
    model: Any,
    texts: Sequence[str],
    repeats: int,
    length: int,
    own: dict[str, Any],
    report: Callable[[int], None],
) -> Figure:
    params = _params(info, own, length)
    timed(info.slug, model, texts[0], "full", params)
    rows = list[dict[str, Any]]()
    for text in texts:
        rows.append(_row(info, model, text, repeats, params))
        report(len(rows))
    columns = {name: [row[name] for row in rows if row[name] is not None] for name in rows[0]}
    saved = sum(columns.pop("saved")) / len(rows)
    shares = {name: columns.pop(name) for name in ("exact", "same_text")}
    if not saved:
        del columns["fair_ratio"]
    measured: dict[str, Any] = {name: median(values) if values else None for name, values in columns.items()}
    measured |= {name: sum(of) / len(of) if of else None for name, of in shares.items()}
    intervals = {
        name: (interval.low, interval.high)
        for name, values in columns.items()
        if name not in ("record_ratio", "bare_ratio") and (interval := median_interval(values))
    }
    intervals |= {name: wilson(sum(of), len(of)) for name, of in shares.items() if of}
    return Figure(
        info.slug,
        info.baseline,
        len(texts),
        **measured,
        params=own,
        intervals=intervals,
        checked=len(shares["exact"]),
        saved_by_end_rule=saved,
    )


def _row(info: engines.MethodInfo, model: Any, text: str, repeats: int, params: Mapping[str, Any]) -> dict[str, Any]:
    """One prompt: ratios of medians over the repeats by the name of their figure, the marks, and the calls that a rule
    for the end saved."""
    full, none, base = [], [], []
    shared = {name: value for name, value in params.items() if name == "max_new_tokens"}
    for _ in range(repeats):
        full.append(timed(info.slug, model, text, "full", params))
        none.append(timed(info.slug, model, text, "none", params))
        base.append(timed(info.baseline, model, text, "none", shared) if info.baseline else none[-1])
    recorded, bare, plain_wall = (median(seconds for seconds, _ in runs) for runs in (full, none, base))
    trace, control, example = none[-1][1], base[-1][1], recognise(text)
    calls, plain = (sum(target_calls(step, target_role(run)) for step in run.steps) for run in (trace, control))
    saved = _saved_by_end_rule(full[-1][1], info, model, text, shared)
    return {
        "tokens_per_forward": gained(trace) / calls,
        "forwards_ratio": calls / plain if info.baseline else None,
        "wall_ratio": bare / plain_wall if info.baseline else None,
        "record_ratio": recorded / bare,
        "bare_ratio": bare / median(t.totals.model_seconds for _, t in none),
        "exact": check(example, trace.text).correct if example else None,
        "same_text": trace.text == control.text if info.baseline else None,
        "saved": saved,
        "fair_ratio": calls / (plain - saved),
    }


def _saved_by_end_rule(
    full: engines.Trace, info: engines.MethodInfo, model: Any, text: str, shared: Mapping[str, Any]
) -> int:
    """Calls that the baseline made after its end mark where the method has a rule for the end and the baseline none;
    the timed runs of the baseline record no writes, so it runs once more."""
    if not info.baseline or not fills_end(full):
        return 0
    saved = saved_at_end(full, engines.run(info.baseline, model, text, params=shared, detail="light"))
    return saved[0] if saved else 0


def table(figures: Sequence[Figure]) -> str:
    """The figures as lines of text, one method each, and behind them the model's own sweep."""
    head = (
        f"{'method':24s} {'baseline':10s} {'tokens/fwd':>16s} {'forwards':>16s} {'wall':>16s}  recording  loop "
        f"{'exact':>14s}  same text  curve there"
    )
    lines = [head, *(_line(f, _share(curve_there(f, figures))) for f in figures if not f.on_curve)]
    if curve := [f for f in figures if f.on_curve]:
        lines += [f"the model's own sweep of {', '.join(curve[0].params)}:", *(_line(f, "sweep") for f in curve)]
    lines += [_of_end(f) for f in figures if f.fair_ratio is not None]
    return "\n".join([*lines, LEGEND, *([LEGEND_OF_CURVE] if curve else [])])


def _line(f: Figure, there: str) -> str:
    name = label(f.method, f.params)
    pace, forwards, wall = (
        _ratio(getattr(f, attribute), f.intervals.get(attribute))
        for attribute in ("tokens_per_forward", "forwards_ratio", "wall_ratio")
    )
    exact = _share(f.exact) + (" ({:.0%}-{:.0%})".format(*f.intervals["exact"]) if "exact" in f.intervals else "")
    return (
        f"{name:24s} {f.baseline or '-':10s} {pace:>16s} {forwards:>16s} {wall:>16s}  "
        f"{f.record_ratio:9.3f} {f.bare_ratio:5.3f} {exact:>14s}  {_share(f.same_text):>9s}  {there:>11s}"
    )


def _of_end(f: Figure) -> str:
    return (
        f"{f.method}: {f.saved_by_end_rule:.1f} model calls a prompt that {f.baseline} makes after its end mark are "
        "saved by the rule for the end, not by the method; forwards without those "
        f"{_ratio(f.fair_ratio, f.intervals.get('fair_ratio'))}"
    )


def _ratio(value: float | None, interval: tuple[float, float] | None = None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" + (" ({:.2f}-{:.2f})".format(*interval) if interval else "")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
