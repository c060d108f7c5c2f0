"""CreditDecoding: accelerating parallel decoding in diffusion LLMs with trace credits (arXiv:2510.06133; code
inclusionAI/dInfer, Apache-2.0).

Tokens are often guessed right many forwards before their confidence passes the threshold. A decaying sum of past top-1
evidence, the trace credit C, is kept per position and token, and its logarithm is added to the logits: a steady guess
crosses the line earlier, a flickering one not.

Follows dInfer's decoder: credit lives inside a block, the threshold gives way to the best position and to all within
1e-5 of it, and a finished block with an end mark ends the run. Without credit (alpha = 0) this is dInfer's threshold
decoder; with slack = 0 and stop_at_end off as well it is Fast-dLLM's, forward by forward, down to one token per forward
at a threshold above 1.
We depart in two points: the credit belongs to the run (the official decoder object can leak it into the next prompt),
and confidences are float64 (an option there, float32 by default), so that equals are equals in both decoders."""

from collections.abc import Sequence

from engines.kit import (
    Alternatives,
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
    Stops,
    Tensor,
    TokenId,
    block_of,
    exact,
    gumbel_argmax,
    many,
    mask_positions,
    slider,
    token_probability,
    torch,
)
from engines.methods.diffusion._forward import unmasking


class Earned(Record):
    """What a masked position has come to: its first choice, and every token that has credit there, with it."""

    at: Position
    top: TokenId
    tokens: list[TokenId]
    p: list[Probability]  # of those tokens, without credit
    credit: list[float]  # C of each


class Credits(Record):
    """The masked positions of a block with the credit that their first choices have earned."""

    start: Position  # of the block
    end: int  # the position after it
    rows: list[Earned]
    threshold: float
    slack: float
    alpha: float

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """Of each row the token and its probability with credit of another strength, and which of them are written."""
        if not self.rows:
            return {}
        values = slider(0, 2, 0.1, self.alpha)
        credited = {alpha: [*zip(*(lifted(row, alpha) for row in self.rows), strict=True)] for alpha in values}
        return {
            "token": Stops.over(values, lambda alpha: credited[alpha][0]),
            "value": Stops.over(values, lambda alpha: [round(value, 4) for value in credited[alpha][1]]),
            "written": Stops.over(values, lambda alpha: above(credited[alpha][1], self.threshold, self.slack)),
        }


