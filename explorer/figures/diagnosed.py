"""A diagnosis of a drafter in words and tables, the same for the terminal, the page and a report.

A round of k drafted tokens takes T(k + 1) + D(k) seconds and writes 1 + a tokens, a of them accepted drafts; plain
decoding takes T(1) for each. So the speed is (1 + a) T(1) / (T(k + 1) + D(k)), and it is even at the a for which that
is 1. It is modelled: chains, one prompt at a time, and nothing else costs time."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

MISSING = 0.2  # share of what a drafter promises at a depth, beyond which it is told
SHOWN = 3  # candidates of each side, and first differences


class Table(NamedTuple):
    """A table with its title; everything is text. note: how its numbers were obtained."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


class Place(NamedTuple):
    """Where target and draft part first on a prompt: the text before, and what either had."""

    title: str
    target: str
    draft: str


def headline(diagnosis: Any) -> str:
    """What was looked at, and how much of a draft is accepted."""
    prompts = "one prompt" if diagnosis.prompts == 1 else f"{diagnosis.prompts} prompts"
    return (
        f"{diagnosis.drafter} ({diagnosis.format}) on {diagnosis.target}: {diagnosis.accepted:.2f} of "
        f"{counted(diagnosis.k)} accepted, if "
        f"a draft began at each of {diagnosis.tokens} written tokens ({prompts})."
    )


def findings(diagnosis: Any, acceptance: float | None = None) -> Iterator[str]:
    """What follows: slips that help when they are turned, the loop of a record, whether drafting pays here. acceptance:
    an assumed chance of each drafted token, beside the measured."""
    for slip in diagnosis.slips:
        yield (
            f"Turning {slip.label} helps: {slip.gain:+.2f} nats for the target's token ({slip.low:+.2f} to "
            f"{slip.high:+.2f}), {slip.accepted:.2f} accepted instead of {slip.before:.2f}. {slip.wrong}"
        )
    if len(diagnosis.slips) > 1:
        yield "Mend the first and look again: the others may follow from it."
    if not diagnosis.slips:
        yield from _unexplained(diagnosis)
    if same := [trial.label for trial in diagnosis.tried if trial.state == "same"]:
        yield f"Not told apart, since no logit changes: {', '.join(same)}."
    if diagnosis.loops:
        clear = [loop for loop in diagnosis.loops if loop.clear]
        yield from (f"The record was drafted with this slip: {loop.name}. {loop.wrong}" for loop in clear)
        if not clear:
            yield "No known slip of a loop explains the record better than the loop as it should be."
    if diagnosis.cost is not None:
        yield from _worth(diagnosis, acceptance)


def _unexplained(diagnosis: Any) -> Iterator[str]:
    """Where no slip is named: whether something may be wrong nevertheless, and what gains without being the cause."""
    names = ", ".join(dict.fromkeys(trial.name for trial in diagnosis.tried))
    part = list(dict.fromkeys(trial.label for trial in diagnosis.tried if trial.state == "part"))
    if diagnosis.surer is not None:
        yield _much_too_sure(diagnosis, names)
    elif names:
        yield f"No known slip: none of {names} explains what is missing, and the drafter is as sure as it is right."
    if part:
        yield f"Helps when it is turned, and cannot be the cause alone: {', '.join(part)}."


def _much_too_sure(diagnosis: Any, names: str) -> str:
    worst = next((depth for depth in diagnosis.depths if depth.missing > MISSING), None)
    where = f"; {100 * worst.missing:.0f} % of what it promises is missing from depth {worst.depth} on" if worst else ""
    return (
        f"Not explained: the drafter is surer than it is right, by {diagnosis.surer:.2f} nats{where}. So is one "
        "that is "
        "computed otherwise than it was trained, and one on texts unlike those that it learned from; none of "
        f"{names or 'the known slips'} explains it."
    )


def _worth(diagnosis: Any, acceptance: float | None) -> Iterator[str]:
    if diagnosis.cost.busy:
        yield (
            f"The machine was busy: equal calls differed by {diagnosis.cost.spread:.1f} times (quartiles), so "
            "the times say little; measure again when it is quiet."
        )
    least = needed(diagnosis)
    if least is None:
        yield "No acceptance would make drafts faster here: a round costs as many calls as it could write tokens."
    else:
        yield (
            f"Drafting pays here from {100 * least:.0f} % of the drafted tokens on (derived); "
            f"{100 * rate(diagnosis):.0f} % are accepted."
        )
    if acceptance is not None and (top := best(lengths(diagnosis, acceptance))):
        yield (
            f"If {100 * acceptance:g} % were accepted at every depth: {top.speed:.2f}x with {counted(top.k)} a round "
            "(derived)."
        )


def tables(diagnosis: Any) -> Iterator[Table]:
    """Acceptance by depth, misses by kind, what was tried, what a record matches, what a round costs."""
    yield _depths(diagnosis)
    yield _missed(diagnosis)
    yield _turned(diagnosis)
    if diagnosis.loops:
        yield Table(
            "Slips of a loop, against the record",
            "Drafted tokens of the record that each loop drafts as well.",
            ("loop", "same", "of"),
            [(loop.name, str(loop.same), str(loop.drafted)) for loop in diagnosis.loops],
        )
    if diagnosis.cost is not None:
        yield _costs(diagnosis)


