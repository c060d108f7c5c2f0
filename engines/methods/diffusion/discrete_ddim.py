"""Discrete DDIM on canvases of uniform noise, with a corrector (diffusers 0.42.1, `DiscreteDDIMScheduler` under
`DiffusionGemmaPipeline`; the corrector is the leave-one-out one of arXiv:2605.22765).

A canvas begins as noise, where each token survives with probability α, which rises from 0 to 1 in N steps. Each forward
proposes a clean token x0 at every position, and the posterior of the noising process says by which of three routes the
position goes on: the clean token, what stands there, or new noise. The last step takes the clean token everywhere.

The corrector spends forwards of the same budget: behind each of the first steps it feeds the canvas again, turns each
distribution into that of a token given all the others (its own token is taken out, eq. 13), and draws the k positions
that are least sure anew, with Gumbel noise on how sure they are. The logits of the last step proper condition all of
them. A canvas ends as under the entropy bound; what is kept is the canvas, or its likeliest tokens if it ended early.

A token that a person forces is kept in the canvas of every later step.

Letters: L positions of a canvas, K vocabulary, i = 0 ... N - 1 steps, c sweeps."""

import math

from engines.kit import (
    CanvasLM,
    Choice,
    Float,
    Int,
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

CLEAN, STAY, NOISE = 0, 1, 2


@method(
    "discrete-ddim",
    title="Discrete DDIM",
    code="https://github.com/huggingface/diffusers",
    summary="Each position takes the proposed token, keeps its own or gets noise, as noising in reverse has it.",
    needs="canvas",
    params=[
        max_new_tokens(),
        canvases.STEPS,
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="τ"),
        Int("corrector_steps", 0, 0, 16, symbol="c"),
        Int("corrector_k", 1, 1, 1024, symbol="k"),
        Choice(
            "corrector_selection",
            "lowest_log_margin",
            ("lowest_log_margin", "lowest_maxprob", "lowest_current_prob", "random"),
        ),
        Float("corrector_selection_tau", 1.0, 0.05, 8.0, step=0.05, symbol="τₛ"),
        canvases.STABILITY,
        canvases.CONFIDENCE,
    ],
    emits={"commits", "scores", "candidates", "spans", "facts", "note"},
    signature="canvas",
    records={"canvas": canvases.Canvas},
    lanes={"confidence": "probability"},
)
def decode(model: CanvasLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """`step` and `step_correct` of the scheduler in the loop of the pipeline."""
    board = canvases.Canvases(model, prompt, p, run)
    while board.unfinished():
        edit = yield run.step(**board.begin(p.max_denoising_steps))
        board.edit(edit)
        z: Tensor | None = None
        i, done = 0, False
        while not done:
            corrected, N = budget(p.max_denoising_steps, p.corrector_steps)
            z = board.denoise(z)  # [L, K]
            x0, chance = clean(z, p.temperature, run)  # [L], [L]
            routes = canvases.drawn(posterior(board.canvas, x0, i, N, z.shape[-1]), run)  # [L]
            noise = board.noise()
            after = torch.where(routes == CLEAN, x0, torch.where(routes == NOISE, noise, board.canvas))
            sure, mean = canvases.confident(entropy(z), p.confidence_threshold)
            argmax = z.argmax(-1)
            stop = board.stable(argmax, p.stability_threshold) & sure
            sweeps = p.corrector_steps if i < corrected else 0
            i += 1
            done = stop or i >= N
            record = board.record(
                "denoise",
                N,
                p,
                after=after,
                sampled=x0,
                noise=noise,
                argmax=argmax,
                routes=routes,
                accepted=routes == CLEAN,
                kept=routes == STAY,
                renoised=(routes == NOISE) & board.source,
                temperature=p.temperature,
                mean_entropy=mean,
                stop=stop and not sweeps,
                last=done and not sweeps,
                chances=exact(chance),
            )
            board.source = (routes == CLEAN) | ((routes == STAY) & board.source)
            edit = yield denoise_step(board, run, record, z, chance, i / N)
            board.edit(edit)
            for sweep in range(sweeps):
                z_now = board.denoise(z)
                edit = yield swept(board, p, run, z_now, i / N, argmax if stop and sweep == sweeps - 1 else None)
                board.edit(edit)
            if edit and edit.remask and done:  # a position hidden at the end is written after all
                i, done = min(i, N - 1), False


def budget(forwards: int, sweeps: int) -> tuple[int, int]:
    """How many of the first steps are followed by sweeps, and how many steps there are: all forwards together are those
    of the budget."""
    corrected = (forwards - 1) // (1 + sweeps) if sweeps else 0
    return corrected, forwards - corrected * sweeps


def clean(z: Tensor, temperature: float, run: Recorder) -> tuple[Tensor, Tensor]:
    """A clean token [L] for each position and its probability [L], which knows no temperature."""
    tokens = canvases.drawn((z / temperature).softmax(-1), run) if temperature else z.argmax(-1)
    return tokens, canvases.of(tokens, z.softmax(-1))


def posterior(x: Tensor, x0: Tensor, i: int, N: int, K: int) -> Tensor:
    """Chances [L, 3] of the routes clean, stay and noise of step i, from α_t = i / N to α_s = (i + 1) / N."""
    a_t, a_s = i / N, (i + 1) / N
    r = a_t / a_s
    same = (x == x0).float()
    mass = torch.stack(
        [
            a_s * (1 - r) / K + r * a_s * same,
            r * (1 - a_s) / K * torch.ones_like(same),
            (1 - r) * (1 - a_s) / K * torch.ones_like(same),
        ],
        dim=-1,
    )
    return mass / mass.sum(-1, keepdim=True)


def conditional(z: Tensor, x: Tensor, a_s: float) -> Tensor:
    """log p_s of a token given all the others, [L, K] in float64: the model's distribution without what it knows from
    the token x [L] itself (eq. 13), mixed with noise."""
    K = z.shape[-1]
    own = torch.full_like(x[:, None], -math.log1p(K * a_s / (1 - a_s)), dtype=torch.float64)
    alone = z.double().scatter_add(-1, x[:, None], own).log_softmax(-1)
    uniform = torch.full_like(alone, math.log1p(-a_s) - math.log(K))
    return torch.logaddexp(math.log(a_s) + alone, uniform)


def least_sure(log_p: Tensor, x: Tensor, p: Params, run: Recorder) -> tuple[Tensor, Tensor]:
    """The k places [k] that are drawn anew, by Gumbel top-k, and the uniform numbers [L] drawn to choose them."""
    k = min(p.corrector_k, len(x))
    u = torch.rand(len(x), generator=run.rng)
    if p.corrector_selection == "random":
        return u.topk(k).indices, u
    own = canvases.of(x, log_p)
    if p.corrector_selection == "lowest_maxprob":
        doubt = -log_p.max(-1).values
    elif p.corrector_selection == "lowest_current_prob":
        doubt = -own
    else:
        doubt = -(own - log_p.scatter(-1, x[:, None], -torch.inf).max(-1).values)
    gumbel = -torch.log(-torch.log(u.clamp(1e-12, 1 - 1e-12)))
    return (doubt / p.corrector_selection_tau + gumbel).topk(k).indices, u


def denoise_step(
    board: canvases.Canvases, run: Recorder, record: canvases.Canvas, z: Tensor, chance: Tensor, a_s: float
) -> Step:
    """Write the canvas that a step leaves, at survival α_s, and record it."""
    stop, places, noise = record.stop, list(board.places), record.routes.count(NOISE)
    board.write(torch.tensor(record.argmax if stop else record.after), record, stop)
    why = {"forced": record.held, "settled": places if record.last else []}
    why |= {"accepted": record.accepted, "renoised": record.renoised}
    return run.step(
        commits=board.commits(record, why, "noise", chance, {"accepted"}),
        scores=lambda: {"confidence": (places, chance)},
        candidates=lambda: (places, z),
        spans=board.spans(),
        facts={"mean_entropy": record.mean_entropy, "survival": a_s},
        records={"canvas": record},
        note=f"{len(record.accepted)} take the clean token, {len(record.kept)} stay, {noise} are noise"
        + ("; the likeliest tokens are kept, since they stayed the same and are sure." if stop else "."),
    )


def swept(board: canvases.Canvases, p: Params, run: Recorder, z: Tensor, a_s: float, kept: Tensor | None) -> Step:
    """A sweep of the corrector at survival α_s, and its record; kept: the likeliest tokens [L] where the canvas ends
    with it."""
    x = board.canvas
    log_p = conditional(z, x, a_s)
    at, u = least_sure(log_p, x, p, run)  # [k], in the order of the draws
    chances = log_p[at].exp()
    tokens = canvases.drawn(chances, run)
    after, ends = x.clone(), kept is not None
    after[at] = tokens
    N = budget(p.max_denoising_steps, p.corrector_steps)[1]
    record = board.record("correct", N, p, after=after, accepted=board.start + at, uniform=u, stop=ends, last=ends)
    board.source[at] = True
    canvas = board.write(after if kept is None else kept, record, ends)
    places, own = list(board.places), canvases.of(x, log_p).exp()
    commits = (
        (places, canvas, "settled")
        if ends
        else (record.accepted, canvas[at], "corrected", canvases.of(tokens, chances))
    )
    return run.step(
        commits=commits,
        scores=lambda: {"confidence": (places, own)},
        candidates=lambda: (places, log_p),
        spans=board.spans(),
        facts={"survival": a_s},
        records={"canvas": record},
        note=f"The corrector draws {len(at)} that are least sure given all the others anew.",
    )
