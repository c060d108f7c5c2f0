"""The benchmark behind `decoding-explorer bench`: methods against their baseline on bundled prompts, in one process, alternating.

All figures are wall seconds of whole runs after a warm-up run, the model loaded and warm. Ratios come from the same session; nothing is
compared across machines. `record` is the time of full recording against none, `bare` is the wall time over forwards times the median
time of a forward measured in the same runs (model seconds / forwards), so it says what the loop around the model costs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

import engines
from engines.tasks import TASKS, check, recognise

PROMPTS = Path(__file__).resolve().parents[2] / "assets" / "tasks" / "chat_prompts.json"


@dataclass(frozen=True)
class Figure:
    """One method on one set of prompts. Ratios are medians over prompts of medians over repeats; below 1 is faster than the baseline."""

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


def prompts_for(model: str, n: int) -> list[str]:
    """Bundled prompts: held-out tasks for the embedded models, chat prompts for the others."""
    info = next((m for m in engines.list_models() if m.name == model), None)
    if info is not None and info.where == "embedded":
        streams = [task.generate("held-out", seed=2) for task in TASKS.values() if task.slug != "shuffle"]
        return [next(streams[i % len(streams)]).prompt for i in range(n)]
    return [entry["prompt"] for entry in islice(json.loads(PROMPTS.read_text())["prompts"], n)]


def timed(slug: str, model: engines.Run | object, prompt: str, detail: str, params: dict[str, object]) -> tuple[float, engines.Trace]:
    """Wall seconds of one run, and its trace."""
    began = time.perf_counter()
    trace = engines.run(slug, model, prompt, params=params, detail=detail)  # type: ignore[arg-type]
    return time.perf_counter() - began, trace


def bench(slugs: Sequence[str], model_name: str, *, dtype: str | None = None, prompts: int = 6, repeats: int = 3, max_new_tokens: int = 64) -> list[Figure]:
    """Measure every method and its baseline on the model. Raises UserError for names that do not fit."""
    model = engines.load_model(model_name, dtype=dtype)
    texts = prompts_for(model_name, prompts)
    return [_figure(engines.get_method(slug).info, model, texts, repeats, max_new_tokens) for slug in slugs]


def _figure(info: engines.MethodInfo, model: object, texts: list[str], repeats: int, length: int) -> Figure:
    params = {p.name: length for p in info.params if p.name == "max_new_tokens"}
    rows, marks, same = [], [], []
    timed(info.slug, model, texts[0], "full", params)
    for text in texts:
        walls: dict[str, list[float]] = {"full": [], "none": [], "base": []}
        for _ in range(repeats):
            wall, full = timed(info.slug, model, text, "full", params)
            walls["full"].append(wall)
            wall, none = timed(info.slug, model, text, "none", params)
            walls["none"].append(wall)
            if info.baseline:
                wall, base = timed(info.baseline, model, text, "none", params)
                walls["base"].append(wall)
        total = none.totals
        rows.append(
            (
                total.tokens / total.forwards,
                total.forwards / base.totals.forwards if info.baseline else None,
                median(walls["none"]) / median(walls["base"]) if info.baseline else None,
                median(walls["full"]) / median(walls["none"]),
                (total.model_seconds + total.method_seconds) / total.model_seconds,
            )
        )
        if example := recognise(text):
            marks.append(check(example, full.text).correct)
        if info.baseline:
            same.append(full.text == base.text)
    columns = [median(column) if column[0] is not None else None for column in zip(*rows, strict=True)]
    return Figure(
        info.slug,
        info.baseline,
        len(texts),
        *columns,  # type: ignore[arg-type]
        exact=sum(marks) / len(marks) if marks else None,
        same_text=sum(same) / len(same) if same else None,
    )


def table(figures: Sequence[Figure]) -> str:
    """The figures as lines of text, one method each."""
    head = f"{'method':18s} {'baseline':10s} tokens/fwd  forwards  wall  recording  loop  exact  same text"
    lines = [
        f"{f.method:18s} {f.baseline or '-':10s} {f.tokens_per_forward:10.2f}  {_ratio(f.forwards_ratio):>8s} {_ratio(f.wall_ratio):>5s}  "
        f"{f.record_ratio:9.3f} {f.bare_ratio:5.3f}  {_share(f.exact):>5s}  {_share(f.same_text):>9s}"
        for f in figures
    ]
    return "\n".join([head, *lines])


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
