"""Laws of speculative decoding, and what holds them against their data (Scylla, arXiv:2505.07858): acceptance over the
logarithm of training tokens or of a draft's size, and the best draft length over the batch.

The fitted constants of the paper were not available; nothing here asserts one. Letters: p the target's distribution, q
the draft's, gamma tokens of a window, B sequences of a batch, n tokens verified per sequence (n = 1 drafts nothing)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

import numpy as np

from engines.core.errors import UserError
from engines.core.statistics import bootstrap

Curve = Callable[[float], float]
POWERS = tuple(i / 20 for i in range(1, 61))  # beta of the saturating form, by grid
FORMS = ("log-linear", "constant", "linear", "saturating")


@dataclass(frozen=True)
class Line:
    """y = slope log10 x + intercept, with the share of variance that it explains; None where all y are equal, so that
    there is none to explain."""

    slope: float
    intercept: float
    r2: float | None

    def at(self, x: float) -> float:
        """The prediction at x."""
        return self.slope * float(np.log10(x)) + self.intercept


def loglinear(x: Sequence[float], y: Sequence[float]) -> Line:
    """Least squares of y on log10 x. Raises UserError for fewer than two different x, or an x that has no logarithm."""
    if len(set(x)) < 2:
        raise UserError(f"a line needs two different points and {len(set(x))} is given; add points.")
    if min(x) <= 0:
        raise UserError(f"x = {min(x):g} has no logarithm; give values above 0.")
    u, v = np.log10(np.asarray(x, float)), np.asarray(y, float)
    du, dv = u - u.mean(), v - v.mean()
    slope = float(du @ dv / (du @ du))
    intercept = float(v.mean() - slope * u.mean())
    spread = float(dv @ dv)
    left = float(((v - slope * u - intercept) ** 2).sum())
    return Line(slope, intercept, 1 - left / spread if spread else None)


def fitted(form: str, x: Sequence[float], y: Sequence[float]) -> Curve:
    """One of FORMS through the points by least squares; saturating is c - k x^-beta with beta from a grid."""
    if form == "log-linear":
        return loglinear(x, y).at
    if form == "constant":
        middle = mean(y)
        return lambda _: middle
    if form == "linear":
        (slope, start), *_ = np.linalg.lstsq(np.c_[np.asarray(x, float), np.ones(len(x))], np.asarray(y), rcond=None)
        return lambda at: float(slope * at + start)
    best: tuple[float, float, float, float] | None = None
    for beta in POWERS:
        A = np.c_[np.ones(len(x)), -(np.asarray(x, float) ** -beta)]
        (c, k), *_ = np.linalg.lstsq(A, np.asarray(y, float), rcond=None)
        error = float(((A @ [c, k] - y) ** 2).sum())
        if best is None or error < best[0]:
            best = (error, float(c), float(k), beta)
    assert best is not None
    _, c, k, beta = best
    return lambda at: c - k * float(at**-beta)


def miss(form: str, x: Sequence[float], y: Sequence[float]) -> float:
    """What a fit to all points but the last one predicts for it, less what is there. Raises UserError for fewer than
    three points: there is nothing to leave out."""
    if len(x) < 3:
        raise UserError(f"{len(x)} points are given; an extrapolation is tested on three or more, so add points.")
    return fitted(form, x[:-1], y[:-1])(x[-1]) - y[-1]


@dataclass(frozen=True)
class Found:
    """A draft on one prompt's answer: rows with the same first choice, the sum over rows of sum min(p, q), rows, and
    rounds and tokens of greedy speculation with windows of gamma."""

    same: int
    shared: float
    rows: int
    rounds: int
    tokens: int


def rounds(same: Sequence[bool], gamma: int) -> tuple[int, int]:
    """(rounds, tokens) of greedy speculation over an answer: same[t] says whether the draft's first choice behind t
    tokens of the target's greedy answer is the target's. A round keeps what agrees in a window, and one token more."""
    t = count = 0
    while t < len(same):
        kept = 0
        while kept < gamma and t + kept < len(same) and same[t + kept]:
            kept += 1
        t, count = min(t + kept + 1, len(same)), count + 1
    return count, len(same)


MEASURES: Mapping[str, Callable[[Sequence[Found]], float]] = {
    "tokens per model call": lambda agreements: sum(f.tokens for f in agreements) / sum(f.rounds for f in agreements),
    "same first choice": lambda agreements: sum(f.same for f in agreements) / sum(f.rows for f in agreements),
    "1 - TVD": lambda agreements: sum(f.shared for f in agreements) / sum(f.rows for f in agreements),
}


def interval(agreements: Sequence[Found], measure: str, seed: int, resamples: int = 1000) -> tuple[float, float]:
    """The middle 95 % of a measure over prompts drawn again with replacement."""
    return bootstrap(agreements, MEASURES[measure], resamples=resamples, seed=seed)


def throughput(target_ms: float, draft_ms: float, tau: float, B: int, n: int) -> float:
    """Tokens per second of B sequences that verify n tokens each: B tau / (t_target + (n - 1) t_draft); n = 1 is plain
    decoding. tau: tokens of a round with n - 1 drafts; times are those of a forward of all B sequences."""
    return 1e3 * B * tau / (target_ms + (n - 1) * draft_ms)


def best(rates: Mapping[tuple[int, int], float]) -> dict[int, int]:
    """n*(B): for every B of (B, n) -> tokens per second the n with the most; the smallest of equals."""
    return {
        B: max((n for b, n in rates if b == B), key=lambda n: (rates[B, n], -n)) for B in sorted({b for b, _ in rates})
    }
