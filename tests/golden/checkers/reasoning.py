"""Golden cases of rules that choose among reasoning paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engines.core.verify import Case, checks, differ
from engines.methods.reasoning._votes import Ballot, Voter

from .cases import Given


@checks("rpc")
def rpc(case: Case, data: Given, folder: Path) -> str | None:
    """Who is pruned, and the winners and confidences of the four rules. Of the fit only its likelihood: optimisers
    differ."""
    given = zip(case["completions"], case["answers"], case["mean_logprob"], strict=True)
    ballot = Ballot([Voter(i, text, answer, mean) for i, (text, answer, mean) in enumerate(given)])
    got: dict[str, Any] = {"rpc": {"removed": ballot.removed, "mean_prob": ballot.mean}}
    for name, rule in RULES.items():
        scores = dict(zip(ballot.answers, ballot.scores(rule), strict=True))
        best, total = max(scores.values()), sum(scores.values())
        got.setdefault(name, {})["winners"] = sorted(a for a, s in scores.items() if abs(s - best) <= 1e-12 * best)
        got[name] |= {"score": scores, "confidence": {a: s / total for a, s in scores.items()}}
    want = {name: {key: case[name][key] for key in got[name] if key in case[name]} for name in got}
    for expected in want.values():
        expected["winners"] = sorted(expected["winners"])
    fitted, expected = ballot.mixture, case["rpc"]["fit"]
    if (fitted is None) != (expected is None):
        return f"the fit is {fitted}, expected {expected}"
    if fitted and expected and (fault := differ("fit.nll", fitted.nll, expected["nll"], 1e-2)):
        return fault
    return differ("", got, want, 1e-6)


RULES = {
    "rpc": "RPC",
    "perplexity_consistency": "perplexity consistency",
    "self_consistency": "self-consistency",
    "perplexity": "perplexity",
}
