"""What a comparison says in one line per run: its text against the run it is held against, the mark of a checked task,
speed, calls and accepted drafts, each with how it was obtained."""

from collections.abc import Sequence

import msgspec

from engines import Trace
from explorer.figures.acceptance import drafts
from explorer.figures.calls import in_words, target_role
from explorer.figures.compare import control_of, difference, main_model, place, saved_at_end, tokens_per_second
from explorer.figures.definitions import DEFINITIONS, Kind, fill
from explorer.figures.metrics import numbers
from explorer.figures.noise import too_busy
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
    return next((trace for trace in controls if trace is not None), next(filter(_whole, traces), traces[0]))


def _whole(trace: Trace) -> bool:
    return trace.end.reason != "failed"


def parts(trace: Trace, basis: Trace) -> list[Part]:
    """What is said of a run; of the basis itself what needs no other run. One that failed is held against none."""
    pieces = [_task(trace), _drafts(trace)]
    if _whole(trace) and _whole(basis):
        pieces[1:1] = [None if trace is basis else _text(trace, basis), _speed(trace, basis)]
    if "forwards" not in trace.header.missing:
        sentence = in_words(trace.steps, target_role(trace)) + of_end(trace, basis)
        pieces.append(Part(sentence, "measured", DEFINITIONS["target_calls"].formula))
    return [piece for piece in pieces if piece is not None]


def _task(trace: Trace) -> Part | None:
    mark = judge(trace)
    if mark is None:
        return None
    how = "the task's exact check of the text"
    if mark.right:
        return Part("right", "derived", how, mark="right")
    return Part(f"wrong; expected {mark.expected}", "derived", how, mark="wrong")


def _text(trace: Trace, basis: Trace) -> Part | None:
    name = basis.header.title
    if trace.header.prompt != basis.header.prompt:
        return Part(f"another prompt than {name}", "measured", "the prompts as they were given")
    differs = difference(trace, basis)
    if differs.respelled:
        return Part(f"same text as {name}, in other tokens", "derived", differs.formula, "", "right")
    if differs.at is None:
        sentence, terms = f"same text as {name}", f"{differs.count} {differs.unit}s are the same"
        return Part(sentence + " as far as both go" * differs.limited, "derived", differs.formula, terms, "right")
    sentence = f"parts from {name} at {differs.unit} {differs.at + 1}"
    return Part(sentence, "derived", differs.formula, f"{differs.at} {differs.unit}s are the same before it")


def _speed(trace: Trace, basis: Trace) -> Part | None:
    rate = DEFINITIONS["tokens_per_second"]
    mine, other = tokens_per_second(trace), tokens_per_second(basis)
    if mine is None or other is None:
        return None
    terms, others = (fill(rate.terms, numbers(run)) for run in (trace, basis))
    sentence = f"{mine:.1f} tokens per second"
    if trace is basis:
        return Part(sentence, "derived", rate.formula, terms)
    if place(trace) != place(basis):
        formula = f"{rate.formula}; no ratio: the two were clocked at different places"
        return Part(f"{sentence}, clocked elsewhere", "derived", formula, terms)
    if too_busy(trace, basis, same_model=main_model(trace) == main_model(basis)):
        busy = DEFINITIONS["too_busy"]
        return Part(f"{sentence}; {busy.label}", "derived", f"{rate.formula}; {busy.formula}", terms)
    formula = f"{rate.formula}, of this run ÷ of {basis.header.title}; one run of each: no benchmark"
    return Part(
        f"{mine / other:.2f}× its tokens per second in one run each", "derived", formula, f"({terms}) ÷ ({others})"
    )


def by_end_rule(trace: Trace, basis: Trace) -> tuple[int, int] | None:
    """`saved_at_end`, of two runs that did not fail."""
    return saved_at_end(trace, basis) if trace is not basis and _whole(trace) and _whole(basis) else None


def of_end(trace: Trace, basis: Trace) -> str:
    """What a rule for the end saved of the calls, which the method must not be credited with; "" where nothing."""
    past = by_end_rule(trace, basis)
    if past is None:
        return ""
    after, calls = past
    name = basis.header.title
    if after == 1:
        return (
            f" (1 of the {calls} of {name} wrote only what is after its end mark: the rule for the end saves it, "
            "not the method)"
        )
    return (
        f" ({after} of the {calls} of {name} wrote only what is after its end mark: the rule for the end saves "
        "those, not the method)"
    )


def _drafts(trace: Trace) -> Part | None:
    accepted, drafted = drafts(trace)
    if not drafted:
        return None
    sentence = f"{100 * accepted / drafted:.1f} % of drafts accepted"
    return Part(sentence, "derived", DEFINITIONS["acceptance_rate_of_drafted"].formula, f"{accepted} ÷ {drafted}")
