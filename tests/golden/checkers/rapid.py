"""Golden cases of RAPID: the transfer, what is accepted and drawn after a refusal, and the law that comes out."""

from __future__ import annotations

from engines.core.lazy import torch
from engines.core.sampling import accept_probability
from engines.methods.speculative.rapid.transfer import Transfer

from .cases import Given, Values, float64, kinds


def transfer(given: Given) -> Values:
    """One position with all that follows from it."""
    z, z_draft = (float64(given[name]) for name in ("target_logits", "draft_logits"))
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


kinds("rapid", transfer=transfer)
