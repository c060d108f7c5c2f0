"""LLaDA2.0: blocks that are written all at once where the model is sure (Bie et al., arXiv:2512.15745; code
inclusionAI/LLaDA2.X, Apache-2.0).

The text is cut into blocks of B absolute positions. A block sees itself in both directions and everything before it, so
what is finished stays as it is. Each forward of the open block writes every mask whose token has a probability above
θ, if these are at least as many as a plain schedule owes; else the schedule's share, the best ones. So a block takes
`steps` forwards at most. An answer that holds an end mark ends with its block.

The rules follow `generate` of the model file on the hub (mirrored in ZHZisZZ/dllm, commit ca176752). We depart in: the
mask token is never proposed; finished blocks are stored by a forward of their own (official: the whole text is fed
again each time), which changes no distribution; what the last block holds past `max_new_tokens` stays in the answer
(official: cut off); an end mark in the prompt ends nothing; there is no `eos_early_stop`, which ends
inside a block where its end mark and everything before it are written."""

from engines.kit import (
    BlockMaskedLM,
    Float,
    Int,
    Params,
    Recorder,
    Step,
    Steps,
    Tensor,
    entropy,
    mask_positions,
    max_new_tokens,
    method,
    transfer_schedule,
)
from engines.methods.diffusion._forward import some
from engines.methods.diffusion._open_block import LANES, TEMPERATURE, TOP_K, TOP_P, OpenBlock, ended, enough, propose


@method(
    "llada2",
    title="LLaDA2.0",
    paper="arXiv:2512.15745",
    code="https://github.com/inclusionAI/LLaDA2.X",
    summary="Blocks from left to right; each forward writes all masks above a threshold, and never fewer than a plain "
    "schedule would.",
    needs="block",
    params=[
        max_new_tokens(),
        Float("threshold", 0.95, 0.0, 1.01, symbol="θ"),
        Int("steps", 32, 1, 1024, symbol="S", source="32, as many as a block has positions"),
        TEMPERATURE,
        TOP_K,
        TOP_P,
    ],
    signature="bars",
    emits={"commits", "scores", "candidates", "spans", "facts", "note"},
    lanes=LANES,
)
def decode(model: BlockMaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One step per forward of the open block, and one for each that stores what is finished."""
    P, B = len(prompt), model.block_size
    x = run.canvas(-(-(P + p.max_new_tokens) // B) * B - P, model.record.device)  # [L], whole blocks
    blocks = OpenBlock(model, len(x))
    a, made = -1, 0  # the open block's start, and the forwards that it has had
    while len(masks := mask_positions(x, model.mask_id)):
        start = int(masks[0]) // B * B
        if start != a:
            if start > a and ended(x[P:start], model.eos_ids):
                return
            a, made = start, 0
        if blocks.lacks(a):
            edit = yield blocks.store(run, x, a)
        else:
            owed = (transfer_schedule(B, p.steps)[made:] or [1])[0]  # 1 where a person masked some again
            edit = yield fill(run, x, blocks, a, owed, p)
            made += 1
        x = run.apply_edit(edit, x)
        blocks.forget(edit)


def fill(run: Recorder, x: Tensor, blocks: OpenBlock, a: int, quota: int, p: Params) -> Step:
    """A forward of the block at a and what it writes, into x."""
    z = blocks(x, a)  # [B, V]
    x0, chance = propose(z, p.temperature, p.top_k, p.top_p, run.rng)  # [B]
    masks = mask_positions(x[a : a + blocks.size], blocks.model.mask_id)  # [m], in the block
    best, causes = enough(chance[masks], p.threshold, quota)
    chosen = masks[best]
    x[a + chosen] = x0[chosen]
    sure = causes.count("threshold")
    return run.step(
        commits=(a + chosen, x0[chosen], causes, chance[chosen]),
        scores=lambda: {"confidence": (a + masks, chance[masks]), "entropy": (a + masks, entropy(z[masks]))},
        thresholds={"confidence": p.threshold},
        candidates=lambda: (a + masks, z[masks]),
        spans=blocks.spans(a),
        facts={"kv_len": blocks.length, "quota": quota},
        note=f"{some(len(chosen), len(masks))} in the block {'is' if len(chosen) == 1 else 'are'} written"
        + (f": {sure} above the threshold." if sure >= quota else f": {quota} must be, {sure} above the threshold."),
    )
