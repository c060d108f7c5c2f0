"""LocalLeap: accelerating diffusion LLM inference via local determinism propagation (arXiv:2510.07081; code
friedrichor/LocalLeap).

Where one token is very certain, its neighbours are usually right before they are certain. A strict threshold holds
everywhere and makes anchors of the masks that pass it; within a few positions of an anchor a relaxed one is enough.
Without an anchor the best mask alone is committed.

Written from a description of the released loop, which derives from Fast-dLLM's, and checked against recorded runs of a
mirror of it. Anchors are found
anew in every forward among the masks: a committed token is no anchor any more. Confidences in float64.
We depart in three points: the mask token is never proposed, the last block may be shorter, and a relaxed threshold
above the strict one relaxes nothing. Where the official loop leaves both thresholds out it runs the fixed schedule:
that is the method `llada`."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from engines.kit import (
    Bool,
    Float,
    Int,
    MaskedLM,
    Params,
    Position,
    Probability,
    Record,
    Recorder,
    Span,
    Steps,
    TokenId,
    block_of,
    entropy,
    gumbel_argmax,
    many,
    mask_positions,
    max_new_tokens,
    method,
    token_probability,
    torch,
)

if TYPE_CHECKING:
    from torch import Tensor


class Leaps(Record):
    """The open positions of a block with their confidences, and the rule around its anchors."""

    start: Position  # of the block
    end: int  # the position after it
    at: list[Position]
    tokens: list[TokenId]
    confidence: list[Probability]
    strict: float
    relaxed: float
    radius: int


@method(
    "localleap",
    title="LocalLeap",
    family="diffusion",
    paper="arXiv:2510.07081",
    code="https://github.com/friedrichor/LocalLeap",
    summary="Very confident tokens are anchors: within a few positions of one, a lower threshold is enough.",
    needs="masked",
    params=[
        max_new_tokens(),
        Int("block_length", 16, 1, 1024, symbol="b", source="32 official"),
        Float("threshold", 0.9, 0.0, 1.01, symbol="θ_hi", source="official"),
        Float("relaxed_threshold", 0.75, 0.0, 1.01, symbol="θ_lo", neutral=1.01, source="official"),
        Int("radius", 4, 0, 1024, symbol="r", neutral=0, source="official"),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="τ"),
        Bool("early_stop", False, source="off in the official signature"),
    ],
    signature="leaps",
    emits={"commits", "scores", "candidates", "spans", "facts", "note"},
    records={"leaps": Leaps},
    lanes={"confidence": "probability", "threshold": "probability", "distance": "count", "entropy": "nats"},
    baseline="threshold",
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The official `llada/generate.py`; A are this forward's anchors."""
    end = len(prompt) + p.max_new_tokens
    x = run.canvas(p.max_new_tokens, model.record.device)  # [L]
    while len(masks := mask_positions(x, model.mask_id)):
        a, b = block_of(int(masks[0]), len(prompt), p.block_length, end)
        z = model(x)  # [L, V]
        x0 = gumbel_argmax(z, p.temperature, run.rng)  # [L]
        inside = masks[masks < b]  # [m]
        z_masks, x0_masks = z[masks], x0[masks]  # the block's masks come first
        conf = token_probability(z_masks[: len(inside)], x0_masks[: len(inside)])  # [m], float64
        A = inside[conf >= p.threshold]
        distance = distances(inside, A)  # [m]
        theta = thresholds(distance, p.threshold, p.relaxed_threshold, p.radius)  # [m]
        best, causes = select(conf, theta, p.threshold)
        chosen = inside[best]
        x[chosen] = x0[chosen]
        rest, fill = ending(x, a, b, model) if p.early_stop else (masks[:0], 0)
        x[rest] = fill
        rule = (p.threshold, min(p.threshold, p.relaxed_threshold), p.radius)
        edit = yield run.step(
            records={
                "leaps": lambda: Leaps(a, b, inside.tolist(), x0_masks[: len(inside)].tolist(), conf.tolist(), *rule)
            },
            commits=(
                torch.cat([chosen, rest]),
                torch.cat([x0[chosen], torch.full_like(rest, fill)]),
                causes + ["fill"] * len(rest),
                conf[best].tolist() + [None] * len(rest),
            ),
            scores=lambda: {
                "confidence": (masks, token_probability(z_masks, x0_masks, torch.float32)),
                "threshold": (inside, theta),
                **({"distance": (inside, distance)} if len(A) else {}),
                "entropy": (masks, entropy(z_masks)),
            },
            candidates=lambda: (masks, z_masks),
            spans=[
                Span("block", a, b),
                *windows(A.tolist(), p.radius, a, b),
                *(Span("anchor", q, q + 1) for q in A.tolist()),
            ],
            facts={"anchors": len(A), "relaxed": causes.count("relaxed")},
            note=note(causes, len(inside), len(rest)),
        )
        x = run.apply_edit(edit, x)


