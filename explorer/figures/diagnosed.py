"""A diagnosis of a drafter in words and tables, the same for the terminal, the page and a report."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from explorer.figures.drafting import best, lengths, needed, rate

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
    return (
        f"{diagnosis.drafter} ({diagnosis.format}) on {diagnosis.target}: {diagnosis.accepted:.2f} of "
        f"{counted(diagnosis.k)} accepted, if "
        f"a draft began at each of {diagnosis.tokens} written tokens ({_prompts(diagnosis.prompts)})."
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
    return Table(
        "By depth",
        "Accepted: of the drafts that came so far. The rest: the target's token in what the drafter says there, behind "
        "the text's own tokens.",
        ("depth", "accepted", "of those reached", "target's token first", "2nd", "3rd", "4-10", "later", "not drafted"),
        [
            (
                str(depth.depth),
                share(depth.accepted, depth.reached),
                str(depth.reached),
                *(share(n, depth.places) for n in depth.ranks),
            )
            for depth in diagnosis.depths
        ],
    )


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
    return Table(
        "Known slips, turned",
        "Log-probability (nats) that the draft gives the target's token, with the slip turned less without; the "
        "interval has three standard errors to each side.",
        ("slip", "gain", "from", "to", "accepted", "as it is", ""),
        [
            (
                trial.label,
                *(f"{value:+.2f}" for value in (trial.gain, trial.low, trial.high)),
                f"{trial.accepted:.2f}",
                f"{trial.before:.2f}",
                STATES[trial.state],
            )
            for trial in diagnosis.tried
        ],
    )


def _costs(diagnosis: Any) -> Table:
    return Table(
        "What a round costs here",
        f"Medians on {diagnosis.cost.machine}; speed and break-even are derived from them: one prompt at a time, "
        "chains, nothing else costs time.",
        ("drafted", "target's call", "drafting", "accepted", "speed", "even at"),
        [
            (
                str(length.k),
                ms(length.target),
                ms(length.draft),
                f"{length.accepted:.2f}",
                f"{length.speed:.2f}x",
                f"{length.need:.2f}",
            )
            for length in lengths(diagnosis)
        ],
    )


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
        Place(
            f"Prompt {parting.prompt + 1}, behind “{parting.before}”",
            candidates(parting.target),
            candidates(parting.draft),
        )
        for parting in diagnosis.partings[:SHOWN]
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


def _prompts(n: int) -> str:
    return "one prompt" if n == 1 else f"{n} prompts"


def candidates(some: Any) -> str:
    """Tokens with their probabilities."""
    return ", ".join(f"“{candidate.text}” {candidate.probability:.3g}" for candidate in some[:SHOWN])
