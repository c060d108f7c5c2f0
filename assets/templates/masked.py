"""A decoding method of your own: write every masked token that the model is confident of, and always the most
confident one.

    decoding-explorer run --method-file my.py --prompt "sort: Mia, Leo, Ada"     its text in the terminal
    decoding-explorer sweep --method-file my.py --model tiny-dlm --task sort     its quality against a plain threshold
    decoding-explorer page --method-file my.py                                   watch it: choose it in a slot

Change the two lines of the rule; everything else tells the page what to draw. `run.steps` counts the steps before this
one: `threshold = p.threshold * 0.9**run.steps` would fall from step to step.
"""

from engines.kit import (
    Float,
    LaneInfo,
    MaskedLM,
    Params,
    Recorder,
    Steps,
    mask_positions,
    max_new_tokens,
    method,
    token_probability,
)


@method(
    "my-masked",  # its name on the command line; one that is not taken
    title="My masked method",
    family="own",
    paper="",
    summary="Writes every token whose probability reaches the threshold, and always the most likely one.",
    needs="masked",  # the kind of model: masked, causal, layered, block or seq2seq
    params=[max_new_tokens(), Float("threshold", 0.9, 0.0, 1.0, help="Lower writes more tokens in one forward.")],
    signature="bars",
    emits={"commits", "scores", "candidates", "note"},  # what run.step is given below; each has its view in the player
    lanes={"confidence": LaneInfo("probability", "Probability of the most likely token at each masked position.")},
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One forward per step, until no mask is left."""
    x = run.canvas(p.max_new_tokens, model.record.device)  # [L]: the prompt, then masks
    while len(masks := mask_positions(x, model.mask_id)):  # [m]: the positions that are still open
        z = model(x)[masks]  # [m, V]: one forward, counted and timed for you
        best = z.argmax(-1)  # [m]: the most likely token at each of them
        confidence = token_probability(z, best)  # [m]
        # your rule: what is written now; at least the most confident token is, so that the loop ends
        threshold = min(p.threshold, confidence.max().item())
        chosen = confidence >= threshold  # [m]
        x[masks[chosen]] = best[chosen]
        edit = yield run.step(  # one step after every forward
            # positions, tokens, why, with which probability
            commits=(masks[chosen], best[chosen], "threshold", confidence[chosen]),
            scores=lambda: {"confidence": (masks, confidence)},  # lambdas are called only when somebody looks
            thresholds={"confidence": threshold},  # drawn with the bars
            candidates=lambda: (masks, z),
            note=f"{int(chosen.sum())} of {len(masks)} open positions are written.",
        )
        x = run.apply_edit(edit, x)  # what a person changed meanwhile: this is what makes a fork work
