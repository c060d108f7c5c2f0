"""What drafts of each length are worth, derived from a diagnosis: measured seconds of the target's calls and of the
drafting, and the measured or an assumed acceptance.

A round of k drafted tokens takes T(k + 1) + D(k) seconds and writes 1 + a tokens, a of them accepted drafts; plain
decoding takes T(1) for each. So the speed is (1 + a) T(1) / (T(k + 1) + D(k)), and it is even at the a for which that
is 1. It is modelled: chains, one prompt at a time, and nothing else costs time."""

from typing import Any

import msgspec


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
    """For each length that was timed what it is worth; none where nothing was timed. found: an `engines.Diagnosis`;
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
