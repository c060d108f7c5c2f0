"""Dimple: discrete diffusion multimodal large language model with parallel decoding (Yu et al., arXiv:2505.16990; code
yu-rp/Dimple).

Confident decoding: commit every mask whose score is above a threshold; where there is none, fall back to a rule of a
fixed rate. The clock of that rule is the fraction still masked, not the number of the step: after a confident burst it
does not rush. Structure priors: words that stand in the answer before the first forward, as in a form; they are context
from the start and are never touched, since they are no masks.

Prefilling (`cache=prefix`): the first forward computes the whole board, the later ones the answer and the position
before it, which predicts its first token; the prompt's keys and values have seen an empty answer and stay as they are.

This is the `dim` pipeline; `dream` is a method of its own. We depart in these points: pictures are seen by a small
model of ours without a tower (tiny-vlm-dimple), whose places stand on the board like words, and the published weights
and M-RoPE are not loaded; prefilling is off unless it is asked for (the official default is on), and a model whose rows
are not shifted is fed the answer alone; the mask token is never proposed; where less than 0.1 % is masked the rest is
committed (the official loop raises)."""

from collections.abc import Iterable
from functools import partial

from engines.kit import (
    Alternatives,
    Bool,
    Choice,
    Decision,
    Edit,
    Float,
    MaskedLM,
    Params,
    Position,
    Record,
    Recorder,
    Span,
    Steps,
    Stops,
    Tensor,
    Text,
    TokenId,
    UserError,
    exact,
    mask_positions,
    slider,
    token_probability,
    torch,
)
from engines.methods.diffusion import _orders as orders
from engines.methods.diffusion._forward import Forward, some, unmasking
from engines.methods.diffusion.dimple.structure_prior import placed, segments
from engines.methods.multimodal._seen import Vision, shown


class Form(Record):
    """The answer as a form: the words printed before the first forward, and the open fields with their scores."""

    printed: list[Position]
    fields: list[Position]  # open before this step
    tokens: list[TokenId]  # proposed for them
    scores: list[float]  # of the order that `alg` names
    threshold: float  # 0: none
    mode: str  # confident, fallback or final

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """How many fields another threshold fills; none where the rate decides."""
        if self.mode == "final" or min(self.scores, default=-1) < 0:
            return {}
        return {"threshold": Stops.over(slider(0, 1, 0.01, self.threshold), partial(confident, self.scores))}


def confident(scores: Iterable[float], theta: float) -> int:
    """How many scores are above the threshold, if there is one."""
    return sum(score > theta for score in scores) if theta > 0 else 0


MODES = ["confident", "fallback", "final"]


def check(p: Params) -> None:
    """The prior can be read and fits; the leftmost rule alone gets to the end."""
    segments(p)
    if p.alg == "autoregressive" and p.alg_p_threshold == 0 and p.steps < p.max_new_tokens:
        raise UserError(
            f"alg=autoregressive without a threshold writes one token per forward, and steps={p.steps} are fewer than "
            f"max_new_tokens={p.max_new_tokens}; "
            f"set steps to {p.max_new_tokens} or alg_p_threshold above 0."
        )


