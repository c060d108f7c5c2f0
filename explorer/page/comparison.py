"""How a run stands against its plain control, as a cell of the results: sentences, each of which opens the receipt of
what it says."""

from typing import Any

from engines import Trace
from explorer.figures.bits import rows_note
from explorer.figures.compare import Certificate, Pace, Tie, certificate, pace, same_forwards, saved_at_end, whole_run
from explorer.figures.definitions import DEFINITIONS, fill
from explorer.figures.metrics import numbers
from explorer.figures.noise import too_busy


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
    return {
        "label": f"Text against that of {name}",
        "kind": "derived",
        "value": "the same" if held.at is None else f"parts at token {held.at + 1}",
        "formula": DEFINITIONS["same_tokens"].formula,
        "terms": f"{same} of {held.tokens} tokens are the same"
        + ("" if held.at is None else ", up to the first that differs"),
        "counts": [],
        "note": "compared only as far as both runs go: they were asked for different lengths, or one was stopped"
        if held.limited
        else rows
        or f"in {held.dtype}; a verifying call feeds several rows at once, and below float32 that moves logits",
    }


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
    return {
        "label": "Model calls of the control after its end",
        "kind": "derived",
        "value": str(after),
        "formula": "calls of the control whose step came when everything up to its first end mark was written",
        "terms": f"{after} of {calls}",
        "counts": [],
        "note": "this run filled the rest of its board by such a rule, the control has none; off, the pair differs in "
        "the method alone",
    }


def _of_rates(ratio: float, trace: Trace, control: Trace) -> dict[str, Any]:
    rate = DEFINITIONS["tokens_per_second"]
    here, there = (fill(rate.terms, numbers(run)) for run in (trace, control))
    return {
        "label": f"Tokens per second over those of {control.header.title}",
        "kind": "derived",
        "value": f"{ratio:.2f}×",
        "formula": f"{rate.formula}, of this run and of the control; the first ÷ the second",
        "terms": f"({here}) ÷ ({there})",
        "counts": rate.counts,
        "note": "the reading of the prompt is inside; one run of each on the machine below: no benchmark",
    }


def _of_pace(speed: Pace) -> dict[str, Any]:
    return {
        "label": "Speed by the median round, prompt left out",
        "kind": "derived",
        "value": f"{speed.speed:.2f}×",
        "formula": "mean tokens per round ÷ (median seconds of a round ÷ median seconds of a token of the control)",
        "terms": f"{speed.gained:.2f} ÷ ({1000 * speed.round_seconds:.1f} ms ÷ {1000 * speed.plain_seconds:.1f} ms)",
        "counts": [],
        "note": "the first step, which reads the prompt, is left out on both sides; medians leave slow rounds out",
    }
