"""Top-H decoding: adapting the creativity and coherence with bounded entropy in text generation (Potraghloo et al.,
arXiv:2509.02510, NeurIPS 2025; github.com/ErfanBaghaei/Top-H-Decoding).

At every step the sampler may spend the share alpha of the model's own entropy H(p), and spends it on the most probable
tokens: a sure model leaves a choice of a few, an unsure one of more. To find the set of the largest mass under that
bound is NP-hard (section 4); taking tokens by falling probability until the bound is reached is the paper's greedy
answer (algorithm 1).

Three rules go by this name and let different sets through. `paper` is algorithm 1: H(q) of the kept tokens,
renormalised, against alpha H(p) over the whole vocabulary. `official` is the authors' code: partial sums of -p log p,
not renormalised, among the top_n most likely tokens, against alpha times their sum over those. `hf` is transformers'
`generate(top_h=...)`: the same with p renormalised over the top_n first.

Ours, where they leave it open: logs to base 2 in float64; a tolerance of 1e-9 bit at the line, where equality keeps;
equal probabilities by rising id; tokens of probability 0 never count (the authors' class stops with an IndexError when
one token holds nearly everything, or the vocabulary is smaller than top_n)."""

from __future__ import annotations

from dataclasses import dataclass

from engines.core.truncated import Truncation
from engines.kit import (
    CausalLM,
    Choice,
    Float,
    Int,
    Params,
    Recorder,
    Steps,
    common_samplers,
    draw,
    let_through,
    many,
    max_new_tokens,
    method,
    ranked,
    token_probability,
    torch,
)

TOLERANCE = 1e-9  # bit
QUANTITIES = {
    "paper": "entropy of the kept tokens",
    "official": "partial entropy of the kept tokens",
    "hf": "partial entropy of the kept tokens",
}


@dataclass(frozen=True)
class Spent:
    """What the tokens up to each rank spend, [m] bits, and how many of them the line lets through. whole: the entropy
    that the line is a share of."""

    counted: torch.Tensor
    line: float
    whole: float
    kept: int


@method(
    "top-h",
    title="Top-H",
    paper="arXiv:2509.02510",
    summary="An entropy budget: the most probable tokens are kept while they hold at most a share alpha of the model's "
    "own entropy.",
    needs="causal",
    params=[
        max_new_tokens(),
        Float("alpha", 0.4, 0.0, 1.0, symbol="α", neutral=1.0, source="0.4 in the paper"),
        Float("temperature", 1.0, 0.1, 3.0, step=0.05, symbol="T", source="1, 1.5 and 2 in the paper"),
        Choice("variant", "paper", ["paper", "official", "hf"], source="paper"),
        Int("top_n", 100, 2, 1000, source="official code"),
    ],
    signature="thermometer",
    emits={"commits", "scores", "candidates", "facts", "note"},
    records={"truncation": Truncation},
    lanes={"confidence": "probability", "entropy": "bits", "kept": "bits", "surprise": "bits"},
    baseline="temperature",
    code="https://github.com/ErfanBaghaei/Top-H-Decoding",
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Algorithm 1. Invariant after every step: the cache holds all ids but the last."""
    ids, end = prompt, len(prompt) + p.max_new_tokens
    cache = model.new_cache(end)
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        z = model.extend(ids[cache.length :], cache, last_only=True).logits  # [1, V]
        P, order = ranked(z[0], p.temperature)  # [n], [n]: the probabilities, falling, and whose they are
        spent = spend(P, p.alpha, p.variant, p.top_n)
        rank = draw(P[: spent.kept], run.rng)  # q is p, restricted to S and renormalised
        token, chance, at = int(order[rank]), float(P[rank]), [len(ids)]
        H = round(float(entropy_along(P)[-1]), 9)
        others = common_samplers(P)
        edit = yield run.step(
            commits=(at, [token], "sampled", [chance]),
            scores=lambda: {
                "confidence": (at, [chance]),
                "entropy": (at, [H]),
                "kept": (at, torch.tensor([float(spent.kept)]).log2()),
                "surprise": (at, -token_probability(z, order[rank : rank + 1]).log2()),
            },
            candidates=lambda: (at, z / p.temperature),
            records={
                "truncation": lambda: let_through(
                    at[0],
                    P,
                    order,
                    spent.kept,
                    counted=spent.counted,
                    line=spent.line,
                    quantity=QUANTITIES[p.variant],
                    unit="bits",
                    whole=spent.whole,
                    others=others,
                )
            },
            facts={
                "H_p": H,
                "tau": spent.line,
                "kept": spent.kept,
                "mass": float(P[: spent.kept].sum()),
                "entropy_used": float(spent.counted[spent.kept - 1]) / spent.line if spent.line else 0.0,
                "rank_sampled": rank + 1,
            },
            note=f"{many(spent.kept, 'token')} kept within a budget of {spent.line:.2f} of {spent.whole:.2f} bits; "
            + ", ".join(f"{name}: {n:,}" for name, n in others.items())
            + ".",
        )
        ids = run.apply_edit(edit, [*ids, token], cache)


def spend(P: torch.Tensor, alpha: float, variant: str, top_n: int = 100) -> Spent:
    """What a prefix of the tokens costs under one of the three rules, and the longest one that the line lets through;
    the first token always stays. P [n]: probabilities, falling, none of them 0."""
    if variant == "paper":
        counted = entropy_along(P)  # [n]
    else:
        q = P[:top_n]
        q = q / q.sum() if variant == "hf" else q
        counted = -(q * q.log2()).cumsum(-1)  # [top_n]
    whole = float(counted[-1])
    within = counted <= alpha * whole + TOLERANCE
    return Spent(counted, alpha * whole, whole, max(1, int(within.cumprod(-1).sum())))


def entropy_along(P: torch.Tensor) -> torch.Tensor:
    """H(q) [n] in bits of the first 1 .. n tokens, renormalised: log Gamma - h / Gamma with the running sums Gamma of p
    and h of p log p (algorithm 1). It rises strictly along falling probabilities (theorem 3)."""
    gamma, h = P.cumsum(-1), (P * P.log2()).cumsum(-1)
    return (gamma.log2() - h / gamma).clamp(min=0)