def _depths(diagnosis: Any) -> Table:
    note = (
        "Accepted: of the drafts that came so far. The rest: the target's token in what the drafter says there, behind "
        "the text's own tokens."
    )
    ranks = ("target's token first", "2nd", "3rd", "4-10", "later", "not drafted")
    rows = [
        (str(d.depth), share(d.accepted, d.reached), str(d.reached), *(share(n, d.places) for n in d.ranks))
        for d in diagnosis.depths
    ]
    return Table("By depth", note, ("depth", "accepted", "of those reached", *ranks), rows)


def _missed(diagnosis: Any) -> Table:
    def examples(row: Any) -> str:
        return ", ".join(f"“{drafted}” for “{wanted}”" for wanted, drafted in row.examples)

    return Table(
        "First tokens that are missed, by kind",
        "By the kind of the target's token.",
        ("kind", "missed", "of", "most often"),
        [(row.kind, str(row.missed), str(row.places), examples(row)) for row in diagnosis.misses if row.missed],
    )


def _turned(diagnosis: Any) -> Table:
    note = (
        "Log-probability (nats) that the draft gives the target's token, with the slip turned less without; the "
        "interval has three standard errors to each side."
    )
    rows = []
    for trial in diagnosis.tried:
        gain = (f"{value:+.2f}" for value in (trial.gain, trial.low, trial.high))
        rows.append((trial.label, *gain, f"{trial.accepted:.2f}", f"{trial.before:.2f}", STATES[trial.state]))
    return Table("Known slips, turned", note, ("slip", "gain", "from", "to", "accepted", "as it is", ""), rows)


def _costs(diagnosis: Any) -> Table:
    note = (
        f"Medians on {diagnosis.cost.machine}; speed and break-even are derived from them: one prompt at a time, "
        "chains, nothing else costs time."
    )
    rows: list[tuple[str, ...]] = [
        (str(t.k), ms(t.target), ms(t.draft), f"{t.accepted:.2f}", f"{t.speed:.2f}x", f"{t.need:.2f}")
        for t in lengths(diagnosis)
    ]
    columns = ("drafted", "target's call", "drafting", "accepted", "speed", "even at")
    return Table("What a round costs here", note, columns, rows)


STATES = {
    "helps": "helps",
    "part": "helps, cannot be the cause alone",
    "worse": "worse",
    "same": "no logit changes",
    "open": "no clear difference",
}


def places(diagnosis: Any) -> list[Place]:
    """The first differences of the first prompts."""
    return [
        Place(f"Prompt {p.prompt + 1}, behind “{p.before}”", candidates(p.target), candidates(p.draft))
        for p in diagnosis.partings[:SHOWN]
    ]


def share(n: int, of: int) -> str:
    """A share in percent."""
    return f"{100 * n / of:.0f} %" if of else "-"


def ms(seconds: float) -> str:
    """Milliseconds."""
    return f"{1000 * seconds:.3g} ms"


def counted(k: int) -> str:
    """So many drafted tokens."""
    return "one drafted token" if k == 1 else f"{k} drafted tokens"


def candidates(some: Any) -> str:
    """Tokens with their probabilities."""
    return ", ".join(f"“{candidate.text}” {candidate.probability:.3g}" for candidate in some[:SHOWN])


# --- what drafts of each length are worth


class Length(msgspec.Struct, frozen=True):
    """Drafts of k tokens. accepted: how many a round, on average; target, draft: measured seconds of the target's call
    and of the draft; cost: of a round, in calls of one row; speed: over plain decoding; need: accepted tokens a round
    at which both are equally fast."""

    k: int
    accepted: float
    target: float
    draft: float
    cost: float
    speed: float
    need: float


def lengths(diagnosis: Any, acceptance: float | None = None) -> list[Length]:
    """For each length that was timed what it is worth; none where nothing was timed. diagnosis: an `engines.Diagnosis`;
    acceptance: the chance of each drafted token, if it were the same at every depth; by default what was measured at
    each depth."""
    if diagnosis.cost is None:
        return []
    plain = diagnosis.cost.rows[1]
    draft_lengths, accepted = [], 0.0
    for k, draft in sorted(diagnosis.cost.drafts.items()):
        accepted += _more(diagnosis, k) if acceptance is None else acceptance**k
        target = diagnosis.cost.rows[k + 1]
        cost = (target + draft) / plain
        draft_lengths.append(Length(k, accepted, target, draft, cost, (1 + accepted) / cost, cost - 1))
    return draft_lengths


def _more(diagnosis: Any, k: int) -> float:
    """How many of the drafts are right down to depth k, as a share."""
    depth = next((row for row in diagnosis.depths if row.depth == k), None)
    return depth.accepted / diagnosis.depths[0].places if depth else 0.0


def rate(diagnosis: Any) -> float:
    """The share of drafted tokens that are accepted, of those that a round comes to look at."""
    reached = sum(depth.reached for depth in diagnosis.depths)
    return sum(depth.accepted for depth in diagnosis.depths) / reached if reached else 0.0


def best(draft_lengths: list[Length]) -> Length | None:
    """The length with the largest modelled speed."""
    return max(draft_lengths, key=lambda length: length.speed, default=None)


def needed(diagnosis: Any) -> float | None:
    """The chance of each drafted token from which on some length is faster than plain decoding; None where no chance
    is enough."""
    if all(length.speed <= 1 for length in lengths(diagnosis, 1.0)):
        return None
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        if any(length.speed > 1 for length in lengths(diagnosis, middle)):
            high = middle
        else:
            low = middle
    return high
