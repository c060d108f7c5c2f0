"""Golden cases of RAPID: the transfer, what is accepted and drawn after a refusal, and the law that comes out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.lazy import torch
from engines.core.sampling import accept_probability
from engines.core.verify import Case, checks
from engines.methods.speculative.rapid.transfer import Transfer

from .speculative import by_kind


def transfer(given: Mapping[str, Any]) -> dict[str, Any]:
    """One position with all that follows from it."""
    z, z_draft = (torch.tensor(given[name], dtype=torch.float64) for name in ("target_logits", "draft_logits"))
    one = Transfer.of(z, z_draft.softmax(-1), given["eta"], given["alpha"])
    chances = [accept_probability(one.p_hat, one.q, token) for token in range(len(z))]
    return {
        "p": one.p.tolist(),
        "q": one.q.tolist(),
        "mask": one.mask.tolist(),
        "transferred_logits": one.z_hat.tolist(),
        "p_hat": one.p_hat.tolist(),
        "accept_prob": chances,
        "accepted": given["u"] <= chances[given["draft_token"]],
        "residual": one.residual.tolist(),
        "expected_accept": float(torch.minimum(one.q, one.p_hat).sum()),
        "one_step_output_law": one.output.tolist(),
        "tv_output_vs_target": one.shift,
        "tv_output_vs_p_hat": float((one.output - one.p_hat).abs().sum() / 2),
    }


@checks("rapid")
def check(case: Case, _: Mapping[str, Any], __: Path) -> str | None:
    """The one kind of case in the file."""
    return by_kind({"transfer": transfer}, case)
