"""Greedy autoregressive decoding: one forward per token, always the most likely one. The control of the causal side.

No paper; the loop every speculative method must reproduce token by token. The first forward reads the whole prompt.
"""

from engines.kit import (
    CausalLM,
    Params,
    Recorder,
    Steps,
    entropy,
    max_new_tokens,
    method,
    token_probability,
)


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
    ids = prompt
    end = len(prompt) + p.max_new_tokens
    cache = model.new_cache(end)
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        fed = ids[cache.length :]
        z = model.extend(fed, cache, last_only=True).logits  # [1, V]
        token, at = int(z[0].argmax()), [len(ids)]
        chance = token_probability(z, z.argmax(-1))  # [1]
        note = f"Read {len(fed)} tokens and wrote the first." if len(fed) > 1 else "One forward, one token."
        ids = [*ids, token]
        ids = run.apply_edit(
            (
                yield run.step(
                    commits=(at, [token], "greedy", chance),
                    scores=lambda: {"confidence": (at, chance), "entropy": (at, entropy(z))},
                    candidates=lambda: (at, z),
                    note=note,
                )
            ),
            ids,
            cache,
        )
