"""Greedy autoregressive decoding: one forward per token, always the most likely one. The control of the causal side.

No paper; the loop every speculative method must reproduce token by token. The first forward reads the whole prompt.
"""

from engines.kit import (
    CausalLM,
    Params,
    Recorder,
    Steps,
    max_new_tokens,
    method,
)
from engines.methods.baselines._plain import token_groups


@method(
    "greedy",
    title="Greedy autoregressive",
    summary="One token per forward pass, always the most likely one. What every lossless method of the causal side "
    "must reproduce.",
    needs="causal",
    params=[max_new_tokens()],
    signature="next",
    emits={"commits", "scores", "candidates", "note"},
    lanes={"confidence": "probability", "entropy": "nats"},
    lossless=True,
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Invariant after every step: the cache holds all ids but the last."""
    ids, end = prompt, len(prompt) + p.max_new_tokens
    cache = model.new_cache(end)
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        fed = ids[cache.length :]
        z = model.extend(fed, cache, last_only=True).logits  # [1, V]
        token = int(z[0].argmax())
        note = f"Read {len(fed)} tokens and wrote the first." if len(fed) > 1 else "One forward, one token."
        edit = yield run.step(**token_groups(len(ids), token, z), note=note)
        ids = run.apply_edit(edit, [*ids, token], cache)
