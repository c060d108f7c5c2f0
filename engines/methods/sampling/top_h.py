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

from engines.kit import (
    CausalLM,
    Choice,
    Float,
    Int,
    Params,
    Recorder,
    Steps,
    common_samplers,
    many,
    max_new_tokens,
    method,
    torch,
)
from engines.methods.baselines.samplers import SAMPLER, Cut, sample

TOLERANCE = 1e-9  # bit
QUANTITIES = {
    "paper": "entropy of the kept tokens",
    "official": "partial entropy of the kept tokens",
    "hf": "partial entropy of the kept tokens",
}


@method(
    "top-h",
    title="Top-H",
    paper="arXiv:2509.02510",
    summary="An entropy budget: the most probable tokens are kept while they hold at most a share alpha of the model's "
    "own entropy.",
    params=[
        max_new_tokens(),
        Float("alpha", 0.4, 0.0, 1.0, symbol="α", neutral=1.0, source="0.4 in the paper"),
        Float("temperature", 1.0, 0.1, 3.0, step=0.05, symbol="T", source="1, 1.5 and 2 in the paper"),
        Choice("variant", "paper", ["paper", "official", "hf"], source="paper"),
        Int("top_n", 100, 2, 1000, source="official code"),
    ],
    baseline="temperature",
    code="https://github.com/ErfanBaghaei/Top-H-Decoding",
    **SAMPLER,
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Algorithm 1: q is p, restricted to S and renormalised."""

    def describe(P: torch.Tensor, rule: Cut, rank: int) -> tuple[dict[str, float], str]:
        used = float(rule.counted[rule.kept - 1]) / rule.line if rule.line else 0.0
        facts = {
            "H_p": round(float(entropy_along(P)[-1]), 9),
            "tau": rule.line,
            "kept": rule.kept,
            "mass": float(P[: rule.kept].sum()),
            "entropy_used": used,
            "rank_sampled": rank + 1,
        }
        others = ", ".join(f"{name}: {n:,}" for name, n in common_samplers(P).items())
        budget = f"{many(rule.kept, 'token')} kept within a budget of {rule.line:.2f} of {rule.whole:.2f} bits"
        return facts, f"{budget}; {others}."

    yield from sample(model, prompt, p, run, lambda P: spend(P, p.alpha, p.variant, p.top_n), describe)


def spend(P: torch.Tensor, alpha: float, variant: str, top_n: int = 100) -> Cut:
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
    kept = max(1, int(within.cumprod(-1).sum()))
    return Cut(kept, counted, alpha * whole, QUANTITIES[variant], "bits", whole)


def entropy_along(P: torch.Tensor) -> torch.Tensor:
    """H(q) [n] in bits of the first 1 .. n tokens, renormalised: log Gamma - h / Gamma with the running sums Gamma of p
    and h of p log p (algorithm 1). It rises strictly along falling probabilities (theorem 3)."""
    gamma, h = P.cumsum(-1), (P * P.log2()).cumsum(-1)
    return (gamma.log2() - h / gamma).clamp(min=0)
