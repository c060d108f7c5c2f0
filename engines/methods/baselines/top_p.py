"""Top-p or nucleus sampling: only the fewest tokens that together reach the mass p may be drawn (Holtzman et al.,
arXiv:1904.09751)."""

from engines.core.truncated import Truncation
from engines.kit import CausalLM, Float, Params, Recorder, Steps, kept_by_mass, max_new_tokens, method
from engines.methods.baselines._sampled import EMITS, LANES, mass, sample, temperature


@method(
    "top-p",
    title="Top-p",
    summary="Only the fewest tokens that together reach a fixed mass may be drawn: few where the model is confident, "
    "many where it is not.",
    needs="causal",
    params=[
        max_new_tokens(),
        Float("top_p", 0.9, 0.0, 1.0, symbol="p", neutral=1.0, source="0.9 in the comparisons"),
        temperature(),
    ],
    signature="thermometer",
    emits=EMITS,
    records={"truncation": Truncation},
    lanes=LANES,
    baseline="temperature",
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The token with which the sum reaches p stays; so does the first one."""
    yield from sample(
        model,
        prompt,
        p,
        run,
        lambda chances: mass(chances, kept_by_mass(chances, p.top_p), p.top_p),
        own="top-p",
    )
