"""The loop that the plain samplers share: rank the probabilities, cut them off, draw one of what is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engines.kit import (
    CausalLM,
    Float,
    Param,
    Params,
    Recorder,
    Steps,
    common_samplers,
    draw,
    entropy,
    let_through,
    many,
    ranked,
    token_probability,
    torch,
)

EMITS = {"commits", "scores", "candidates", "facts", "note"}
LANES = {"confidence": "probability", "entropy": "bits", "kept": "bits", "surprise": "bits"}


def temperature(neutral: float | None = None) -> Param:
    """The temperature, which is applied before the cut."""
    return Float("temperature", 1.0, 0.0, 3.0, step=0.05, symbol="T", neutral=neutral)


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


def sample(
    model: CausalLM, prompt: list[int], p: Params, run: Recorder, cut: Callable[[torch.Tensor], Cut], own: str = ""
) -> Steps:
    """Plain sampling behind a rule. cut: what it does with the ranked probabilities [n]; own: which of the samplers
    that are counted beside it is this one. Invariant after every step: the cache holds all ids but the last."""
    ids, end = prompt, len(prompt) + p.max_new_tokens
    cache = model.new_cache(end)
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        z = model.extend(ids[cache.length :], cache, last_only=True).logits  # [1, V]
        chances, order = ranked(z[0], p.temperature)  # [n], [n]
        rule = cut(chances)
        rank = draw(chances[: rule.kept], run.rng)
        token, at = int(order[rank]), [len(ids)]
        T, others = p.temperature or 1.0, common_samplers(chances)
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
            facts={"kept": rule.kept, "mass": float(chances[: rule.kept].sum()), "rank_sampled": rank + 1},
            note=f"{many(rule.kept, 'token')} kept; the one drawn has rank {rank + 1:,}.",
        )
        ids = run.apply_edit(edit, [*ids, token], cache)


def mass(chances: torch.Tensor, kept: int, line: float) -> Cut:
    """A cut whose line is drawn into the sum of the probabilities."""
    return Cut(kept, chances.cumsum(-1), line, "mass of the kept tokens", "probability", 1.0)
