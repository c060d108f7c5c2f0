"""Lessons: one per method, told on a recorded run. Every claim of a lesson about its run is checked here, so none can
talk about what is not there.

They are in the files of their papers (`assets/papers`); the words that they use are in `assets/glossary.json`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

import engines
from engines import Step, Trace
from explorer import papers
from explorer.figures.history import boards, gained
from explorer.own_files import own_json
from explorer.papers.schema import ChoiceClaim, LaneClaim, Lesson, Stop, Term

CLOSE = 0.01  # a fact of a lesson is written with two decimals
IN_VIEW = 60  # words of a caveat that are not folded
ROUNDED = 0.005  # of a lane, which is recorded in 255 grades


def lessons() -> tuple[Lesson, ...]:
    """All lessons, by their order."""
    unsorted = [lesson for paper in papers.read().all() for lesson in paper.lessons]
    return tuple(sorted(unsorted, key=lambda lesson: (lesson.order, lesson.method)))


class Subject(NamedTuple):
    """What a lesson is about: a method, or a paper that is a study."""

    title: str
    family: str
    paper: str  # arXiv: and its number, "" for a base without one


def subjects() -> dict[str, Subject]:
    """All that a lesson can be about, by what it names."""
    by_slug = {info.slug: Subject(info.title, info.family, info.paper) for info in engines.list_methods()}
    studies = [paper for paper in papers.read().papers if not paper.methods]
    return by_slug | {study.id: Subject(study.name, study.family, f"arXiv:{study.arxiv}") for study in studies}


@lru_cache(maxsize=1)
def glossary() -> tuple[Term, ...]:
    """All terms, sorted. Raises UserError."""
    return tuple(own_json("glossary.json", list[Term]))


def in_view(caveat: str) -> tuple[str, str]:
    """The whole sentences of a caveat that stand in view, of at most `IN_VIEW` words together, and the others, which
    are folded; the first sentence is in view however long it is."""
    sentences = re.split(r"(?<=[.!?]) (?=[^a-z ])", caveat)
    count = [len(" ".join(sentences[: i + 1]).split()) for i in range(len(sentences))]
    shown = max(1, sum(words <= IN_VIEW for words in count))
    return " ".join(sentences[:shown]), " ".join(sentences[shown:])


def faults(trace: Trace, stop: Stop) -> list[str]:
    """What a stop claims and its trace does not show, one sentence each; empty where everything holds."""
    if not 1 <= stop.step <= len(trace.steps):
        return [f"there is no step {stop.step}; the run has {len(trace.steps)}"]
    return [
        f"{what}: claimed {claimed!r}, found {actual!r}"
        for what, claimed, actual in _claims(trace, stop)
        if not _holds(claimed, actual)
    ]


def _holds(claimed: Any, actual: Any) -> bool:
    if isinstance(claimed, float) and isinstance(actual, (int, float)):
        return abs(claimed - actual) <= CLOSE
    return bool(claimed == actual)


def _claims(trace: Trace, stop: Stop) -> Iterator[tuple[str, Any, Any]]:
    """(what, claimed, found) for everything that the stop's check names."""
    check, step, offset = stop.check, trace.steps[stop.step - 1], len(trace.header.prompt_ids)
    pieces = {piece.id: piece.text for piece in trace.pieces}
    board = next(islice(boards(trace), stop.step, None))[offset:]
    commits = step.commits
    yield from _counts(trace, stop, step, gained(trace, board))
    if check.causes:
        yield "causes", check.causes, dict(Counter(commits.causes)) if commits else {}
    for place, piece in check.wrote.items():
        tokens = dict(zip(commits.positions, commits.tokens, strict=True)) if commits else {}
        yield f"written at {place}", piece, pieces.get(tokens.get(offset + int(place), -1))
    for empty in check.masked:
        yield f"place {empty} is empty", None, board[empty] if empty < len(board) else None
    if check.text:
        text = "".join(pieces.get(token, "") if token is not None else "\0" for token in board)
        yield f"text holds {check.text!r}", True, check.text in text
    for kind, edges in check.spans.items():
        bounds = next(([span.start - offset, span.end - offset] for span in step.spans if span.kind == kind), None)
        yield f"span {kind}", edges, bounds
    for name, value in check.facts.items():
        yield f"fact {name}", float(value), step.facts.get(name)
    if check.note:
        yield f"note holds {check.note!r}", True, check.note in step.note
    for claim in check.lanes:
        yield from _lane(trace, claim, stop.step)
    if check.choice:
        yield from _choice(step, check.choice)


def _counts(trace: Trace, stop: Stop, step: Step, tokens: int) -> Iterator[tuple[str, Any, Any]]:
    check, tree, done = stop.check, step.tree, trace.steps[: stop.step]
    actual: dict[str, Any] = {
        "commits": sum(token >= 0 for token in step.commits.tokens) if step.commits else 0,
        "drafted": len(tree.parents) - 1 if tree else None,
        "accepted": sum(tree.accepted) - 1 if tree else None,
        "tokens": tokens,
        "fed": step.tokens_fed,
        "forwards": sum(sum(done_step.forwards.values()) for done_step in done),
        "steps": len(trace.steps),
    }
    yield from (
        (name, getattr(check, name), value) for name, value in actual.items() if getattr(check, name) is not None
    )
    for fate, n in check.why.items():
        yield f"rows {fate}", n, tree.why.count(fate) if tree else None


def _lane(trace: Trace, claim: LaneClaim, here: int) -> Iterator[tuple[str, Any, Any]]:
    step, offset = trace.steps[(claim.step or here) - 1], len(trace.header.prompt_ids)
    lane = next((lane for lane in step.scores if lane.name == claim.lane), None)
    values = lane.values.array() if lane else np.array([])
    index = offset + claim.at - lane.start if lane else -1
    value = float(values[index]) if 0 <= index < len(values) else float("nan")
    yield from _between(f"{claim.lane} at {claim.at}", value, claim, ROUNDED)


def _choice(step: Step, claim: ChoiceClaim) -> Iterator[tuple[str, Any, Any]]:
    made = step.choice
    for name in ("chosen", "threshold", "switched"):
        if getattr(claim, name) is not None:
            yield f"choice {name}", getattr(claim, name), getattr(made, name, None)
    value = made.value if made and made.value is not None else float("nan")
    yield from _between("deciding value", value, claim)


def _between(
    what: str, value: float, claim: LaneClaim | ChoiceClaim, slack: float = 0.0
) -> Iterator[tuple[str, Any, Any]]:
    if claim.above is not None:
        yield f"{what} of {value:.3f} above {claim.above}", True, value > claim.above - slack
    if claim.below is not None:
        yield f"{what} of {value:.3f} below {claim.below}", True, value < claim.below + slack