@unmasking(
    "creditdecoding",
    title="CreditDecoding",
    paper="arXiv:2510.06133",
    code="https://github.com/inclusionAI/dInfer",
    summary="A threshold decoder that remembers: steady guesses earn credit and cross the threshold earlier.",
    params=[
        Int("block_length", 16, 1, 1024, symbol="b", source="32 in dInfer"),
        Float("threshold", 0.9, 0.0, 1.01, symbol="θ", source="dInfer tests"),
        Float("slack", 1e-5, 0.0, 1.0, step=1e-5, source="dInfer"),
        Float("credit_alpha", 0.7, 0.0, 4.0, step=0.05, symbol="α", neutral=0.0, source="dInfer"),
        Float("decay_beta", 0.8, 0.0, 0.99, symbol="β", source="dInfer"),
        Float("boost_gamma", 0.2, 0.0, 2.0, step=0.05, symbol="γ", source="dInfer"),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="τ"),
        Bool("stop_at_end", True, fair=False),
        Bool("early_stop", True),
    ],
    signature="credits",
    emits={"facts"},
    records={"credits": Credits},
    lanes={"confidence": "probability", "fused": "probability", "credit": "nats"},
    baseline="threshold",
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """dInfer's `CreditThresholdParallelDecoder` in its uniform loop; v is the raw top guess, x0 the fused one."""
    end = len(prompt) + p.max_new_tokens
    x = run.canvas(p.max_new_tokens, model.record.device)  # [L]
    block, C, streak = (-1, -1), torch.empty(0), torch.empty(0)
    while len(masks := mask_positions(x, model.mask_id)):
        if (here := block_of(int(masks[0]), len(prompt), p.block_length, end)) != block:
            block, last = here, None
            C = torch.zeros(here[1] - here[0], model.vocab_size, device=x.device)  # [b, V]
        a, b = block
        full = model(x)  # [L, V]
        z = full[a:b]  # [b, V]
        hidden = x[a:b] == model.mask_id  # [b]
        v, q = accumulate(C, z, hidden, p.decay_beta, p.boost_gamma)  # [b], [b]
        streak = torch.where(v == last, streak + 1, torch.ones_like(v)) if last is not None else torch.ones_like(v)
        last = v
        fused = z + p.credit_alpha * torch.log1p(C)
        x0 = gumbel_argmax(fused, p.temperature, run.rng, torch.arange(a, b), len(x))  # [b]
        conf = token_probability(fused, x0)  # [b], float64
        lead = conf.masked_fill(~hidden, -torch.inf).tolist()
        chosen = torch.tensor(above(lead, p.threshold, p.slack), device=x.device)
        causes = [
            "threshold" if r >= p.threshold else "boosted" if f >= p.threshold else "top1"
            for r, f in zip(q[chosen], conf[chosen], strict=True)
        ]
        x[a + chosen] = x0[chosen]
        positions, tokens, ended = a + chosen, x0[chosen], False
        if p.stop_at_end and not (x[a:b] == model.mask_id).any() and any(int(t) in model.eos_ids for t in x[a:b]):
            ended = not p.early_stop
            rest = mask_positions(x, model.mask_id) if p.early_stop else masks[:0]
            x[rest] = fill = min(model.eos_ids)
            positions, tokens = torch.cat([positions, rest]), torch.cat([tokens, torch.full_like(rest, fill)])
            causes += ["fill"] * len(rest)
        at, gain = a + hidden.nonzero()[:, 0], p.credit_alpha * torch.log1p(C.gather(1, v[:, None])[:, 0])  # [m], [b]
        edit = yield run.step(
            records={
                "credits": lambda: Credits(a, b, earned(C, z, hidden, v, a), p.threshold, p.slack, p.credit_alpha)
            },
            commits=(positions, tokens, causes, conf[chosen].tolist() + [None] * (len(positions) - len(chosen))),
            scores=lambda: {
                "confidence": (masks, full[masks].softmax(-1).max(-1).values),
                "fused": (at, conf[hidden]),
                "credit": (at, gain[hidden]),
            },
            thresholds={"confidence": p.threshold, "fused": p.threshold},
            candidates=lambda: (masks, full[masks]),
            spans=[Span("block", a, b)],
            facts={"boosted": causes.count("boosted"), "longest_streak": int(streak[hidden].max())},
            note=note(causes),
        )
        x = run.apply_edit(edit, x)
        if ended:
            break


def accumulate(C: Tensor, z: Tensor, hidden: Tensor, beta: float, gamma: float) -> tuple[Tensor, Tensor]:
    """Decay C [b, V] and add q^gamma at the top guess of each masked row, in place. Returns the top guesses v [b] and
    their q [b]."""
    C *= beta
    q, v = z.float().softmax(-1).max(-1)
    rows = hidden.nonzero()[:, 0]
    C[rows, v[rows]] += q[rows] ** gamma
    return v, q


def earned(C: Tensor, z: Tensor, hidden: Tensor, v: Tensor, a: int) -> list[Earned]:
    """The record of each masked row; C, z [b, V], hidden, v [b], a the block's first position."""
    p, rows = z.double().softmax(-1), []
    for i in hidden.nonzero()[:, 0].tolist():
        tokens = C[i].nonzero()[:, 0]
        rows.append(Earned(a + i, int(v[i]), tokens.tolist(), exact(p[i, tokens]), exact(C[i, tokens])))
    return rows


def lifted(row: Earned, alpha: float) -> tuple[int, float]:
    """The token of a row that its credit, raised to alpha, puts first, and its probability then."""
    fused = [p * (1 + C) ** alpha for p, C in zip(row.p, row.credit, strict=True)]
    best = fused.index(max(fused))
    return row.tokens[best], fused[best] / (max(0.0, 1 - sum(row.p)) + sum(fused))


def above(conf: Sequence[float], theta: float, slack: float) -> list[int]:
    """Rows whose confidence is at least theta, or that of the best less the slack; without any slack the best alone,
    the first of equals. conf [b]."""
    best = max(conf)
    line = min(theta, best - slack)
    return [conf.index(best)] if not slack and line < theta else [i for i, c in enumerate(conf) if c >= line]


def note(causes: list[str]) -> str:
    """A sentence on what decided."""
    if boosted := causes.count("boosted"):
        return f"Credit lifted {many(boosted, 'steady guess', 'steady guesses')} over the threshold."
    return (
        "None reached the threshold; the most confident one is written."
        if "top1" in causes
        else "Above the threshold without credit."
    )
