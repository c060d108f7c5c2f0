"""Golden cases of Scylla: the log-linear fit, and the arithmetic of speculative decoding that the laws rest on."""

from __future__ import annotations

from engines.core.lazy import torch
from engines.core.sampling import expected_tokens, residual
from engines.studies._scaling import loglinear, miss

from .cases import Given, Values, float64, kinds


def fit(given: Given) -> Values:
    """Slope per decade, what it explains and predicts, also for its own last point."""
    line = loglinear(given["x"], given["y"])
    return {
        "slope_per_decade": line.slope,
        "intercept": line.intercept,
        "r2": line.r2,
        "prediction": line.at(given["predict_at"]),
        "loo_last_prediction": miss("log-linear", given["x"], given["y"]) + given["y"][-1],
    }


def iid(given: Given) -> Values:
    """Equation 1 and theorem 3.8 of Leviathan et al."""
    tokens = expected_tokens(given["alpha"], given["gamma"])
    return {"tokens_per_step": tokens, "walltime_factor": tokens / (given["gamma"] * given["cost_ratio"] + 1)}


def acceptance(given: Given) -> Values:
    """The sum of minima, and what is left after a refusal."""
    p, q = (float64(given[name]) for name in "pq")
    accept, left = float(torch.minimum(p, q).sum()), residual(p, q)
    return {
        "accept": accept,
        "tvd": float((p - q).abs().sum() / 2),
        "residual": None if left is None else left.tolist(),
    }


def measured(given: Given) -> Values:
    """Figures of a run from its accepted counts."""
    kept, gamma = given["accepted_per_step"], given["gamma"]
    tau = sum(kept) / len(kept) + 1
    return {
        "acceptance_rate": sum(kept) / (gamma * len(kept)),
        "block_efficiency": tau,
        "memory_bound_speedup": tau / (gamma * given["param_ratio"] + 1),
    }


kinds("loglinear_fit", "sd_arithmetic", fit=fit, iid=iid, acceptance=acceptance, measured=measured)
