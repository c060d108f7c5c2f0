"""Golden cases of the samplers: which tokens a rule lets through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engines.core.truncated import ranked
from engines.core.verify import Case, checks, differ
from engines.methods.sampling.adadec import Future, score
from engines.methods.sampling.top_h import entropy_along, spend
from engines.studies._threshold import learn

from .cases import Given, float64

VARIANTS = {"paper": "paper", "official_code": "official", "transformers": "hf"}  # in the file -> here


@checks("top_h")
def top_h(case: Case, data: Given, folder: Path) -> str | None:
    """The three rules on given logits; where the cut falls among equal probabilities, their number and not the ids."""
    z = float64(data["distributions"][case["dist"]])
    P, order = ranked(z, case["temperature"])
    got: dict[str, Any] = {}
    for name, variant in VARIANTS.items():
        spent = spend(P, case["alpha"], variant, data["top_n"])
        kept, expected = order[: spent.kept].tolist(), case[name]["kept"]
        if case["ties_at_cut"][name] and len(kept) == len(expected):
            kept = expected
        used = float(spent.counted[spent.kept - 1])
        got[name] = {"kept": kept, "threshold": spent.line, "mass": float(P[: spent.kept].sum())}
        got[name] |= {"H_p": float(entropy_along(P)[-1]), "H_q": used, "partial_entropy": used}
    if "ecmm_optimum" in case and got["paper"]["mass"] > case["ecmm_optimum"]["mass"] + 1e-9:
        return f"the greedy mass {got['paper']['mass']} is above the best possible {case['ecmm_optimum']['mass']}"
    return differ("", got, {name: case[name] for name in VARIANTS}, 1e-6)


@checks("adadec", sections=("threshold_learning", "rerank"))
def adadec(case: Case, data: Given, folder: Path) -> str | None:
    """The threshold learned from given entropies, or the choice among given futures."""
    if case["section"] == "threshold_learning":
        parts = [case[part][name] for part in ("balanced_train", "test") for name in ("entropy", "rank1")]
        learned = learn(*parts)
        names = {"entropy_threshold": "threshold"}
        got, want = {name: getattr(learned, names.get(name, name)) for name in case["expected"]}, dict(case["expected"])
        for name in ("coef", "intercept"):  # recorded where an iterative fit stopped, its gradient still 0.02: 1e-3 of
            got[name], want[name] = got[name] / want[name], 1.0  # their size; ours has a gradient of 1e-14
        return differ("", got, want, 1e-3)
    for scoring in ("official", "clean"):
        ends = case["finish_step"]
        rounds = case["L"] if None in ends else min(case["L"], max(ends))
        futures = [
            Future(i, logp, lookahead=lookahead[:rounds], ended=end)
            for i, (logp, lookahead, end) in enumerate(
                zip(case["candidate_logprob"], case["lookahead_logprob"], ends, strict=True)
            )
        ]
        scores = [score(one, futures, scoring) for one in futures]
        lengths = [rounds if end is None else end for end in ends]
        got = {"scores": scores, "lengths": lengths, "chosen": scores.index(max(scores)), "steps_run": rounds}
        if fault := differ(scoring, got, case[scoring], 1e-6):
            return fault
    return None
