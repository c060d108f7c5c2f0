"""LLaDA2.1: token editing, or what was written may be replaced (Bie et al., arXiv:2602.08676; code
inclusionAI/LLaDA2.X, Apache-2.0).

LLaDA2.0's blocks, with a second threshold. One forward of the open block does both: it writes the masks whose token has
a probability above θ, at least k of them (mask to token), and it replaces each token of the block that the model would
now write otherwise, with a probability above θ_e (token to token). So a low θ may write fast and wrong, and later
forwards repair it. Once no mask is left, further forwards only edit: at most R of them, and the first that changes
nothing is the last. What stands in finished blocks and in the prompt is never edited.

The rules follow `generate` of the model file on the hub (mirrored in ZHZisZZ/dllm, commit ca176752); λ is that of
JointThreshold in sglang 0.5.23: it is taken from the logit of the token that the left neighbour in the block holds, so
that no token is written twice in a row without need. With S above 0 the loop is diffusers' (0.42.1, LLaDA2Pipeline): a
block has S forwards that write masks, each owes its share of them, and the block that needs all of them is not edited
any more; an end mark ends at once. We depart in: the mask token is never proposed, so that nothing is
masked again; finished blocks are stored by a forward of their own; what the last block holds past `max_new_tokens`
stays in the answer.

The same rule edits a board that is seen as a whole, for models like LLaDA and Dream. The paper does not mean this for
them: they saw right tokens only and were never trained to replace one. There a forward sees the masks of later blocks,
too, and nothing is stored.

Letters: B positions of a block, V vocabulary."""

from engines.kit import (
    BlockMaskedLM,
    Bool,
    Int,
    MaskedLM,
    Params,
    Recorder,
    Span,
    Steps,
    block_of,
    mask_positions,
    max_new_tokens,
    method,
    transfer_schedule,
)
from engines.methods.diffusion._editing import EMITS, LANES_TOO, PARAMS, Edits, Past, forward
from engines.methods.diffusion._forward import unmasking
from engines.methods.diffusion._open_block import OpenBlock, ended


@method(
    "llada21",
    title="LLaDA2.1",
    paper="arXiv:2602.08676",
    code="https://github.com/inclusionAI/LLaDA2.X",
    summary="Blocks from left to right; one forward writes masks above one threshold and replaces written tokens above "
    "another.",
    needs="block",
    params=[
        max_new_tokens(),
        *PARAMS,
        Int("steps", 0, 0, 1024, symbol="S", source="32 in diffusers' pipeline; the paper has none"),
        Bool("eos_early_stop", True, source="on in diffusers and in the models' examples, off in the code"),
    ],
    signature="edits",
    emits=EMITS,
    records={"edits": Edits},
    lanes=LANES_TOO,
)
def decode(model: BlockMaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One step per forward of the open block, and one for each that stores what is finished."""
    P, B = len(prompt), model.block_size
    x = run.canvas(-(-(P + p.max_new_tokens) // B) * B - P, model.record.device)  # [L], whole blocks
    blocks, past = OpenBlock(model, len(x)), Past(x, model.mask_id)
    a, made, post = past.start // B * B, 0, 0  # the open block's start, its forwards with masks, and those without
    while a < len(x):
        edit, done, filled = None, False, bool((x[a : a + B] != model.mask_id).all())
        if blocks.lacks(a):
            edit = yield blocks.store(run, x, a)
        elif filled and (post == p.max_post_steps or (p.steps and made >= p.steps)):
            done = True
        else:
            owed = transfer_schedule(B, p.steps)[made:][:1] if p.steps else [p.num_to_transfer]
            step, edits = forward(run, x, blocks(x, a), (a, a + B), blocks.spans(a), past, (owed or [1])[0], p)
            made, post = made + (not filled), post + filled
            edit, done = (yield step), filled and not edits
        x = run.apply_edit(edit, x)
        blocks.forget(edit)
        past.see(x, edit)
        if edit and (touched := [*edit.force, *edit.remask]):
            a, made, post = min(a, min(touched) // B * B), 0, 0
        elif done:
            a, made, post = a + B, 0, 0
        masks = mask_positions(x, model.mask_id)
        if p.eos_early_stop and (done or p.steps) and ended(x[P : masks[0] if len(masks) else None], model.eos_ids):
            return


@unmasking(
    "token-editing",
    title="Token editing",
    paper="arXiv:2602.08676",
    code="https://github.com/inclusionAI/LLaDA2.X",
    summary="LLaDA2.1's rule on a board that is seen as a whole: one forward writes masks and replaces written tokens.",
    params=[Int("block_length", 16, 1, 1024, symbol="B"), *PARAMS],
    signature="edits",
    emits=EMITS,
    records={"edits": Edits},
    lanes=LANES_TOO,
    baseline="threshold",
)
def decode_whole_board(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
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
