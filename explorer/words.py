"""A trace in words, for the terminal and the static site, safe to print whatever it holds."""

import json
import unicodedata
from collections.abc import Iterator
from typing import Any

from engines import Step, Trace
from explorer.figures.hindsight import hindsight, summary
from explorer.figures.metrics import measure

Fields = dict[str, Any]
COSTS = ("forwards", "work", "tokens_fed", "model_seconds", "method_seconds")


def heading(trace: Trace) -> Iterator[str]:
    """Who decoded what, and the sums."""
    h = trace.header
    seed = "seed not recorded" if "seed" in h.missing else f"seed {h.seed}"
    yield printable(f"{h.title} ({h.method}) with {', '.join(f'{m.role} {m.name}' for m in h.models)}, {seed}")
    if h.missing:
        yield printable(
            f"not recorded{f' by {h.imported_from}' if h.imported_from else ''}: {', '.join(h.missing)}".replace(
                "_", " "
            )
        )
    yield "prompt: " + printable(h.prompt)
    yield "params: " + printable(", ".join(f"{name}={value}" for name, value in h.params.items()))
    metrics = {metric.name: metric for metric in measure(trace)}
    names = {
        "steps": "steps",
        "target_calls": metrics["target_calls"].label.lower(),
        **{name: metric.label.lower() for name, metric in metrics.items() if name.startswith("calls_")},
        "tokens": "tokens",
        "model_seconds": "model",
        "method_seconds": "method",
    }
    yield ", ".join(
        f"{words} {metrics[name].shown}" if metrics[name].absent else f"{metrics[name].shown} {words}"
        for name, words in names.items()
    )
    yield f"hindsight: {summary(hindsight(trace))}"


def step_lines(trace: Trace, step: Step, detailed: bool = False) -> Iterator[str]:
    """One step as a person reads it: its cost, what it wrote, what decided, the method's own sentence."""
    fields = step_fields(trace, step, detailed)
    calls = ", ".join(f"{role} {n}" for role, n in step.forwards.items()) or "none"
    lost = trace.header.missing
    fed = "positions fed not recorded" if "tokens_fed" in lost else f"{step.tokens_fed} positions fed"
    took = "time not recorded" if "model_seconds" in lost else f"{1000 * step.model_seconds:.1f} ms"
    yield f"step {step.index}: calls {'not recorded' if 'forwards' in lost else printable(calls)}; {fed}; {took}"
    for name in ("removed", "inserted"):
        if places := fields.get(name):
            yield f"  {name}: position{'s' if len(places) > 1 else ''} {', '.join(map(str, places))}"
    for commit in fields.get("commits", ()):
        chance = "" if commit["probability"] is None else f" p={commit['probability']:.3f}"
        yield (
            f"  {commit['position']:>4} {printable(json.dumps(commit['text'], ensure_ascii=False))} "
            f"{printable(commit['cause'])}{chance}"
        )
    if tree := fields.get("tree"):
        emitted = printable(json.dumps(tree["emitted"], ensure_ascii=False))
        yield f"  tree: {tree['drafted']} drafted, {tree['accepted']} accepted, emitted {emitted}"
    if choice := fields.get("choice"):
        yield printable(
            f"  chose {choice['chosen']}: {choice['quantity']} {cell(choice['value'])} against {choice['threshold']:g}"
        )
    for name, value in step.facts.items():
        yield printable(f"  {name} = {value:g}")
    for lane in fields.get("scores", ()):
        values = " ".join("." if v is None else f"{v:.2f}" for v in lane["values"])
        yield printable(f"  {lane['name']} [{lane['unit']}] from {lane['start']}: {values}")
    for row in fields.get("candidates", ()):
        likely = ", ".join(f"{json.dumps(text, ensure_ascii=False)} {p:.2f}" for text, p in row["likely"])
        yield printable(f"  {row['position']:>4} likely: {likely}")
    if step.note:
        yield f"  {printable(step.note)}"


def step_fields(trace: Trace, step: Step, detailed: bool = False) -> Fields:
    """One step as plain values with token texts; the packed arrays only where `detailed`."""
    text = {piece.id: piece.text for piece in trace.pieces}
    ids = {piece.id: piece.token_id for piece in trace.pieces}
    fields: Fields = {"step": step.index}
    fields |= {name: None if name in trace.header.missing else getattr(step, name) for name in COSTS}
    if c := step.commits:
        chances = c.probabilities or [None] * len(c.tokens)
        rows = zip(c.positions, c.tokens, c.causes, chances, strict=True)
        fields["commits"] = [
            {"position": at, "token": ids.get(t, t), "text": text.get(t, ""), "cause": cause, "probability": p}
            for at, t, cause, p in rows
        ]
        fields |= {name: places for name in ("removed", "inserted") if (places := getattr(c, name))}
    if step.tree:
        emitted = [text[t] for t in step.tree.emitted]
        fields["tree"] = {
            "drafted": len(step.tree.parents) - 1,
            "accepted": step.tree.why.count("accepted"),
            "emitted": emitted,
        }
    if step.choice:
        fields["choice"] = {name: getattr(step.choice, name) for name in ("chosen", "quantity", "value", "threshold")}
    if detailed and step.scores:
        fields["scores"] = [
            {
                "name": s.name,
                "unit": s.unit,
                "start": s.start,
                "values": [None if v != v else round(v, 4) for v in s.values.array().tolist()],
            }
            for s in step.scores
        ]
    if detailed and (focus := step.candidates):
        likely = zip(focus.positions, focus.tokens.array().tolist(), focus.probabilities.array().tolist(), strict=True)
        fields["candidates"] = [
            {"position": at, "likely": [(text[t], round(p, 4)) for t, p in zip(ts, ps, strict=True)]}
            for at, ts, ps in likely
        ]
    return fields | {"facts": step.facts, "note": step.note}


def cell(value: Any) -> str:
    """A value as a short word: nothing for None, three significant digits for a float."""
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else printable(str(value))


def printable(text: str) -> str:
    """The text with control characters shown as escapes, so that a trace from elsewhere cannot drive the terminal."""
    return "".join(
        c if c == " " or unicodedata.category(c)[0] not in "CZ" else c.encode("unicode_escape").decode("ascii")
        for c in text
    )
