"""A decoding method of your own: sample from left to right, but only tokens that are not much less likely than the best
one.

    decoding-explorer run --method-file my.py --prompt "sort: Mia, Leo, Ada"     its text in the terminal
    decoding-explorer sweep --method-file my.py --model tiny-ar-l --task sort    its quality
    decoding-explorer page --method-file my.py                                   watch it: choose it in a slot

Change the two lines of the rule; everything else tells the page what to draw.
"""

from engines.kit import (
    CausalLM,
    Float,
    LaneInfo,
    Params,
    Recorder,
    Steps,
    distribution,
    draw,
    entropy,
    max_new_tokens,
    method,
)


@method(
    "my-causal",  # its name on the command line; one that is not taken
    title="My causal method",
    family="own",
    paper="",
    summary="Samples among the tokens that have at least a given part of the best one's probability.",
    needs="causal",  # the kind of model: masked, causal, layered, block or seq2seq
    params=[
        max_new_tokens(),
        Float("temperature", 1.0, 0.0, 2.0, step=0.05, help="0 always takes the best token."),
        Float("part", 0.2, 0.0, 1.0, help="Higher leaves fewer tokens to draw from; 1 is greedy."),
    ],
    signature="next",
    emits={"commits", "scores", "candidates", "note"},  # what run.step is given below; each has its view in the player
    lanes={"entropy": LaneInfo("nats", "Entropy of the model's distribution for this token.")},
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One token per step, until an end mark or the last of `max_new_tokens`."""
    ids, end = prompt, len(prompt) + p.max_new_tokens
    cache = model.new_cache(end)
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        # [1, V]: one forward, counted and timed for you
        z = model.extend(ids[cache.length :], cache, last_only=True).logits
        probabilities = distribution(z[0], p.temperature)  # [V]
        # your rule: which tokens may be drawn, and which one is; run.rng makes equal seeds equal
        allowed = probabilities >= p.part * probabilities.max()
        token = draw(probabilities * allowed, run.rng)
        at = [len(ids)]
        ids = [*ids, token]
        edit = yield run.step(  # one step after every forward
            # positions, tokens, why, with which probability
            commits=(at, [token], "sampled", [float(probabilities[token])]),
            scores=lambda: {"entropy": (at, entropy(z))},  # lambdas are called only when somebody looks
            candidates=lambda: (at, z),
            note=f"{int(allowed.sum())} tokens were left to draw from.",
        )
        ids = run.apply_edit(edit, ids, cache)  # what a person changed meanwhile: this is what makes a fork work
