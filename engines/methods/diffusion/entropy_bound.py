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
from engines.methods.diffusion import _canvases as canvases


@method(
    "entropy-bound",
    title="Entropy bound",
    paper="arXiv:2505.24857",
    code="https://github.com/huggingface/transformers",
    summary="Each forward accepts the tokens of lowest entropy up to a bound on their sum; the rest is noise again.",
    needs="canvas",
    params=[
        max_new_tokens(),
        canvases.STEPS,
        Float("entropy_bound", 0.1, 0.0, 64.0, step=0.05, symbol="γ"),
        Float("t_max", 0.8, 0.05, 2.0, step=0.05, symbol="τ₁"),
        Float("t_min", 0.4, 0.05, 2.0, step=0.05, symbol="τ₀"),
        canvases.STABILITY,
        canvases.CONFIDENCE,
        Choice("answer", "argmax", ("argmax", "canvas"), source="argmax in transformers, canvas in diffusers"),
    ],
    emits={"commits", "scores", "candidates", "spans", "facts", "note"},
    signature="canvas",
    records={"canvas": canvases.Canvas},
    lanes={"entropy": "nats", "joint": "nats"},
)
def decode(model: CanvasLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """1. of `generate`: canvas after canvas, each denoised in at most N steps (1.a to 1.e)."""
    board = canvases.Canvases(model, prompt, p, run)
    while board.unfinished():
        edit = yield run.step(**board.begin(p.max_denoising_steps))
        board.edit(edit)
        z: Tensor | None = None
        n, done = p.max_denoising_steps, False
        while n > 0 and not done:
            z, t = canvases.temper(board.denoise(z), p.t_min, p.t_max, n, p.max_denoising_steps)  # [L, V], 1.c.i and ii
            P = z.softmax(-1)  # [L, V], once: with a large vocabulary each pass over it counts
            sampled = canvases.drawn(P, run)  # [L]
            H = torch.special.entr(P).sum(-1)  # [L]
            joint, accepted = within_bound(H, p.entropy_bound)
            noise = board.noise()  # 1.c.iii
            argmax = z.argmax(-1)
            stable = board.stable(argmax, p.stability_threshold)  # 1.c.iv
            sure, mean = canvases.confident(H, p.confidence_threshold)
            stop, n = stable and sure, n - 1
            done = stop or n == 0
            record = board.record(
                "denoise",
                p.max_denoising_steps,
                p,
                after=torch.where(accepted, sampled, noise),
                sampled=sampled,
                noise=noise,
                argmax=argmax,
                accepted=accepted,
                renoised=board.source & ~accepted,
                line=p.entropy_bound,
                temperature=t,
                mean_entropy=mean,
                stable=stable,
                stop=stop,
                last=done,
                entropies=exact(H),
                joint=exact(joint),
                chances=exact(canvases.of(sampled, P)),
            )
            board.source = accepted
            edit = yield denoise_step(board, p, run, record, z, P)
            board.edit(edit)
            if edit and edit.remask and done:  # a position hidden at the end is written after all
                n, done = max(n, 1), False


def within_bound(H: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """The lowest entropies whose sum, each one's own left out, is within the bound: always at least one. H [L] -> the
    sums before each [L] and whether it is accepted [L]."""
    rising, order = H.sort()
    before = rising.cumsum(-1) - rising
    joint = torch.empty_like(H).scatter(0, order, before)
    return joint, joint <= bound


def denoise_step(
    board: canvases.Canvases, p: Params, run: Recorder, record: canvases.Canvas, z: Tensor, P: Tensor
) -> Step:
    """Write what a step leaves, a canvas or the answer, and record it."""
    done, places = record.last, list(board.places)
    settled, padded = done and (record.stop or p.answer == "argmax"), list[int]()
    tokens = torch.tensor(record.argmax if settled else record.sampled)
    canvas = tokens if settled else torch.tensor(record.after)
    if settled and p.answer == "argmax":
        canvas, padded = padded_behind(canvas, board)
    board.write(canvas, record, done)
    why = {"padding": padded, "forced": record.held, "settled": places if settled else []}
    why |= {"accepted": record.accepted, "renoised": [] if done else record.renoised}
    rest = "kept" if done else "noise"  # with its noise the canvas is the answer
    return run.step(
        commits=board.commits(record, why, rest, canvases.of(tokens, P), {"accepted", "settled"}),
        scores=lambda: {"entropy": (places, record.entropies), "joint": (places, record.joint)},
        thresholds={"joint": p.entropy_bound},
        candidates=lambda: (places, z),
        spans=board.spans(),
        facts={"temperature": record.temperature, "mean_entropy": record.mean_entropy},
        records={"canvas": record},
        note=note(len(record.accepted), len(record.renoised), record.mean_entropy, settled, record.stop),
    )


def padded_behind(canvas: Tensor, board: canvases.Canvases) -> tuple[Tensor, list[int]]:
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
