"""Golden cases of reflective verification: the mixture of both opinions and the greedy match against it."""

from __future__ import annotations

from engines.core.lazy import torch
from engines.methods.speculative._verify import verify
from engines.methods.speculative.reflective_verification import fuse

from .cases import Given, Values, chain, float64, kinds


def fusion(given: Given) -> Values:
    """Fused logits and distributions, which drafted tokens they put first, and what a greedy walk keeps and writes."""
    z0, zr = (float64(given[name]) for name in ("original_logits", "reflective_logits"))
    z, d = fuse(z0, zr, given["alpha"]), given["draft"]
    verdict = verify(z, chain([0, *d]), 0.0, torch.Generator())
    return {
        "fused_logits": z.tolist(),
        "fused_probs": z.softmax(-1).tolist(),
        "greedy_match": (z.argmax(-1) == torch.tensor(d)).tolist(),
        "accepted": len(verdict.path) - 1,
        "correction": verdict.emitted if verdict.emitted >= 0 else None,
    }


kinds("reflective", fusion=fusion)
