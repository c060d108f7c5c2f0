"""Entropy-bounded sampling of canvases, as DiffusionGemma is decoded (Google, transformers 5.23 models/diffusion_gemma;
the bound is that of Ben-Hamu et al., arXiv:2505.24857).

A canvas begins as noise. Each forward gives a distribution for every position; a token is drawn at each, and those of
the lowest entropies are accepted as long as the entropies of the ones accepted before add up to no more than a bound:
tokens whose entropies are that small cannot tell each other much, so drawing them at once is nearly as good as one by
one. All other positions are noise again, those accepted a step ago as well. The distributions of a step condition the
next one. A canvas ends when its likeliest tokens stay the same and are sure on average, or after N steps, and what is
kept are the likeliest tokens, not those that were accepted.

The rules, their order and their draws are those of `generate` in transformers; with `answer=canvas` those of the
pipeline in diffusers 0.42.1, which keeps the canvas with its noise and puts nothing in the place of what stands behind
an end mark. A token that a person forces is kept in the canvas of every later step.

Letters: L positions of a canvas, V vocabulary, n = N ... 1 steps that are left."""

from __future__ import annotations

from engines.kit import (
    CanvasLM,
    Choice,
    Float,
    Params,
    Recorder,
    Step,
    Steps,
    Tensor,
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
    temper,
)


