"""Block refinement of canvases: commit by confidence, with edits (diffusers 0.42.1, `BlockRefinementScheduler` without
a mask token under `DiffusionGemmaPipeline`; the editing is that of LLaDA2.1).

A canvas begins as noise, and each position is either committed or not. Each forward proposes a token everywhere. The
most confident of the uncommitted positions are committed, as many as the schedule still owes (so that all are committed
after N steps) and every one above a threshold. A committed token is replaced where the proposal is another one and more
confident than a second threshold, of which 1 edits nothing. Whatever is not committed is drawn anew. The logits of a
step, untempered, condition the next one. A canvas ends as under the entropy bound; what is kept is the canvas, or its
likeliest tokens if it ended early.

A token that a person forces counts as committed and is not edited.

Letters: L positions of a canvas, V vocabulary, i = 0 ... N - 1 steps."""

from __future__ import annotations

from engines.kit import (
    CanvasLM,
    Float,
    Params,
    Recorder,
    Step,
    Steps,
    Tensor,
    entropy,
    exact,
    max_new_tokens,
    method,
    torch,
)
from engines.methods.diffusion._canvases import (
    CONFIDENCE,
    STABILITY,
    STEPS,
    Canvas,
    Canvases,
    causes,
    confident,
    drawn,
)


@method(
    "block-refinement",
    title="Block refinement",
    family="diffusion",
    paper="",
    code="https://github.com/huggingface/diffusers",
    summary="The most confident tokens of a canvas of noise are written; a more confident proposal may replace them.",
    needs="canvas",
    params=[
        max_new_tokens(),
        STEPS,
        Float("threshold", 0.95, 0.0, 1.0, symbol="θ"),
        Float("editing_threshold", 1.0, 0.0, 1.0, symbol="θₑ"),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="τ"),
        STABILITY,
        CONFIDENCE,
    ],
    emits={"commits", "scores", "candidates", "spans", "facts", "note"},
    signature="canvas",
    records={"canvas": Canvas},
    lanes={"confidence": "probability"},
)
def decode(model: CanvasLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """`step` of the scheduler in the loop of the pipeline."""
    board = Canvases(model, prompt, p, run)
    while board.unfinished():
        edit = yield run.step(**board.begin(p.max_denoising_steps))
        board.edit(edit)
        z: Tensor | None = None
        i, done = 0, False
        while not done:
            N, L = p.max_denoising_steps, board.length
            z = board.denoise(z)  # [L, V]
            sampled, chance = proposed(z, p.temperature, run)  # [L], [L]
            committed = board.source | board.held()  # [L]
            owed = max(0, -(-(i + 1) * L // N) - int(committed.sum()))
            rank = chance.masked_fill(committed, -torch.inf).argsort(descending=True).argsort()
            new = ~committed & ((rank < owed) | (chance > p.threshold))
            edited = committed & ~board.held() & (sampled != board.canvas) & (chance > p.editing_threshold)
            noise = board.noise()
            after = torch.where(new | edited, sampled, board.canvas)
            after = torch.where(committed | new, after, noise)
            sure, mean = confident(entropy(z), p.confidence_threshold)
            stop = board.stable(z.argmax(-1), p.stability_threshold) & sure
            i += 1
            done = stop or i >= N
            edit = yield stepped(board, p, run, z, (sampled, chance, noise, after), (new, edited), (mean, stop, done))
            board.edit(edit)
            done = done and not (edit and edit.remask)


def proposed(z: Tensor, temperature: float, run: Recorder) -> tuple[Tensor, Tensor]:
    """A token [L] for each position and its probability [L], under its temperature; the likeliest at 0."""
    chances = (z / temperature if temperature else z).softmax(-1)
    tokens = drawn(chances, run) if temperature else z.argmax(-1)
    return tokens, chances.gather(-1, tokens[:, None])[:, 0]


def stepped(
    board: Canvases,
    p: Params,
    run: Recorder,
    z: Tensor,
    drew: tuple[Tensor, Tensor, Tensor, Tensor],
    took: tuple[Tensor, Tensor],
    ends: tuple[float, bool, bool],
) -> Step:
    """Write the canvas that a step leaves and record it. drew: proposals, their probabilities, noise, the canvas after
    it; took: what is committed and what is edited; ends: mean entropy, whether it ends early, and whether it ends."""
    (sampled, chance, noise, after), (new, edited), (mean, stop, done) = drew, took, ends
    record = board.record("denoise", p.max_denoising_steps, board.canvas, after, p)
    record.sampled, record.noise, record.argmax = sampled.tolist(), noise.tolist(), z.argmax(-1).tolist()
    record.accepted, record.edited = board.positions(new), board.positions(edited)
    record.line = p.threshold
    record.kept = board.positions(board.source & ~edited)
    record.temperature, record.mean_entropy, record.stop, record.last = p.temperature, mean, stop, done
    record.chances = exact(chance)
    board.source = board.source | new
    written = board.write(z.argmax(-1) if stop else after)
    record.after = after.tolist() if stop else written.tolist()
    sure = board.positions(new & (chance > p.threshold))
    places = list(board.places)
    shown = places if stop else [at for at in places if at not in record.kept]
    why = causes(
        shown,
        {"forced": record.held, "settled": places if stop else [], "changed": record.edited}
        | {"threshold": sure, "quota": record.accepted},
        "noise",
    )
    tokens = [int(written[at - board.start]) for at in shown]
    chances = [
        None if cause in ("noise", "forced", "settled") else float(chance[at - board.start])
        for at, cause in zip(shown, why, strict=True)
    ]
    return run.step(
        commits=(shown, tokens, why, chances) if shown else None,
        scores=lambda: {"confidence": (places, chance)},
        thresholds={"confidence": p.threshold},
        candidates=lambda: (places, z),
        spans=board.spans(),
        facts={"mean_entropy": mean, "committed": float(board.source.sum())},
        records={"canvas": record},
        note=f"{int(new.sum())} of {board.length} are written, {int(edited.sum())} edited"
        + ("; the likeliest tokens are kept, since they stayed the same and are sure." if stop else "."),
    )
