"""Token editing on a board that is seen as a whole: the rule of LLaDA2.1 (Bie et al., arXiv:2602.08676) for models like
LLaDA and Dream.

One forward writes the masks whose token has a probability above θ, at least k of them, and replaces each token of the
block that the model would now write otherwise, with a probability above θ_e. Once a block holds no mask, further
forwards only edit: at most R of them, and the first that changes nothing is the last.

The paper does not mean this for such models: they saw right tokens only and were never trained to replace one. We
depart from it in what a forward sees: the whole board, with the masks of later blocks, and nothing is stored. The mask
token is never proposed."""

from engines.kit import (
    Int,
    MaskedLM,
    Params,
    Recorder,
    Span,
    Steps,
    block_of,
    max_new_tokens,
    method,
)
from engines.methods.diffusion._editing import EMITS, LANES_TOO, PARAMS, Edits, Past, forward


@method(
    "token-editing",
    title="Token editing",
    paper="arXiv:2602.08676",
    code="https://github.com/inclusionAI/LLaDA2.X",
    summary="LLaDA2.1's rule on a board that is seen as a whole: one forward writes masks and replaces written tokens.",
    needs="masked",
    params=[max_new_tokens(), Int("block_length", 16, 1, 1024, symbol="B"), *PARAMS],
    signature="edits",
    emits=EMITS,
    records={"edits": Edits},
    lanes=LANES_TOO,
    baseline="threshold",
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One step per forward, of the whole board. Blocks of `block_length` are counted from the prompt's end."""
    end = len(prompt) + p.max_new_tokens
    x = run.canvas(p.max_new_tokens, model.record.device)  # [L]
    past, post = Past(x, model.mask_id), 0
    at = past.start  # a position of the open block
    while at < end:
        a, b = block_of(at, len(prompt), p.block_length, end)
        filled = bool((x[a:b] != model.mask_id).all())
        if filled and post == p.max_post_steps:
            at, post = b, 0
            continue
        step, edits = forward(run, x, model(x)[a:b], (a, b), [Span("block", a, b)], past, p.num_to_transfer, p)
        post += filled
        edit = yield step
        x = run.apply_edit(edit, x)
        past.see(x, edit)
        if edit and (touched := [*edit.force, *edit.remask]):
            at, post = min(a, *touched), 0
        elif filled and not edits:
            at, post = b, 0
