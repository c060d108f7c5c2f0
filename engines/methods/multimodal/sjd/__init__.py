"""Speculative Jacobi decoding (Teng et al., arXiv:2410.01699; official code tyshiwo1/Accelerating-T2I-AR-with-SJD).

A window of future tokens is guessed and tested in one forward. The guess for a position is what the model itself drew
there in the iteration before, remembered with the distribution q that it was drawn from; it is kept with probability
min(1, p / q) as in speculative sampling, so the picture has the distribution of drawing token by token.

Departures: the first forward reads the prompt and a first window together (the official loop makes the first tokens one
by one), on a text model the window guesses words; `jacobi` is the rule that SJD replaces, a draft stays only where the
fresh token is the same."""

from engines.kit import (
    CausalLM,
    Choice,
    Float,
    Int,
    Params,
    Recorder,
    Steps,
    distribution,
    entropy,
    max_new_tokens,
    method,
    torch,
    within_rank,
)
from engines.methods.multimodal._word import until_end
from engines.methods.multimodal.sjd.window import Window, causes, chain, guided, iterate, media, note


@method(
    "sjd",
    title="Speculative Jacobi decoding",
    paper="arXiv:2410.01699",
    code="https://github.com/tyshiwo1/Accelerating-T2I-AR-with-SJD",
    summary="The model's guesses of the last forward are the drafts of the next, tested so that the picture's "
    "distribution stays that of drawing token by token.",
    needs="causal",
    params=[
        max_new_tokens(256),
        Int("window", 16, 1, 64, symbol="W", source="official"),
        Choice("init", "random", ("random", "left", "above"), source="official: random (Lumina), left (LlamaGen)"),
        Choice("criterion", "speculative", ("speculative", "jacobi")),
        Float("temperature", 1.0, 0.0, 1.5, step=0.05, symbol="T", source="official"),
        Int("top_k", 0, 0, 4096, symbol="k", source="official: 2000 of 8,192 image tokens"),
        Float("guidance", 1.0, 1.0, 8.0, step=0.5, symbol="s", source="official: 3.0 (Lumina)"),
    ],
    signature="media",
    emits={"commits", "scores", "candidates", "tree", "media", "facts", "note"},
    lanes={"confidence": "probability", "entropy": "nats", "acceptance": "probability"},
    baseline="temperature",
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Algorithm 1 of the paper; a step is one iteration. Invariant: the caches hold all ids but the last."""
    picture, ids, end = model.picture, prompt, len(prompt) + p.max_new_tokens
    window, caches = Window(model, prompt, p), [model.new_cache(end) for _ in range(2)]
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        W = min(p.window, end - len(ids))
        drafts, q, made = window.filled(ids, W, run.rng)
        z = guided(model, prompt, ids, drafts, caches, p.guidance)  # [W, V]
        P = distribution(within_rank(window.allowed(z), p.top_k), p.temperature)  # [W, V]
        u = torch.rand(2 * W, dtype=torch.float64, generator=run.rng).tolist()
        iteration = iterate(P, drafts, q, u, p.criterion == "jacobi")
        gained = until_end(iteration.committed, model.eos_ids)
        n, at = len(gained), list(range(len(ids), len(ids) + len(gained)))
        for cache in caches:
            cache.crop(min(cache.length, len(ids) + n - 1))
        edit = yield run.step(
            commits=(at, gained, causes(iteration, drafts)[:n], P[range(n), gained]),
            scores=lambda: {
                "confidence": (at, P[range(n), gained]),
                "entropy": (at, entropy(P[:n].log())),
                "acceptance": (range(len(ids), len(ids) + len(iteration.chances)), torch.tensor(iteration.chances)),
            },
            candidates=lambda: (at, P[:n].log()),
            tree=(lambda: chain(ids, drafts, q, P, iteration, made, u)) if drafts else None,
            media=media(picture, [*ids[len(prompt) :], *gained], iteration.fresh[n : end - len(ids) - 1])
            if picture
            else None,
            facts={"drafted": len(drafts), "accepted": iteration.accepted, "window": W},
            note=note(iteration, drafts),
        )
        window.carry(iteration.fresh[n:], P[n:])
        after = run.apply_edit(edit, [*ids, *gained], *caches)
        if after != [*ids, *gained]:
            window.carry([], P[:0])
        ids = after
