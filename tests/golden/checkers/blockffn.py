"""Golden cases of BlockFFN: router, sparsity by token and chunk, union, reuse and the two losses, from raw scores."""

from __future__ import annotations

from pathlib import Path

from engines.core.lazy import torch
from engines.core.verify import Case, checks, differ
from engines.models import activation

from .cases import Given, ancestors, float64


@checks("blockffn")
def check(case: Case, _: Given, __: Path) -> str | None:
    """All that is expected of a case; its gain of the norm is ones."""
    from engines.models.networks.block_ffn import relu_norm

    given = case["inputs"]
    a0 = float64(given["raw_scores"])
    documents = torch.repeat_interleave(torch.tensor(given["document_lengths"]))
    a = relu_norm(a0, torch.ones(a0.shape[1], dtype=torch.float64), given["eps"])
    on = a != 0
    got = {
        "router_output": a.tolist(),
        "active_experts": ancestors(on),
        "tls": activation.tls(on),
        "cls": {length: activation.cls(on, int(length)) for length in case["expected"]["cls"]},
        "union_of_first_chunk": activation.union(on[: given["chunk_length"]]),
        "reuse_ratio": activation.reuse(on),
        "chunk_sparsification_loss": float(activation.sparsity_loss(a0, given["chunk_length"], given["eps"])),
        "activation_locality_loss": float(activation.locality_loss(a0, documents, given["sharpness"])),
    }
    return differ("", got, case["expected"], 1e-6)
