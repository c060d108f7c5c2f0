"""Golden cases of reflective verification: the mixture of both opinions and the greedy match against it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.lazy import torch
from engines.core.verify import Case, checks
from engines.methods.speculative._verify import Draft, verify
from engines.methods.speculative.reflective_verification import fuse

from .speculative import by_kind


def fusion(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fused logits and distributions, which drafted tokens they put first, and what a greedy walk keeps and writes."""
    z0, zr = (torch.tensor(given[name], dtype=torch.float64) for name in ("original_logits", "reflective_logits"))
    z, d = fuse(z0, zr, given["alpha"]), given["draft"]
    verdict = verify(z, Draft.of([0, *d], range(-1, len(d)), "draft"), 0.0, torch.Generator())
    return {
        "fused_logits": z.tolist(),
        "fused_probs": z.softmax(-1).tolist(),
        "greedy_match": (z.argmax(-1) == torch.tensor(d)).tolist(),
        "accepted": len(verdict.path) - 1,
        "correction": verdict.emitted if verdict.emitted >= 0 else None,
    }


@checks("reflective")
def check(case: Case, _: Mapping[str, Any], __: Path) -> str | None:
    """The one kind of case in the file."""
    return by_kind({"fusion": fusion}, case)