@method(
    "entropy-bound",
    title="Entropy bound",
    family="diffusion",
    paper="arXiv:2505.24857",
    code="https://github.com/huggingface/transformers",
    summary="Each forward accepts the tokens of lowest entropy up to a bound on their sum; the rest is noise again.",
    needs="canvas",
    params=[
        max_new_tokens(),
        STEPS,
        Float("entropy_bound", 0.1, 0.0, 64.0, step=0.05, symbol="γ"),
        Float("t_max", 0.8, 0.05, 2.0, step=0.05, symbol="τ₁"),
        Float("t_min", 0.4, 0.05, 2.0, step=0.05, symbol="τ₀"),
        STABILITY,
        CONFIDENCE,
        Choice("answer", "argmax", ("argmax", "canvas"), source="argmax in transformers, canvas in diffusers"),
    ],
    emits={"commits", "scores", "candidates", "spans", "facts", "note"},
    signature="canvas",
    records={"canvas": Canvas},
    lanes={"entropy": "nats", "joint": "nats"},
)
def decode(model: CanvasLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """1. of `generate`: canvas after canvas, each denoised in at most N steps (1.a to 1.e)."""
    board = Canvases(model, prompt, p, run)
    while board.unfinished():
        edit = yield run.step(**board.begin(p.max_denoising_steps))
        board.edit(edit)
        z: Tensor | None = None
        n, done = p.max_denoising_steps, False
        while n > 0 and not done:
            z, t = temper(board.denoise(z), p.t_min, p.t_max, n, p.max_denoising_steps)  # [L, V], 1.c.i and ii
            chance = z.softmax(-1)  # [L, V], once: with a large vocabulary each pass over it counts
            sampled = drawn(chance, run)  # [L]
            H = torch.special.entr(chance).sum(-1)  # [L]
            joint, accepted = within_bound(H, p.entropy_bound)
            noise = board.noise()  # 1.c.iii
            argmax = z.argmax(-1)
            stable = board.stable(argmax, p.stability_threshold)  # 1.c.iv
            sure, mean = confident(H, p.confidence_threshold)
            stop, n = stable and sure, n - 1
            done = stop or n == 0
            edit = yield stepped(
                board,
                p,
                run,
                (z, chance),
                Drawn(sampled, noise, argmax, accepted, joint, H),
                (t, mean, stable, stop, done),
            )
            board.edit(edit)
            if edit and edit.remask and done:  # a position hidden at the end is written after all
                n, done = max(n, 1), False


class Drawn:
    """What a step drew and decided, each [L]: tokens of the model, noise, its likeliest tokens, where the model's are
    accepted, the entropies that add up before each, and its own."""

    def __init__(
        self, sampled: Tensor, noise: Tensor, argmax: Tensor, accepted: Tensor, joint: Tensor, entropies: Tensor
    ) -> None:
        self.sampled, self.noise, self.argmax = sampled, noise, argmax
        self.accepted, self.joint, self.entropies = accepted, joint, entropies


def within_bound(H: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """The lowest entropies whose sum, each one's own left out, is within the bound: always at least one. H [L] -> the
    sums before each [L] and whether it is accepted [L]."""
    rising, order = H.sort()
    before = rising.cumsum(-1) - rising
    joint = torch.empty_like(H).scatter(0, order, before)
    return joint, joint <= bound


def stepped(
    board: Canvases,
    p: Params,
    run: Recorder,
    scored: tuple[Tensor, Tensor],
    d: Drawn,
    end: tuple[float, float, bool, bool, bool],
) -> Step:
    """Write what a step leaves, a canvas or the answer, and record it. scored: logits and probabilities [L, V]. end:
    temperature, mean entropy, whether the argmax is stable, whether that and the entropy end the canvas, whether it is
    its last step."""
    (z, chance), (t, mean, stable, stop, done) = scored, end
    before, was = board.canvas, board.source
    after = torch.where(d.accepted, d.sampled, d.noise)
    record = board.record("denoise", p.max_denoising_steps, before, after, p)
    record.line = p.entropy_bound
    renoised, board.source = was & ~d.accepted, d.accepted
    record.sampled, record.noise, record.argmax = d.sampled.tolist(), d.noise.tolist(), d.argmax.tolist()
    record.accepted, record.renoised = board.positions(d.accepted), board.positions(renoised)
    record.temperature, record.mean_entropy, record.stable, record.stop, record.last = t, mean, stable, stop, done
    places = list(board.places)
    record.entropies, record.joint = exact(d.entropies), exact(d.joint)
    record.chances = exact(chance.gather(-1, d.sampled[:, None])[:, 0])
    keep = d.argmax if done and (p.answer == "argmax" or stop) else after
    settled = done and keep is d.argmax
    padded: list[int] = []
    if settled and p.answer == "argmax":
        keep, padded = padded_behind(keep, board)
    written = board.write(keep)
    record.after = after.tolist() if done else written.tolist()
    why = causes(
        places,
        {"padding": padded, "forced": record.held, "settled": places if settled else []}
        | {"accepted": record.accepted, "renoised": [] if done else record.renoised},
        "kept" if done else "noise",  # with its noise the canvas is the answer
    )
    likely = chance.gather(-1, (d.argmax if settled else d.sampled)[:, None])[:, 0].tolist()
    known = [c if w in ("accepted", "settled") else None for c, w in zip(likely, why, strict=True)]
    return run.step(
        commits=(places, written, why, known),
        scores=lambda: {"entropy": (places, d.entropies), "joint": (places, d.joint)},
        thresholds={"joint": p.entropy_bound},
        candidates=lambda: (places, z),
        spans=board.spans(),
        facts={"temperature": t, "mean_entropy": mean},
        records={"canvas": record},
        note=note(int(d.accepted.sum()), int(renoised.sum()), mean, settled, stop),
    )


def padded_behind(canvas: Tensor, board: Canvases) -> tuple[Tensor, list[int]]:
    """1.e: the canvas [L] with padding behind its first end mark, and the positions that it took."""
    ends = [i for i, token in enumerate(canvas.tolist()) if token in board.model.eos_ids]
    if not ends:
        return canvas, []
    canvas = canvas.clone()
    canvas[ends[0] + 1 :] = board.model.pad_id
    return canvas, list(range(board.start + ends[0] + 1, board.start + board.length))


def note(accepted: int, renoised: int, mean: float, settled: bool, stop: bool) -> str:
    """A sentence on what was accepted, and one on how the canvas ended."""
    counts = f"{accepted} {'is' if accepted == 1 else 'are'} accepted"
    if renoised:
        counts += f", {renoised} accepted before {'is' if renoised == 1 else 'are'} noise again"
    if not settled:
        return f"{counts}; the mean entropy is {mean:.3f}."
    why = "they stayed the same and are sure" if stop else "the steps are used up"
    return f"{counts}; the likeliest tokens are kept, since {why}."
