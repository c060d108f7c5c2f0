"""A diagnosis of a drafter in words and tables, the same for the terminal, the page and a report."""

from __future__ import annotations

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


def headline(found: Any) -> str:
    """What was looked at, and how much of a draft is accepted."""
    return (
        f"{found.drafter} ({found.format}) on {found.target}: {found.accepted:.2f} of {counted(found.k)} accepted, if "
        f"a draft began at each of {found.tokens} written tokens ({_prompts(found.prompts)})."
    )


def findings(found: Any, acceptance: float | None = None) -> Iterator[str]:
    """What follows: slips that help when they are turned, the loop of a record, whether drafting pays here. acceptance:
    an assumed chance of each drafted token, beside the measured."""
    for one in found.slips:
        yield (
            f"Turning {one.label} helps: {one.gain:+.2f} nats for the target's token ({one.low:+.2f} to "
            f"{one.high:+.2f}), {one.accepted:.2f} accepted instead of {one.before:.2f}. {one.wrong}"
        )
    if len(found.slips) > 1:
        yield "Mend the first and look again: the others may follow from it."
    if not found.slips:
        yield from _unexplained(found)
    if same := [one.label for one in found.tried if one.state == "same"]:
        yield f"Not told apart, since no logit changes: {', '.join(same)}."
    if found.loops:
        clear = [one for one in found.loops if one.clear]
        yield from (f"The record was drafted with this slip: {one.name}. {one.wrong}" for one in clear)
        if not clear:
            yield "No known slip of a loop explains the record better than the loop as it should be."
    if found.cost is not None:
        yield from _worth(found, acceptance)


def _unexplained(found: Any) -> Iterator[str]:
    """Where no slip is named: whether something may be wrong nevertheless, and what gains without being the cause."""
    names = ", ".join(dict.fromkeys(one.name for one in found.tried))
    part = list(dict.fromkeys(one.label for one in found.tried if one.state == "part"))
    if found.surer is not None:
        yield _much_too_sure(found, names)
    elif names:
        yield f"No known slip: none of {names} explains what is missing, and the drafter is as sure as it is right."
    if part:
        yield f"Helps when it is turned, and cannot be the cause alone: {', '.join(part)}."


def _much_too_sure(found: Any, names: str) -> str:
    worst = next((one for one in found.depths if one.missing > MISSING), None)
    where = f"; {100 * worst.missing:.0f} % of what it promises is missing from depth {worst.depth} on" if worst else ""
    return (
        f"Not explained: the drafter is surer than it is right, by {found.surer:.2f} nats{where}. So is one that is "
        "computed otherwise than it was trained, and one on texts unlike those that it learned from; none of "
        f"{names or 'the known slips'} explains it."
    )


def _worth(found: Any, acceptance: float | None) -> Iterator[str]:
    if found.cost.busy:
        yield (
            f"The machine was busy: equal calls differed by {found.cost.spread:.1f} times (quartiles), so the times "
            "say little; measure again when it is quiet."
        )
    least = needed(found)
    if least is None:
        yield "No acceptance would make drafts faster here: a round costs as many calls as it could write tokens."
    else:
        yield (
            f"Drafting pays here from {100 * least:.0f} % of the drafted tokens on (derived); {100 * rate(found):.0f} "
            "% are accepted."
        )
    if acceptance is not None and (top := best(lengths(found, acceptance))):
        yield (
            f"If {100 * acceptance:g} % were accepted at every depth: {top.speed:.2f}x with {counted(top.k)} a round "
            "(derived)."
        )


def tables(found: Any) -> Iterator[Table]:
    """Acceptance by depth, misses by kind, what was tried, what a record matches, what a round costs."""
    yield _depths(found)
    yield _missed(found)
    yield _turned(found)
    if found.loops:
        yield Table(
            "Slips of a loop, against the record",
            "Drafted tokens of the record that each loop drafts as well.",
            ("loop", "same", "of"),
            [(one.name, str(one.same), str(one.drafted)) for one in found.loops],
        )
    if found.cost is not None:
        yield _costs(found)


def _depths(found: Any) -> Table:
    return Table(
        "By depth",
        "Accepted: of the drafts that came so far. The rest: the target's token in what the drafter says there, behind "
        "the text's own tokens.",
        ("depth", "accepted", "of those reached", "target's token first", "2nd", "3rd", "4-10", "later", "not drafted"),
        [
            (
                str(one.depth),
                share(one.accepted, one.reached),
                str(one.reached),
                *(share(n, one.places) for n in one.ranks),
            )
            for one in found.depths
        ],
    )


def _missed(found: Any) -> Table:
    def examples(row: Any) -> str:
        return ", ".join(f"“{drafted}” for “{wanted}”" for wanted, drafted in row.examples)

    return Table(
        "First tokens that are missed, by kind",
        "By the kind of the target's token.",
        ("kind", "missed", "of", "most often"),
        [(row.kind, str(row.missed), str(row.places), examples(row)) for row in found.misses if row.missed],
    )


def _turned(found: Any) -> Table:
    return Table(
        "Known slips, turned",
        "Log-probability (nats) that the draft gives the target's token, with the slip turned less without; the "
        "interval has three standard errors to each side.",
        ("slip", "gain", "from", "to", "accepted", "as it is", ""),
        [
            (
                one.label,
                *(f"{value:+.2f}" for value in (one.gain, one.low, one.high)),
                f"{one.accepted:.2f}",
                f"{one.before:.2f}",
                STATES[one.state],
            )
            for one in found.tried
        ],
    )


def _costs(found: Any) -> Table:
    return Table(
        "What a round costs here",
        f"Medians on {found.cost.machine}; speed and break-even are derived from them: one prompt at a time, chains, "
        "nothing else costs time.",
        ("drafted", "target's call", "drafting", "accepted", "speed", "even at"),
        [
            (
                str(one.k),
                ms(one.target),
                ms(one.draft),
                f"{one.accepted:.2f}",
                f"{one.speed:.2f}x",
                f"{one.need:.2f}",
            )
            for one in lengths(found)
        ],
    )


STATES = {
    "helps": "helps",
    "part": "helps, cannot be the cause alone",
    "worse": "worse",
    "same": "no logit changes",
    "open": "no clear difference",
}


def places(found: Any) -> list[Place]:
    """The first differences of the first prompts."""
    return [
        Place(f"Prompt {one.prompt + 1}, behind “{one.before}”", candidates(one.target), candidates(one.draft))
        for one in found.partings[:SHOWN]
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
    return ", ".join(f"“{one.text}” {one.probability:.3g}" for one in some[:SHOWN])
