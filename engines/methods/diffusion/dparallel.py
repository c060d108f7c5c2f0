"""dParallel: learnable parallel decoding (arXiv:2509.26488; code czg1225/dParallel, MIT): the decoding rule.

The paper fine-tunes a model on its own answers so that far masks become certain early ("certainty forcing":
cross-entropy, and an entropy penalty where the guess is right already). Decoding then commits every mask of the block
whose distribution has an entropy of at most tau, and always the one with the lowest.

The training is `engines/training/tiny/dparallel.py`, and `tiny-dlm-dparallel` came out of it; the authors' checkpoints
are plain LLaDA and Dream weights. On a model that was not trained for it, the rule alone is about as good as a
threshold on the confidence: whatever speed-up is told for dParallel belongs to the training, and a base model under the
same tau has to stand beside it.

Follows `LLaDA/generate.py` @ 2ca4d147: entropy in float64, nats, over the whole vocabulary. We depart in these points:
the mask token is never proposed; the last block may be shorter; Dream's loop rejects H = tau and takes the entropy at
the sampling temperature, here one rule without temperature serves both."""

from engines.kit import (
    Float,
    Int,
    MaskedLM,
    Params,
    Recorder,
    Span,
    Steps,
    Tensor,
    block_of,
    entropy,
    gumbel_argmax,
    mask_positions,
    token_probability,
    torch,
)
from engines.methods.diffusion._forward import some, unmasking


@unmasking(
    "dparallel",
    title="dParallel rule",
    paper="arXiv:2509.26488",
    code="https://github.com/czg1225/dParallel",
    summary="Writes all masks of the block whose entropy is low enough, and always the lowest; made for models that "
    "were trained to be confident early.",
    params=[
        Int("block_length", 16, 1, 1024, symbol="b", source="32 in the paper's scripts"),
        Float("threshold", 0.5, -0.01, 12.0, symbol="τ", source="0.5; 0.45 for MBPP and Dream"),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05),
    ],
    signature="overview",
    lanes={"entropy": "nats", "confidence": "probability"},
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The entropy rule of the official `LLaDA/generate.py`. H is the entropy of each mask of the block."""
    end = len(prompt) + p.max_new_tokens
    x = run.canvas(p.max_new_tokens, model.record.device)  # [L]
    while len(masks := mask_positions(x, model.mask_id)):
        a, b = block_of(int(masks[0]), len(prompt), p.block_length, end)
        z_masks = model(x)[masks]  # [m, V]; the block's masks come first
        x0 = gumbel_argmax(z_masks, p.temperature, run.rng, masks, len(x))  # [m]
        inside = int((masks < b).sum())
        H = entropy(z_masks[:inside].double())  # [inside]
        best = certain(H, p.threshold)
        conf = token_probability(z_masks, x0, torch.float32)  # [m]
        x[masks[best]] = x0[best]
        edit = yield run.step(
            commits=(
                masks[best],
                x0[best],
                ["threshold" if h <= p.threshold else "top1" for h in H[best].tolist()],
                conf[best],
            ),
            scores=lambda: {"entropy": (masks, entropy(z_masks)), "confidence": (masks, conf)},
            thresholds={"entropy": p.threshold},
            candidates=lambda: (masks, z_masks),
            spans=[Span("block", a, b)],
            note=f"{some(len(best), inside)} in the block {'is' if len(best) == 1 else 'are'} written; "
            f"the lowest entropy is {float(H.min()):.3f} nats.",
        )
        x = run.apply_edit(edit, x)


def certain(H: Tensor, tau: float) -> Tensor:
    """Indices of the lowest entropy and of all others with H <= tau, the lowest first. H [m]."""
    order = H.argsort(stable=True)
    return order[: max(1, int((tau >= H).sum()))]
