"""What the page's tables say, as JSON for `parts.table`: results, all numbers, methods, and how numbers are obtained;
and how a run stands against its plain control: sentences, each of which opens the receipt of what it says."""

from collections.abc import Mapping
from typing import Any

import msgspec

from engines import Trace, list_methods
from explorer import papers
from explorer.bench import quality
from explorer.figures.bits import rows_note
from explorer.figures.compare import (
    Certificate,
    Pace,
    Tie,
    certificate,
    control_of,
    pace,
    same_forwards,
    saved_at_end,
    whole_run,
)
from explorer.figures.definitions import DEFINITIONS, fill
from explorer.figures.handed import of_pairs
from explorer.figures.metric import Metric
from explorer.figures.metrics import facts, measure, receipt
from explorer.figures.metrics import numbers as numbers_of
from explorer.figures.names import apart, name_of, title_of
from explorer.figures.noise import too_busy
from explorer.figures.verdict import cut_at, finished, judge
from explorer.page.parts import fresh
from explorer.papers.tables import Table

HEADLINE = ("tokens", "target_calls", "tokens_per_call", "work", "busy_seconds", "tokens_per_second")
MAX_SHOWN = 4000  # characters of an output; the player shows all
ENDINGS = {"stopped": "(stopped)", "budget": "(budget used up)", "failed": "(failed)"}


def results(traces: Mapping[int, Trace], ties: Mapping[int, Tie] | None = None, judged: bool = False) -> str:
    """One row per player: its output, the task's mark where the prompt is one of ours, the headline numbers, and how it
    stands against its control where that is in a player too. ties: slot -> the logits at the place where a lossless run
    parts from its control. judged: whether a verdict on their speed from repeated runs stands on the page."""
    rows: list[list[Any]] = []
    controls = {slot: control_of(trace, traces) for slot, trace in traces.items()}
    beside = ["Against its control"] if any(controls.values()) else []
    measured = {slot: {metric.name: metric for metric in measure(trace)} for slot, trace in traces.items()}
    heads = [_heading(name, measured) for name in HEADLINE] if traces else []
    columns = ["Player", "Output", "Task check", *heads, *beside]
    for slot, trace in sorted(traces.items()):
        metrics = measured[slot]
        output = _output(trace)
        last = [against(trace, controls[slot], (ties or {}).get(slot), len(rows), judged)] if beside else []
        figures = [_figure(metrics[name], len(rows)) for name in HEADLINE]
        name, tells = f"{slot + 1} · {title_of(trace)}", apart(trace, traces.values())
        rows.append(
            [
                {"text": name, "sub": tells} if tells else name,
                # a recorded run is played before its end is told
                *({**cell, "after": slot} for cell in (output, verdict(trace), *figures, *last)),
            ]
        )
    runs = [facts(trace) for _, trace in sorted(traces.items())]
    caption = "Outputs and headline numbers. Click a number, or press Enter on it, to see how it was obtained."
    pairs = msgspec.to_builtins(of_pairs(traces.values()))  # for the players
    empty = "Nothing has been run or loaded yet."
    return fresh(caption=caption, columns=columns, rows=rows, runs=runs, pairs=pairs, empty=empty)


def _heading(name: str, measured: Mapping[int, Mapping[str, Metric]]) -> str:
    """What a number is called in all rows: "Model calls" where no run has a second model, else its usual name."""
    labels = {metrics[name].label for metrics in measured.values() if name in metrics}
    label = labels.pop() if len(labels) == 1 else DEFINITIONS[name].label
    return f"{label} ({DEFINITIONS[name].kind})"


def ended(trace: Trace) -> str:
    """What stands behind a text that did not come to its own end."""
    cut = cut_at(trace)
    return ENDINGS.get(trace.end.reason, "") if cut is None else f"(cut at {cut} tokens: raise max_new_tokens)"


def _output(trace: Trace) -> dict[str, Any]:
    """What a run wrote, and how it ended."""
    text, end = trace.text[:MAX_SHOWN], ended(trace)
    cell: dict[str, Any] = {"text": f"{text} {end}" if end else text, "long": True}
    return cell | ({"parts": [{"text": text, "own": True}, {"text": end}]} if end else {})


def _figure(metric: Metric | None, run: int) -> dict[str, Any]:
    """A cell whose number opens its receipt; run: the place of its run in the table's `runs`."""
    return {"text": "–"} if metric is None else {"text": metric.shown, "receipt": receipt(metric), "run": run}


