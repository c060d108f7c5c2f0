"""Golden cases of early exits: where a Kangaroo round stops and what it writes; DEL's counts, choice and draft end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.lazy import torch
from engines.core.verify import Case, checks, differ
from engines.methods.heads.del_ import ended
from engines.methods.heads.del_.exit_choice import Counts, choose
from engines.methods.heads.kangaroo import stopped
from engines.methods.speculative._verify import Draft, verify, written

TOLERANCE = 1e-6


@checks("kangaroo_stop")
def kangaroo_stop(case: Case, _: Mapping[str, Any], __: Path) -> str | None:
    """One round, given the confidences and the model's greedy tokens."""
    given, n = case["in"], 0
    while not (why := stopped(given["confidence"][:n], given["eta"], given["gamma"])):
        n += 1
    draft = Draft.of([-1, *given["draft"][:n]], range(-1, n), "draft")
    z = torch.nn.functional.one_hot(torch.tensor(given["target"][: n + 1]), 64).double()
    found = written(draft, verify(z, draft, 0.0, torch.Generator(), frozenset({given["eos"]})))
    got = {
        "drafted": n,
        "stopped_by": why,
        "verify_positions": n + 1,
        "accepted": len(found) - 1,
        "emitted": found,
        "hit_eos": given["eos"] in found,
    }
    return differ("", got, case["out"])


@checks("del_update")
def del_update(case: Case, _: Mapping[str, Any], __: Path) -> str | None:
    """Counts, confidences and the stop line after a round."""
    given = case["in"]
    seen = Counts(given["counts"])
    seen.n = torch.tensor(given["counts"], dtype=torch.float64)
    seen.sums = torch.tensor(given["conf_sums"], dtype=torch.float64)
    match = torch.tensor(given["shadow"]) == torch.tensor(given["verified"])
    kept = seen.update(
        match,
        torch.tensor(given["confidence"], dtype=torch.float64),
        given["exit_layer"] - given["first_layer"],
        given["context_len"],
        given["selected_d"],
        given["omega"],
    )
    got = {
        "kept_positions": kept,
        "counts": seen.n.tolist(),
        "conf_sums": seen.sums.tolist(),
        "avg_conf": seen.means(),
        "tau": seen.tau(),
    }
    return differ("", got, case["out"], TOLERANCE)


@checks("del_choice")
def del_choice(case: Case, _: Mapping[str, Any], __: Path) -> str | None:
    """Exit and length with the most expected tokens per layer."""
    given = case["in"]
    seen = Counts(given["counts"])
    seen.n = torch.tensor(given["counts"], dtype=torch.float64)
    alpha, L = seen.alpha(), given["n_layers"]
    exits = range(given["first_layer"], given["first_layer"] + len(alpha))
    best = choose(alpha, exits, L, given["gamma_max"], given["gamma_min"])
    got = {"alpha": alpha, "exit_layer": best.exit_layer, "d": best.d, "tpl": best.tpl, "autoregressive_tpl": 1 / L}
    return differ("", got, case["out"], TOLERANCE)


@checks("del_stop")
def del_stop(case: Case, _: Mapping[str, Any], __: Path) -> str | None:
    """Tokens drafted at a confidence line."""
    given, n = case["in"], 0
    while not ended(given["confidence"][:n], given["tau"], given["d_max"], given["eos_at"] == n - 1):
        n += 1
    return differ("", {"drafted": n}, case["out"])
