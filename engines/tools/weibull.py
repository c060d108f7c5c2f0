"""Two modes of given probabilities: a mixture of two Weibull distributions by maximum likelihood (RPC, arXiv:2502.00511
and 2510.15444; start and bounds from the official `compute_rpc.py`).

    f(x) = w W(x; k1, lam1) + (1 - w) W(x; k2, lam2),   W(x; k, lam) = (k / lam) (x / lam)^(k - 1) exp(-(x / lam)^k)

The official code minimises with SciPy's L-BFGS-B and numerical gradients. Ours is a small BFGS with the same start and
bounds and exact gradients, so that nothing further has to be installed. The likelihood has several maxima and no bound
(two equal values let k grow for ever): what is compared between the two are decisions on well-conditioned sets."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

START = np.array([0.5, 1.0, 1.0, 1.5, 2.0])  # w, k1, lam1, k2, lam2
LOW, HIGH = np.array([0.2, *[0.01] * 4]), np.array([0.8, *[np.inf] * 4])
ROUNDS, FLAT = 400, 1e-9


@dataclass(frozen=True)
class Mixture:
    """The fit, its part of the larger mean first: w is its weight; k shapes, lam scales, nll in nats."""

    w: float
    k: tuple[float, float]
    lam: tuple[float, float]
    nll: float

    def high(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Membership [n] of the part with the larger mean, for probabilities x [n]."""
        with np.errstate(over="ignore", invalid="ignore"):
            first, two = (
                weight * np.exp(log_weibull(x, k, lam)[0])
                for weight, k, lam in zip((self.w, 1 - self.w), self.k, self.lam, strict=True)
            )
        both = first + two
        return np.divide(first, both, out=np.full_like(both, 0.5), where=both > 0)


def log_weibull(x: np.ndarray[Any, Any], k: float, lam: float) -> tuple[np.ndarray[Any, Any], ...]:
    """log W(x; k, lam) and its derivatives by k and lam, each [n]."""
    ratio = np.log(x / lam)
    z = np.exp(np.minimum(k * ratio, 700.0))
    return math.log(k / lam) + (k - 1) * ratio - z, 1 / k + ratio * (1 - z), k / lam * (z - 1)


def fit(x: np.ndarray[Any, Any]) -> Mixture | None:
    """The mixture for x [n], all in (0, 1]. None where none is meaningful: fewer than two values, all equal, or a
    likelihood that is not a number."""
    if len(x) < 2 or float(np.ptp(x)) <= 1e-12 or not (np.isfinite(x).all() and (x > 0).all()):
        return None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        theta, value = minimise(lambda parameters: likelihood(parameters, x), START)
    if not math.isfinite(value):
        return None
    w, k1, lam1, k2, lam2 = map(float, theta)
    parts = [(w, k1, lam1), (1 - w, k2, lam2)]
    parts.sort(key=lambda part: -part[2] * math.exp(math.lgamma(1 + 1 / part[1])))
    return Mixture(parts[0][0], (parts[0][1], parts[1][1]), (parts[0][2], parts[1][2]), value)


def likelihood(theta: np.ndarray[Any, Any], x: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
    """The negative log-likelihood and its gradient [5]."""
    w, k1, lam1, k2, lam2 = map(float, theta)
    first, two = log_weibull(x, k1, lam1), log_weibull(x, k2, lam2)
    a, b = math.log(w) + first[0], math.log(1 - w) + two[0]
    both = np.logaddexp(a, b)
    r1, r2 = np.exp(a - both), np.exp(b - both)
    terms = (r1 / w - r2 / (1 - w), r1 * first[1], r1 * first[2], r2 * two[1], r2 * two[2])
    return -float(both.sum()), -np.array([term.sum() for term in terms])


def minimise(f: Any, theta: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], float]:
    """BFGS within LOW and HIGH: a variable at a bound that the gradient pushes against stays there, and the step is
    halved until it gains. Ends where a round gains next to nothing."""
    value, g = f(theta)
    H = np.eye(len(theta)) / max(1.0, float(np.linalg.norm(g)))
    for _ in range(ROUNDS):
        free = ~((theta <= LOW) & (g > 0) | (theta >= HIGH) & (g < 0))
        d = np.where(free, -H @ np.where(free, g, 0.0), 0.0)
        if float(d @ g) >= 0:
            H, d = np.eye(len(theta)), np.where(free, -g, 0.0)
        size, gained = 1.0, False
        while size > 1e-12 and not gained:
            trial = np.clip(theta + size * d, LOW, HIGH)
            new, new_g = f(trial)
            gained = math.isfinite(new) and new <= value + 1e-4 * float((trial - theta) @ g)
            size = size if gained else size / 2
        if not gained:
            break
        s, y, before = trial - theta, new_g - g, value
        theta, value, g = trial, new, new_g
        if (sy := float(s @ y)) > 1e-12:
            V = np.eye(len(s)) - np.outer(s, y) / sy
            H = V @ H @ V.T + np.outer(s, s) / sy
        if before - value <= FLAT * max(1.0, abs(value)):
            break
    return theta, value