@unmasking(
    "dimple",
    title="Dimple",
    paper="arXiv:2505.16990",
    code="https://github.com/yu-rp/Dimple",
    summary="Write everything confident; where nothing is, continue at a fixed rate of the fraction still masked. "
    "Words can be pinned, as in a form.",
    params=[
        orders.STEPS,
        Float("alg_p_threshold", 0.95, 0.0, 1.0, symbol="θ", source="README"),
        Choice(
            "alg",
            "maskgit_plus",
            ["maskgit_plus", "topk_margin", "entropy", "origin", "origin-ratio", "autoregressive"],
            source="maskgit_plus in evaluation; origin in the README",
        ),
        orders.ALG_TEMP,
        orders.TEMPERATURE,
        orders.TOP_P,
        orders.TOP_K,
        Choice("cache", "none", ["none", "prefix"], source="on"),
        Bool("use_original_confidence", True, source="official"),
        Text("structure_prior", ""),
    ],
    signature="form",
    emits={"choice", "facts"},
    records={"vision": Vision, "form": Form},
    lanes={
        "confidence": "probability",
        "filtered": "probability",
        "margin": orders.MARGIN,
        "neg_entropy": orders.NEG_ENTROPY,
    },
    check=check,
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Confident decoding, as in the official `generation_utils.py`, and its prefilling."""
    P, G = len(prompt), p.max_new_tokens
    pins, pinned = placed(p, model, P)
    x = run.apply_edit(Edit(force=pins), run.canvas(G, model.record.device))  # [L]
    forward, M0, i = Forward(model), G - len(pins), 0
    image = model.pictured(prompt)
    while len(masks := mask_positions(x, model.mask_id)):  # stops as soon as no mask is left
        t, theta = orders.time_grid(p.steps), p.alg_p_threshold
        distributions = forward(x, masks, (P, P + G), p.cache)
        z = distributions.z[masks - distributions.start]  # [m, V]
        q = orders.narrowed(z, p.temperature, p.top_p, p.top_k)  # [m, V]
        x0 = orders.propose(q, p.temperature, run.rng)  # [m]
        order = orders.score(z if p.use_original_confidence else q, x0, p.alg)  # [m]
        conf, sure = token_probability(z, x0, torch.float32), order > theta  # [m]
        facts = {"ratio_masked": len(masks) / M0, "grid_time": float(t[min(i, p.steps)])}
        if theta > 0 and (i >= p.steps - 1 or sure.any()):  # confident decoding
            mode = "final" if i >= p.steps - 1 else "confident"
            best = torch.ones_like(sure).nonzero()[:, 0] if mode == "final" else sure.nonzero()[:, 0]
            causes = ["confident" if s else "final" for s in sure[best].tolist()]
        else:  # the rule of a fixed rate
            mode = "fallback"
            s, k, share = clock(len(masks), M0, i, t)
            best, cause = fallback(order, k, share, p, run)
            causes = [cause] * len(best)
            facts |= {"target_time": s, "due": k}
        x[masks[best]] = x0[best]
        ranking = {"topk_margin": "margin", "entropy": "neg_entropy"}.get(p.alg) or (
            "confidence" if p.use_original_confidence else "filtered"
        )
        fresh, tokens = run.steps == 0, x0[best].tolist()
        edit = yield run.step(
            records={
                "form": lambda: Form(sorted(pins), masks.tolist(), x0.tolist(), exact(order), theta, mode),
                **({"vision": lambda: shown(image, tokens, model.tokenizer, fresh)} if image else {}),
            },
            commits=(masks[best], x0[best], causes, conf[best]),
            scores=lambda: {
                "confidence": (masks, conf),
                "filtered": (masks, token_probability(q, x0, torch.float32)),
                ranking: (masks, order),
            },
            thresholds={ranking: theta} if theta > 0 else {},
            candidates=lambda: (masks, z),
            spans=[Span("block", P, P + G), *distributions.spans, *pinned],
            choice=Decision(MODES, mode, "highest score", float(order.max()), theta) if theta > 0 else None,
            facts=facts,
            note=note(mode, len(best), len(masks), p) + distributions.note,
        )
        x = run.apply_edit(edit, x)
        i += 1


def clock(m: int, M0: int, i: int, t: Tensor) -> tuple[float, int, float]:
    """The time s that the fallback of step i aims at, how many of m masks are due until then, and the chance 1 - s / r
    of each. t [S + 1].

    s is the first grid time from t_(i+1) on by which a whole token is due of the fraction masked r = m / M0; at the
    last one all are."""
    r, S = torch.tensor(m) / M0, len(t) - 1
    for s in t[i + 1 : S]:
        if (k := int(m * (1 - s / r))) >= 1:  # none while s is above r
            return float(s), k, float(1 - s / r)
    return float(t[S]), m, 1.0


def fallback(order: Tensor, k: int, share: float, p: Params, run: Recorder) -> tuple[Tensor, str]:
    """Indices that the rule `alg` takes, and their cause: k at random, each with the chance `share`, the first one, or
    the best k. order [m]."""
    if p.alg == "origin":
        return torch.randperm(len(order), generator=run.rng)[:k].to(order.device), "random"
    if p.alg == "origin-ratio":
        return (torch.rand(len(order), generator=run.rng) < share).nonzero()[:, 0].to(order.device), "random"
    if p.alg == "autoregressive":
        return torch.zeros(1, dtype=torch.long, device=order.device), "leftmost"
    return orders.pick(order, k, p.alg_temp, run.rng), "fallback"


def note(mode: str, filled: int, masks: int, p: Params) -> str:
    """A sentence on what decided."""
    if mode == "confident":
        sure = f"{some(filled, masks)} {'is' if filled == 1 else 'are'} above {p.alg_p_threshold:g}"
        return f"{sure} and written{' at once' if filled > 1 else ''}."
    if mode == "final":
        return f"The last step of the schedule writes {some(filled, masks)}, whatever their confidence."
    rule = {
        "origin": "chosen at random",
        "origin-ratio": "each by its own draw",
        "autoregressive": "the leftmost",
    }.get(p.alg) or orders.BEST[p.alg]
    return (
        f"{f'None is above {p.alg_p_threshold:g}: the' if p.alg_p_threshold > 0 else 'The'} fallback writes "
        f"{some(filled, masks)}, {rule}."
    )
