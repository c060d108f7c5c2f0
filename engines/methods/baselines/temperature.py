"""Plain sampling: the next token is drawn from softmax(z / T), nothing cut off (Ackley, Hinton and Sejnowski 1985 for
the temperature). The control of every sampler that cuts."""

from engines.core.truncated import Truncation
from engines.kit import CausalLM, Params, Recorder, Steps, max_new_tokens, method
from engines.methods.baselines._sampled import EMITS, LANES, mass, sample, temperature


@method(
    "temperature",
    title="Sampling",
    summary="The next token is drawn from the model's own distribution, flattened or sharpened by a temperature.",
    needs="causal",
    params=[max_new_tokens(), temperature(neutral=0.0)],
    signature="thermometer",
    emits=EMITS,
    records={"truncation": Truncation},
    lanes=LANES,
    baseline="greedy",
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """All tokens are let through."""
    yield from sample(model, prompt, p, run, lambda chances: mass(chances, len(chances), 1.0))
