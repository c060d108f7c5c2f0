"""Top-k sampling: only the k most likely tokens may be drawn (Fan, Lewis and Dauphin, arXiv:1805.04833)."""

from __future__ import annotations

from engines.core.truncated import Truncation
from engines.kit import CausalLM, Int, Params, Recorder, Steps, kept_by_rank, max_new_tokens, method, torch
from engines.methods.baselines._sampled import EMITS, LANES, Cut, sample, temperature


@method(
    "top-k",
    title="Top-k",
    summary="Only the k most likely tokens may be drawn, however confident the model is.",
    needs="causal",
    params=[
        max_new_tokens(),
        Int("top_k", 50, 0, 1000, symbol="k", neutral=0, source="usual setting"),
        temperature(),
    ],
    signature="thermometer",
    emits=EMITS,
    records={"truncation": Truncation},
    lanes=LANES,
    baseline="temperature",
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Equal probabilities at the k-th place: lower ids first."""

    def cut(chances: torch.Tensor) -> Cut:
        ranks = torch.arange(1.0, len(chances) + 1)
        return Cut(kept_by_rank(chances, p.top_k), ranks, float(p.top_k or len(chances)), "rank", "count")

    yield from sample(model, prompt, p, run, cut, own="top-k")
