"""Golden cases of the samplers: which tokens a rule lets through."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.lazy import torch
from engines.core.truncated import ranked
from engines.golden.verify import Case, checks, differ
from engines.methods.sampling.top_h import entropy_along, spend

VARIANTS = {"paper": "paper", "official_code": "official", "transformers": "hf"}  # in the file -> here


@checks("top_h")
def top_h(case: Case, data: Mapping[str, Any], folder: Path) -> str | None:
    """The three rules on given logits; where the cut falls among equal probabilities, their number and not the ids."""
    z = torch.tensor(data["distributions"][case["dist"]], dtype=torch.float64)
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
