"""Do the names exist? Methods on prompts that end at a dot in real Python files, held against what a static analyser
lists there: `decoding-explorer bench --names`."""

import platform
import re
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import msgspec

import engines
from engines import ASSETS, ModelRecord, wilson
from engines.tasks import Dereference, Dereferences
from explorer.bench import stopped_early
from explorer.bench.measure import refuse_bad

FOLDER = ASSETS / "bench" / "names"
LENGTH = 12  # tokens of an answer; names that are longer are counted as cut off
SEED = 0  # of the prompts
NAME = re.compile(r"\w*")


class Lane(msgspec.Struct, frozen=True):
    """One method on all prompts: how many names exist, are the author's, and were cut off by the length of the answer
    (those count as not existing). seconds: of each question to the analyser, none where it was not asked. mass: what
    the model gave the tokens that can go on with a name, at each dot; median."""

    method: str
    params: dict[str, Any]
    prompts: int
    exist: int
    same: int
    cut: int
    seconds: list[float] = []
    mass: float | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval (Wilson) of the share that exist."""
        return wilson(self.exist, self.prompts)


class Names(msgspec.Struct, frozen=True):
    """A measurement in a file. asked: places that the analyser was asked about to find the prompts; wrong: where it
    knew names and the author's was none of them. command, date: what was typed, and when. partial: it was stopped; the
    lanes are those that were finished."""

    model: ModelRecord
    python: str
    seed: int
    asked: int
    wrong: int
    lanes: list[Lane]
    code: str = ""
    machine: str = ""
    command: str = ""
    date: str = ""
    partial: bool = False


def bench_names(
    plans: Sequence[tuple[str, Mapping[str, Any]]],
    model: Any,
    sample: Dereferences,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Names:
    """Run each method on each prompt. At Ctrl-C it returns the methods that were finished, as partial; raises
    KeyboardInterrupt where there is none."""
    lanes: list[Lane] = []
    machine = ""
    refuse_bad(
        ((slug, {**params, "max_new_tokens": LENGTH}) for slug, params in plans), model, sample.prompts[0].prompt
    )
    progress(0, len(plans) * len(sample.prompts))
    with stopped_early(lanes) as interrupts:
        for i, (slug, params) in enumerate(plans):
            given = {**params, "max_new_tokens": LENGTH}
            runs = []
            for k, dereference in enumerate(sample.prompts):
                runs.append(engines.run(slug, model, dereference.prompt, params=given, detail="light"))
                machine = runs[-1].header.machine
                progress(i * len(sample.prompts) + k + 1, len(plans) * len(sample.prompts))
            lanes.append(outcome_of(slug, params, runs, sample.prompts))
    version, code, partial = platform.python_version(), engines.code_version(), bool(interrupts)
    return Names(model.record, version, SEED, sample.asked, sample.wrong, lanes, code, machine, partial=partial)


def outcome_of(slug: str, params: Mapping[str, Any], runs: Sequence[Any], prompts: Sequence[Dereference]) -> Lane:
    """What the runs came to."""
    matches = [NAME.match(_raw(run)) for run in runs]
    names = [match[0] if match else "" for match in matches]
    cut = [len(name) == len(_raw(run)) and len(run.steps) == LENGTH for name, run in zip(names, runs, strict=True)]
    rows = list(zip(names, cut, prompts, strict=True))
    asked = [(step.records.get("completions", {}).get("source"), step) for run in runs for step in run.steps]
    seconds = [i.end - i.start for source, step in asked if source for i in step.intervals if i.track == source]
    first = [run.steps[0].records.get("completions", {}) for run in runs if run.steps]
    masses = [record["mass"] for record in first if "mass" in record]
    return Lane(
        slug,
        dict(params),
        len(rows),
        exist=sum(not short and name in dereference.names for name, short, dereference in rows),
        same=sum(not short and name == dereference.name for name, short, dereference in rows),
        cut=sum(cut),
        seconds=[round(duration, 4) for duration in seconds],
        mass=round(median(masses), 6) if masses else None,
    )


def _raw(run: Any) -> str:
    """The answer with the spaces that it begins with: a name has none there."""
    known = {piece.id: piece.text for piece in run.pieces if piece.kind == "text"}
    return "".join(known.get(token, "\0") for token in run.output_ids)


def rows(names: Names) -> list[dict[str, Any]]:
    """The lanes as a table says them."""
    return [
        {
            "method": " ".join([outcome.method, *(f"{k}={v}" for k, v in outcome.params.items())]),
            "prompts": outcome.prompts,
            "names that exist": f"{outcome.exist / outcome.prompts:.0%}",
            "95 %": "{:.0%}-{:.0%}".format(*outcome.interval),
            "the author's": f"{outcome.same / outcome.prompts:.0%}",
            "cut off": outcome.cut,
            "legal mass at the dot": "-" if outcome.mass is None else f"{outcome.mass:.1%}",
            "analyser, median": f"{1000 * median(outcome.seconds):.0f} ms" if outcome.seconds else "-",
        }
        for outcome in names.lanes
    ]
