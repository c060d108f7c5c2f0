"""What a comparison says in one line per run: its text against the run it is held against, the mark of a checked task,
speed, calls and accepted drafts, each with how it was obtained. The player's strip says the same while runs play."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engines import Trace
from explorer.figures.calls import in_words, target_role
from explorer.figures.compare import answer_ids, control_of, first_difference
from explorer.figures.definitions import DEFINITIONS, Kind, fill
from explorer.figures.metrics import numbers
from explorer.figures.noise import BUSY, WHY, too_busy
from explorer.figures.samples import gained
from explorer.figures.verdict import judge


class Part(msgspec.Struct, frozen=True):
    """One thing said of a run. mark: right or wrong where it is a judgement."""

    text: str
    kind: Kind
    formula: str
    terms: str = ""
    mark: str = ""


def basis_of(traces: Sequence[Trace]) -> Trace:
    """The run that the others are held against: a control of one of them, else the first."""
    numbered = dict(enumerate(traces))
    controls = [control_of(trace, numbered) for trace in traces]
    return next((one for one in controls if one is not None), next(filter(_whole, traces), traces[0]))


def _whole(trace: Trace) -> bool:
    return trace.end.reason != "failed"


def parts(trace: Trace, basis: Trace) -> list[Part]:
    """What is said of a run; of the basis itself what needs no other run. One that failed is held against none."""
    found = [_task(trace), _drafts(trace)]
    if _whole(trace) and _whole(basis):
        found[1:1] = [None if trace is basis else _text(trace, basis), _speed(trace, basis)]
    if "forwards" not in trace.header.missing:
        said = in_words(trace.steps, target_role(trace))
        found.append(Part(said, "measured", DEFINITIONS["target_calls"].formula))
    return [one for one in found if one is not None]


def _task(trace: Trace) -> Part | None:
    mark = judge(trace)
    if mark is None:
        return None
    how = "the task's exact check of the text"
    if mark.right:
        return Part("right", "measured", how, mark="right")
    return Part(f"wrong; expected {mark.expected}", "measured", how, mark="wrong")


def _text(trace: Trace, basis: Trace) -> Part | None:
    name = basis.header.title
    if trace.header.prompt != basis.header.prompt:
        return Part(f"another prompt than {name}", "measured", "the prompts as they were given")
    own = _spelling(trace)
    if own is not None and own == _spelling(basis):
        a, b = answer_ids(trace), answer_ids(basis)
        what, formula = "token", "the emitted ids before the first end mark, in order"
    else:
        a, b = [ord(c) for c in trace.text], [ord(c) for c in basis.text]
        what, formula = "character", "the texts, in order: the runs do not have the same tokens, or none with ids"
    at = first_difference(a, b)
    if at is None:
        return Part(f"same text as {name}", "derived", formula, f"{len(a)} of {len(b)} {what}s are the same", "right")
    said = f"parts from {name} at {what} {at + 1}"
    return Part(said, "derived", formula, f"{at} {what}s are the same before it")


def _spelling(trace: Trace) -> tuple[str, str] | None:
    """The weights and the tokenizer whose ids a run has; None where they are not known."""
    model = next(iter(trace.header.models), None)
    known = model is not None and model.sha256 and not {"token_ids", "tokens"} & set(trace.header.missing)
    return (model.sha256, model.tokenizer) if model and known else None


def place(trace: Trace) -> tuple[str, ...]:
    """Where times were clocked: times of two places are no ratio."""
    if trace.header.arrivals:
        return (trace.header.imported_from,)
    return (trace.header.machine, *(f"{m.device} {m.threads}" for m in trace.header.models[:1]))


def _speed(trace: Trace, basis: Trace) -> Part | None:
    known, rate = [numbers(one) for one in (trace, basis)], DEFINITIONS["tokens_per_second"]
    mine, other = _rate(trace), _rate(basis)
    if mine is None or other is None:
        return None
    terms = fill(rate.terms, known[0])
    if trace is basis:
        return Part(f"{mine:.1f} tokens per second", "derived", rate.formula, terms)
    if place(trace) != place(basis):
        formula = f"{rate.formula}; no ratio: the two were clocked at different places"
        return Part(f"{mine:.1f} tokens per second, clocked elsewhere", "derived", formula, terms)
    if too_busy(trace, basis, same_model=trace.header.models[:1] == basis.header.models[:1]):
        return Part(f"{mine:.1f} tokens per second; {BUSY}", "derived", f"{rate.formula}; {WHY}", terms)
    formula = f"{rate.formula}, of this run ÷ of {basis.header.title}; one run of each: no benchmark"
    return Part(
        f"{mine / other:.2f}× its tokens per second", "derived", formula, f"({terms}) ÷ ({fill(rate.terms, known[1])})"
    )


def _rate(trace: Trace) -> float | None:
    sums, lost = trace.totals, set(trace.header.missing)
    seconds = sums.model_seconds + sums.method_seconds
    known = seconds > 0 and sums.tokens and not {"tokens", "model_seconds"} & lost
    return gained(trace) / seconds if known else None


def _drafts(trace: Trace) -> Part | None:
    trees = [step.tree for step in trace.steps if step.tree]
    drafted = sum(len(tree.parents) - 1 for tree in trees)
    accepted = sum(tree.why.count("accepted") for tree in trees)
    if not drafted:
        return None
    said = f"{100 * accepted / drafted:.1f} % of drafts accepted"
    return Part(said, "derived", "accepted ÷ drafted tokens, over all steps", f"{accepted} ÷ {drafted}")
