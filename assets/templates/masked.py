"""A decoding method of your own: write every masked token that the model is sure of, and always the surest one.

    decoding-explorer run --method-file my.py --prompt "sort: Mia, Leo, Ada"     its text in the terminal
    decoding-explorer sweep --method-file my.py --model tiny-dlm --task sort     its quality against a plain threshold
    decoding-explorer page --method-file my.py                                   watch it: choose it in a slot

Change the rule in the three lines marked HERE. Everything else tells the page what to draw. `run.steps` counts the
steps before this one: 0 in the first.
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
    summary="Writes every token whose probability reaches the threshold, and always the surest one.",
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
        sure = token_probability(z, best)  # [m]
        limit = p.threshold  # HERE: or p.threshold * pow(0.9, run.steps), which falls from step to step
        ready = sure >= limit  # HERE: which of them are written now ...
        ready |= sure == sure.max()  # HERE: ... and never none, or it would not end
        x[masks[ready]] = best[ready]
        edit = yield run.step(  # one step after every forward
            # positions, tokens, why, with which probability
            commits=(masks[ready], best[ready], "threshold", sure[ready]),
            scores=lambda: {"confidence": (masks, sure)},  # lambdas are called only when somebody looks
            thresholds={"confidence": limit},  # drawn with the bars
            candidates=lambda: (masks, z),
            note=f"{int(ready.sum())} of {len(masks)} open positions are written.",
        )
        x = run.apply_edit(edit, x)  # what a person changed meanwhile: this is what makes a fork work
