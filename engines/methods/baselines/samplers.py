"""The plain samplers: rank the probabilities, cut them off by a rule, draw one of what is left. They differ in the rule
alone.

Temperature (Ackley, Hinton and Sejnowski 1985) flattens or sharpens softmax(z / T) and cuts nothing off, the control of
every sampler that cuts. Top-k (Fan, Lewis and Dauphin, arXiv:1805.04833): only the k most likely tokens may be drawn.
Top-p or nucleus sampling (Holtzman et al., arXiv:1904.09751): only the fewest tokens that together reach the mass p.
Min-p (Nguyen et al., arXiv:2407.01082, ICLR 2025): only tokens with at least a share of the most likely one's
probability.

Letters: V vocabulary, n ranked tokens with a probability above 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engines.core.truncated import Truncation
from engines.kit import (
    CausalLM,
    Float,
    Int,
    Param,
    Params,
    Recorder,
    Steps,
    common_samplers,
    draw,
    entropy,
    kept_by_mass,
    kept_by_rank,
    kept_by_ratio,
    let_through,
    many,
    max_new_tokens,
    method,
    ranked,
    token_probability,
    torch,
)

SAMPLER: dict[str, Any] = {  # what all of them declare
    "needs": "causal",
    "signature": "thermometer",
    "emits": {"commits", "scores", "candidates", "facts", "note"},
    "records": {"truncation": Truncation},
    "lanes": {"confidence": "probability", "entropy": "bits", "kept": "bits", "surprise": "bits"},
}


def temperature(neutral: float | None = None) -> Param:
    """The temperature, which is applied before the cut."""
    return Float("temperature", 1.0, 0.0, 3.0, step=0.05, symbol="T", neutral=neutral)


@method(
    "min-p",
    title="Min-p",
    summary="Only tokens with at least a fixed share of the most likely one's probability may be drawn.",
    params=[
        max_new_tokens(),
        Float("min_p", 0.1, 0.0, 1.0, neutral=0.0, source="0.05 to 0.1 in the paper"),
        temperature(),
    ],
    baseline="temperature",
    **SAMPLER,
)
def min_p(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Counted is how many times less likely than the first a token is; the line is 1 / min_p."""

    def cut(chances: torch.Tensor) -> Cut:
        kept, ratio = kept_by_ratio(chances, p.min_p), (chances[0] / chances).clamp(max=1e12)  # finite in the record
        line = 1 / p.min_p if p.min_p else float(ratio[-1])
        return Cut(kept, ratio, line, "best probability over a token's own", "score")

    yield from sample(model, prompt, p, run, cut, own="min-p")


@method(
    "temperature",
    title="Sampling",
    summary="The next token is drawn from the model's own distribution, flattened or sharpened by a temperature.",
    params=[max_new_tokens(), temperature(neutral=0.0)],
    baseline="greedy",
    **SAMPLER,
)
def plain(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """All tokens are let through."""
    yield from sample(model, prompt, p, run, lambda chances: mass(chances, len(chances), 1.0))


@method(
    "top-k",
    title="Top-k",
    summary="Only the k most likely tokens may be drawn, however confident the model is.",
    params=[
        max_new_tokens(),
        Int("top_k", 50, 0, 1000, symbol="k", neutral=0, source="usual setting"),
        temperature(),
    ],
    baseline="temperature",
    **SAMPLER,
)
def top_k(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Equal probabilities at the k-th place: lower ids first."""

    def cut(chances: torch.Tensor) -> Cut:
        ranks = torch.arange(1.0, len(chances) + 1)
        return Cut(kept_by_rank(chances, p.top_k), ranks, float(p.top_k or len(chances)), "rank", "count")

    yield from sample(model, prompt, p, run, cut, own="top-k")


@method(
    "top-p",
    title="Top-p",
    summary="Only the fewest tokens that together reach a fixed mass may be drawn: few where the model is confident, "
    "many where it is not.",
    params=[
        max_new_tokens(),
        Float("top_p", 0.9, 0.0, 1.0, symbol="p", neutral=1.0, source="0.9 in the comparisons"),
        temperature(),
    ],
    baseline="temperature",
    **SAMPLER,
)
def top_p(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The token with which the sum reaches p stays; so does the first one."""

    def cut(chances: torch.Tensor) -> Cut:
        return mass(chances, kept_by_mass(chances, p.top_p), p.top_p)

    yield from sample(model, prompt, p, run, cut, own="top-p")


@dataclass(frozen=True)
class Cut:
    """How many of the n ranked tokens stay, with what is counted along them [n] and the line it is held against; named
    as in the record of a step."""

    kept: int
    counted: torch.Tensor
    line: float
    quantity: str
    unit: Any
    whole: float | None = None


def described(chances: torch.Tensor, rule: Cut, rank: int) -> tuple[dict[str, float], str]:
    """Facts and note of a step that drew this rank."""
    facts = {"kept": rule.kept, "mass": float(chances[: rule.kept].sum()), "rank_sampled": rank + 1}
    return facts, f"{many(rule.kept, 'token')} kept; the one drawn has rank {rank + 1:,}."


Describe = Callable[[Any, Cut, int], tuple[dict[str, float], str]]


def sample(
    model: CausalLM,
    prompt: list[int],
    p: Params,
    run: Recorder,
    cut: Callable[[torch.Tensor], Cut],
    describe: Describe = described,
    own: str = "",
) -> Steps:
    """Plain sampling behind a rule. cut: what it does with the ranked probabilities [n]; describe: facts and note of a
    step, from these, the cut and the rank drawn; own: which of the samplers that are counted beside it is this one.
    Invariant after every step: the cache holds all ids but the last."""
    ids, end = prompt, len(prompt) + p.max_new_tokens
    cache = model.new_cache(end)
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        z = model.extend(ids[cache.length :], cache, last_only=True).logits  # [1, V]
        chances, order = ranked(z[0], p.temperature)  # [n], [n]
        rule = cut(chances)
        rank = draw(chances[: rule.kept], run.rng)
        token, at = int(order[rank]), [len(ids)]
        T, others = p.temperature or 1.0, common_samplers(chances)
        facts, note = describe(chances, rule, rank)
        edit = yield run.step(
            commits=(at, [token], "sampled", [float(chances[rank])]),
            scores=lambda: {
                "confidence": (at, chances[rank : rank + 1]),
                "entropy": (at, entropy(z.double() / T, base=2).round(decimals=9)),
                "kept": (at, torch.tensor([float(rule.kept)]).log2()),
                "surprise": (at, -token_probability(z, order[rank : rank + 1]).log2()),
            },
            candidates=lambda: (at, z / T),
            records={
                "truncation": lambda: let_through(
                    at[0],
                    chances,
                    order,
                    rule.kept,
                    counted=rule.counted,
                    line=rule.line,
                    quantity=rule.quantity,
                    unit=rule.unit,
                    whole=rule.whole,
                    others={name: n for name, n in others.items() if not own or not name.startswith(own)},
                )
            },
            facts=facts,
            note=note,
        )
        ids = run.apply_edit(edit, [*ids, token], cache)


def mass(chances: torch.Tensor, kept: int, line: float) -> Cut:
    """A cut whose line is drawn into the sum of the probabilities."""
    return Cut(kept, chances.cumsum(-1), line, "mass of the kept tokens", "probability", 1.0)
