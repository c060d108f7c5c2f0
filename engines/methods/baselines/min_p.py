"""Min-p sampling: only tokens with at least a share of the most likely one's probability may be drawn (Nguyen et al.,
arXiv:2407.01082, ICLR 2025)."""

from __future__ import annotations

from engines.core.truncated import Truncation
from engines.kit import CausalLM, Float, Params, Recorder, Steps, kept_by_ratio, max_new_tokens, method, torch
from engines.methods.baselines._sampled import EMITS, LANES, Cut, sample, temperature


@method(
    "min-p",
    title="Min-p",
    summary="Only tokens with at least a fixed share of the most likely one's probability may be drawn.",
    needs="causal",
    params=[
        max_new_tokens(),
        Float("min_p", 0.1, 0.0, 1.0, neutral=0.0, source="0.05 to 0.1 in the paper"),
        temperature(),
    ],
    signature="thermometer",
    emits=EMITS,
    records={"truncation": Truncation},
    lanes=LANES,
    baseline="temperature",
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Counted is how many times less likely than the first a token is; the line is 1 / min_p."""

    def cut(chances: torch.Tensor) -> Cut:
        kept, ratio = kept_by_ratio(chances, p.min_p), (chances[0] / chances).clamp(max=1e12)  # finite in the record
        line = 1 / p.min_p if p.min_p else float(ratio[-1])
        return Cut(kept, ratio, line, "best probability over a token's own", "score")

    yield from sample(model, prompt, p, run, cut, own="min-p")