def distances(positions: Tensor, anchors: Tensor) -> Tensor:
    """From each position [m] to the nearest anchor [n]: [m], -1 where there is none."""
    return (positions[:, None] - anchors).abs().min(-1).values if len(anchors) else torch.full_like(positions, -1)


def thresholds(distance: Tensor, strict: float, relaxed: float, radius: int) -> Tensor:
    """The threshold at each mask, [m] in float64: the relaxed one within `radius` of an anchor."""
    theta = torch.full(distance.shape, strict, dtype=torch.float64, device=distance.device)
    theta[(distance >= 0) & (distance <= radius)] = min(strict, relaxed)
    return theta


def select(conf: Tensor, theta: Tensor, strict: float) -> tuple[Tensor, list[str]]:
    """Rank 1, and every other one with c >= its own threshold. conf, theta [m] -> indices by falling confidence,
    causes."""
    order = conf.argsort(descending=True, stable=True)
    ready = conf >= theta
    ready[order[0]] = True
    best = order[ready[order]]
    own = zip(conf[best].tolist(), theta[best].tolist(), strict=True)
    return best, ["anchor" if c >= strict else "relaxed" if c >= t else "top1" for c, t in own]


def ending(x: Tensor, a: int, b: int, model: MaskedLM) -> tuple[Tensor, int]:
    """The masks of x [L] behind the block [a, b) and the end mark to fill them with; none unless the block is finished
    and holds one."""
    ends = [token for token in x[a:b].tolist() if token in model.eos_ids]
    rest = mask_positions(x, model.mask_id)
    return (rest, ends[0]) if ends and not (rest < b).any() else (rest[:0], 0)


def windows(anchors: list[int], radius: int, a: int, b: int) -> list[Span]:
    """What the anchors reach of the block [a, b), neighbours taken together. It reaches beyond the block too, where
    nothing can be committed yet."""
    reached = [q for q in range(a, b) if any(abs(q - anchor) <= radius for anchor in anchors)]
    runs = [[q for _, q in run] for _, run in groupby(enumerate(reached), lambda pair: pair[1] - pair[0])]
    return [Span("window", run[0], run[-1] + 1) for run in runs]


def note(causes: list[str], masks: int, filled: int) -> str:
    """A sentence on what decided."""
    if causes == ["top1"]:
        return "No anchor, so nothing is relaxed: only the best one is written."
    anchors, relaxed = causes.count("anchor"), causes.count("relaxed")
    anchored = f"{anchors} of {many(masks, 'mask')} {'are anchors' if anchors > 1 else 'is an anchor'}"
    follow = (
        f"{relaxed} {'neighbours follow' if relaxed > 1 else 'neighbour follows'}"
        if relaxed
        else "no neighbour follows"
    )
    return f"{anchored}, {follow}." + (
        f" The block holds an end mark: {many(filled, 'mask')} after it filled." if filled else ""
    )


if __name__ == "__main__":
    from engines.kit import show

    show("localleap", "tiny-dlm", "add: 457 + 286")