def verdict(trace: Trace) -> dict[str, Any]:
    """Right or wrong by the task's exact checker; nothing where the prompt is none of the tasks."""
    mark = judge(trace)
    if not finished(trace):
        return {"text": "not finished", "quiet": True}
    if mark is None:
        return {"text": "not a checked task", "quiet": True}
    if mark.right:
        return {"text": "right", "mark": "right"}
    if mark.word is None:
        wrong = "It is wrong."
    elif mark.step is None:
        wrong = f"Wrong from word {mark.word + 1} on."
    else:
        wrong = f"Wrong from word {mark.word + 1} on, which step {mark.step + 1} wrote."
    expected = "Right would be, for example:" if mark.many else "Expected:"
    parts = [{"text": wrong}, {"text": expected}, {"text": mark.expected, "own": True}]
    return {"text": f"{wrong} {expected} {mark.expected}", "mark": "wrong", "long": True, "parts": parts}


def numbers(traces: Mapping[int, Trace]) -> str:
    """Every metric of every player side by side, with its kind, formula and conditions."""
    by_slot = {slot: {metric.name: metric for metric in measure(trace)} for slot, trace in sorted(traces.items())}
    every: dict[str, Metric] = {}
    for metrics in by_slot.values():
        every |= {name: metric for name, metric in metrics.items() if name not in every}
    columns = [
        "Number",
        *(f"{slot + 1} · {name_of(traces[slot], traces.values())}" for slot in by_slot),
        "Obtained",
        "Formula",
        "Conditions",
    ]
    rows = [
        [
            metric.label,
            *(_figure(metrics.get(name), run) for run, metrics in enumerate(by_slot.values())),
            metric.kind,
            metric.formula,
            _conditions(name, by_slot),
        ]
        for name, metric in every.items()
    ]
    runs = [facts(trace) for _, trace in sorted(traces.items())]
    return fresh(
        caption="All numbers of the traces in the players.",
        columns=columns,
        rows=rows,
        runs=runs,
        empty="Nothing has been run or loaded yet.",
    )


def _conditions(name: str, by_slot: Mapping[int, Mapping[str, Metric]]) -> dict[str, Any]:
    conditions = dict.fromkeys(
        metrics[name].conditions for metrics in by_slot.values() if name in metrics and metrics[name].conditions
    )
    return {"text": "\n".join(conditions), "quiet": True}


def broken(methods: list[Any], unread: Mapping[str, str]) -> str:
    """Method files, papers and gallery traces that do not load, with the reason; shown, never hidden."""
    rows = [[method.module.rsplit(".", 1)[-1], method.reason] for method in methods]
    rows += [[f"papers/{name}", why] for name, why in papers.faults().items()]
    rows += [[f"trace {name}", why] for name, why in unread.items()]
    return fresh(
        caption="Not working in this installation.",
        columns=["File", "Reason"],
        rows=rows,
        empty="Every method file, every paper and every recorded trace loads.",
    )


def models(zoo: tuple[Any, ...]) -> str:
    """The models of the zoo."""
    rows = [[model.name, model.title, model.kind, model.note] for model in zoo]
    return fresh(
        caption="Models that are known by name; a hub id or a folder can be typed too where this page runs at home.",
        columns=["Name", "Model", "Kind", "Note"],
        rows=rows,
        sort=True,
    )


def sweep(recorded: quality.Recorded) -> str:
    """A recorded sweep: one row per point, with what the model's own curve has at as many forwards."""
    lines = quality.rows(recorded.points)
    about = (
        f"{recorded.model.name} (weights {recorded.model.sha256[:12]}), {recorded.prompts_per_task} held-out prompts "
        f"of each of {len(recorded.tasks)} tasks."
    )
    return fresh(
        caption=f"Measured: {about}",
        sort=True,
        columns=list(lines[0]),
        rows=[[str(value) for value in (line | {"method": labelled(line["method"])}).values()] for line in lines],
    )


def listed(table: Table) -> str:
    """A table of the tab *Docs*, which is English."""
    rows = [
        [cell if isinstance(cell, str) else {"text": cell.text, "href": _address(cell.to)} for cell in row]
        for row in table.rows
    ]
    return fresh(columns=table.columns, rows=rows, filters=table.filters, sort=True, lang="en")


def _address(to: str) -> str:
    return to if to.startswith("https://") else f"?doc={to}"


def labelled(label: str) -> str:
    """A method's label, a slug with or without its settings, as a person reads it: "RASD (floor=0.25)"."""
    slug, blank, settings = label.partition(" ")
    titles = {info.slug: info.title for info in list_methods()}
    return f"{titles.get(slug, slug)}{blank}{settings}"


def paper_link(paper: str) -> str | None:
    """The address of an `arXiv:` reference."""
    number = paper.removeprefix("arXiv:")
    return (
        f"https://arxiv.org/abs/{number}"
        if paper.startswith("arXiv:") and number.replace(".", "").replace("v", "").isdigit()
        else None
    )


