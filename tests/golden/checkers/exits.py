"""Golden cases of early exits: where a Kangaroo round stops and what it writes; DEL's counts, choice and draft end."""

from __future__ import annotations

from engines.core.lazy import torch
from engines.methods.heads.del_ import ended
from engines.methods.heads.del_.exit_choice import Counts, choose
from engines.methods.heads.kangaroo import stopped
from engines.methods.speculative._verify import written

from .cases import Given, Values, chain, computes, float64, walked

TOLERANCE = 1e-6


@computes("kangaroo_stop")
def kangaroo_stop(given: Given) -> Values:
    """One round, given the confidences and the model's greedy tokens."""
    n = 0
    while not (why := stopped(given["confidence"][:n], given["eta"], given["gamma"])):
        n += 1
    draft = chain([-1, *given["draft"][:n]])
    found = written(draft, walked(given["target"][: n + 1], draft, frozenset({given["eos"]})))
    return {
        "drafted": n,
        "stopped_by": why,
        "verify_positions": n + 1,
        "accepted": len(found) - 1,
        "emitted": found,
        "hit_eos": given["eos"] in found,
    }


def counted(given: Given) -> Counts:
    seen = Counts(given["counts"])
    seen.n = float64(given["counts"])
    return seen


@computes("del_update", tolerance=TOLERANCE)
def del_update(given: Given) -> Values:
    """Counts, confidences and the stop line after a round."""
    seen = counted(given)
    seen.sums = float64(given["conf_sums"])
    match = torch.tensor(given["shadow"]) == torch.tensor(given["verified"])
    exit_row, context, d = given["exit_layer"] - given["first_layer"], given["context_len"], given["selected_d"]
    kept = seen.update(match, float64(given["confidence"]), exit_row, context, d, given["omega"])
    return {
        "kept_positions": kept,
        "counts": seen.n.tolist(),
        "conf_sums": seen.sums.tolist(),
        "avg_conf": seen.means(),
        "tau": seen.tau(),
    }


@computes("del_choice", tolerance=TOLERANCE)
def del_choice(given: Given) -> Values:
    """Exit and length with the most expected tokens per layer."""
    seen = counted(given)
    alpha, L = seen.alpha(), given["n_layers"]
    exits = range(given["first_layer"], given["first_layer"] + len(alpha))
    best = choose(alpha, exits, L, given["gamma_max"], given["gamma_min"])
    return {"alpha": alpha, "exit_layer": best.exit_layer, "d": best.d, "tpl": best.tpl, "autoregressive_tpl": 1 / L}


@computes("del_stop")
def del_stop(given: Given) -> Values:
    """Tokens drafted at a confidence line."""
    n = 0
    while not ended(given["confidence"][:n], given["tau"], given["d_max"], given["eos_at"] == n - 1):
        n += 1
    return {"drafted": n}
