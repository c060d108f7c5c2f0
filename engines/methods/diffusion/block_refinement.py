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
from engines.methods.diffusion import _canvases as canvases


@method(
    "block-refinement",
    title="Block refinement",
    code="https://github.com/huggingface/diffusers",
    summary="The most confident tokens of a canvas of noise are written; a more confident proposal may replace them.",
    needs="canvas",
    params=[
        max_new_tokens(),
        canvases.STEPS,
        Float("threshold", 0.95, 0.0, 1.0, symbol="θ"),
        Float("editing_threshold", 1.0, 0.0, 1.0, symbol="θₑ"),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="τ"),
        canvases.STABILITY,
        canvases.CONFIDENCE,
    ],
    emits={"commits", "scores", "candidates", "spans", "facts", "note"},
    signature="canvas",
    records={"canvas": canvases.Canvas},
    lanes={"confidence": "probability"},
)
def decode(model: CanvasLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """`step` of the scheduler in the loop of the pipeline."""
    board = canvases.Canvases(model, prompt, p, run)
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
            sure, mean = canvases.confident(entropy(z), p.confidence_threshold)
            argmax = z.argmax(-1)
            stop = board.stable(argmax, p.stability_threshold) & sure
            i += 1
            done = stop or i >= N
            record = board.record(
                "denoise",
                N,
                p,
                after=torch.where(committed | new, after, noise),
                sampled=sampled,
                noise=noise,
                argmax=argmax,
                accepted=new,
                edited=edited,
                kept=board.source & ~edited,
                line=p.threshold,
                temperature=p.temperature,
                mean_entropy=mean,
                stop=stop,
                last=done,
                chances=exact(chance),
            )
            board.source = board.source | new
            edit = yield refine(board, p, run, record, z, chance)
            board.edit(edit)
            done = done and not (edit and edit.remask)


def proposed(z: Tensor, temperature: float, run: Recorder) -> tuple[Tensor, Tensor]:
    """A token [L] for each position and its probability [L], under its temperature; the likeliest at 0."""
    chances = (z / temperature if temperature else z).softmax(-1)
    tokens = canvases.drawn(chances, run) if temperature else z.argmax(-1)
    return tokens, canvases.of(tokens, chances)


def refine(
    board: canvases.Canvases, p: Params, run: Recorder, record: canvases.Canvas, z: Tensor, chance: Tensor
) -> Step:
    """Write the canvas that a step leaves and record it."""
    stop, places = record.stop, list(board.places)
    board.write(torch.tensor(record.argmax if stop else record.after), record, stop)
    sure = [at for at in record.accepted if chance[at - board.start] > p.threshold]
    why = {"forced": record.held, "settled": places if stop else [], "changed": record.edited}
    why |= {"threshold": sure, "quota": record.accepted}
    return run.step(
        commits=board.commits(record, why, "noise", chance, {"changed", "threshold", "quota"}),
        scores=lambda: {"confidence": (places, chance)},
        thresholds={"confidence": p.threshold},
        candidates=lambda: (places, z),
        spans=board.spans(),
        facts={"mean_entropy": record.mean_entropy, "committed": float(board.source.sum())},
        records={"canvas": record},
        note=f"{len(record.accepted)} of {board.length} are written, {len(record.edited)} edited"
        + ("; the likeliest tokens are kept, since they stayed the same and are sure." if stop else "."),
    )