def against(trace: Trace, control: Trace | None, tie: Tie | None, run: int, judged: bool = False) -> dict[str, Any]:
    """Whether a run that claims the control's text has it, and which was faster per token and why (measured in these
    two runs). run: the place of the run in the table's `runs`; tie: the logits where the texts part.
    judged: whether a verdict on their speed from repeated runs stands on the page; single runs are none beside it."""
    if control is None:
        return {"text": "–", "quiet": True}
    if trace.end.reason == "failed":
        return {"text": "failed: no verdict", "quiet": True}
    name = control.header.title
    mark: dict[str, str] = {}
    parts: list[dict[str, Any]] = []
    if trace.header.lossless and trace.header.params.get("temperature", 0):
        parts.append(
            {"text": "Above temperature 0 it draws as plain sampling does, so the texts need not be the same."}
        )
    elif trace.header.lossless:
        held = certificate(trace, control, tie)
        parts.append({"text": held.sentence, "receipt": _of_text(held, name, rows_note(trace.header.models[0]))})
        if held.at is None or same_forwards(trace, control):
            mark = {"mark": "right" if held.at is None else "wrong"}
        else:
            parts.append({"text": "Only one of the two has row-invariant forwards, which round otherwise."})
    if past := saved_at_end(trace, control):
        parts.append({"text": _of_end(*past), "receipt": _of_end_receipt(*past)})
    ratio, busy = whole_run(trace, control), too_busy(trace, control)
    if judged:
        parts.append({"text": "Its speed is measured above, in repeated runs."})
    elif ratio and busy:
        parts.append({"text": "This machine was too busy to tell which is faster: run both again."})
    elif ratio:
        sentence = f"Tokens per second of the whole run, prompt included: {ratio:.2f}×."
        parts.append({"text": sentence, "receipt": _of_rates(ratio, trace, control)})
    if not judged and not busy and (speed := pace(trace, control)):  # its medians are of the same seconds
        parts.append({"text": speed.sentence, "receipt": _of_pace(speed)})
    if not parts:
        return {"text": f"{name} is shown with it.", "quiet": True}
    lead = f"{name}:"
    return {"text": " ".join([lead, *(each["text"] for each in parts)]), "lead": lead, "parts": parts, "run": run} | {
        "long": True,
        **mark,
    }


def _of_text(held: Certificate, name: str, rows: str) -> dict[str, Any]:
    """rows: what was measured of rows beside each other, "" where nothing was."""
    same = held.tokens if held.at is None else held.at
    limited = "compared only as far as both runs go: they were asked for different lengths, or one was stopped"
    rounded = f"in {held.dtype}; a verifying call feeds several rows at once, and below float32 that moves logits"
    return _derived(
        label=f"Text against that of {name}",
        value="the same" if held.at is None else f"parts at token {held.at + 1}",
        formula=DEFINITIONS["same_tokens"].formula,
        terms=f"{same} of {held.tokens} tokens are the same"
        + ("" if held.at is None else ", up to the first that differs"),
        note=limited if held.limited else rows or rounded,
    )


def _derived(**receipt: Any) -> dict[str, Any]:
    """The receipt of a number that is derived from two runs."""
    return {"kind": "derived", "counts": [], **receipt}


def _of_end(after: int, calls: int) -> str:
    if after == 1:
        return (
            f"1 of its {calls} model calls wrote only what is after its end mark: the rule for the end saves it, "
            "not the method."
        )
    return (
        f"{after} of its {calls} model calls wrote only what is after its end mark: the rule for the end saves "
        "those, not the method."
    )


def _of_end_receipt(after: int, calls: int) -> dict[str, Any]:
    return _derived(
        label="Model calls of the control after its end",
        value=str(after),
        formula="calls of the control whose step came when everything up to its first end mark was written",
        terms=f"{after} of {calls}",
        note="this run filled the rest of its board by such a rule, the control has none; off, the pair differs in "
        "the method alone",
    )


def _of_rates(ratio: float, trace: Trace, control: Trace) -> dict[str, Any]:
    rate = DEFINITIONS["tokens_per_second"]
    here, there = (fill(rate.terms, numbers_of(run)) for run in (trace, control))
    return _derived(
        label=f"Tokens per second over those of {control.header.title}",
        value=f"{ratio:.2f}×",
        formula=f"{rate.formula}, of this run and of the control; the first ÷ the second",
        terms=f"({here}) ÷ ({there})",
        counts=rate.counts,
        note="the reading of the prompt is inside; one run of each on the machine below: no benchmark",
    )


def _of_pace(speed: Pace) -> dict[str, Any]:
    return _derived(
        label="Speed by the median round, prompt left out",
        value=f"{speed.speed:.2f}×",
        formula="mean tokens per round ÷ (median seconds of a round ÷ median seconds of a token of the control)",
        terms=f"{speed.gained:.2f} ÷ ({1000 * speed.round_seconds:.1f} ms ÷ {1000 * speed.plain_seconds:.1f} ms)",
        note="the first step, which reads the prompt, is left out on both sides; medians leave slow rounds out",
    )
