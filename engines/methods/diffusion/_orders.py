"""What Dream and Dimple share: the time grid, the distribution that proposals are drawn from, the scores that put them
in order, and the drawing of positions.

Shapes: m masked positions, V vocabulary. Scores are float32, as in the official loops.
"""

from engines.kit import Float, Generator, Int, LaneInfo, Tensor, token_probability, torch, within_mass, within_rank

EPS = 1e-3  # the end of the time grid
COLD = 1e-4  # temperatures above 0 count as at least this much, so that nothing divided by them leaves float32
BEST = {
    "maskgit_plus": "the most probable",
    "topk_margin": "those with the largest margin",
    "entropy": "those with the lowest entropy",
}

STEPS = Int(
    "steps",
    48,
    1,
    1024,
    symbol="S",
    help="Points of the time schedule: fewer write more per forward.",
    source="as many as tokens in the README",
)
ALG_TEMP = Float(
    "alg_temp",
    0.0,
    0.0,
    4.0,
    step=0.05,
    help="Above 0 the positions are drawn, better ones more often, instead of being the best.",
    source="0",
)
TEMPERATURE = Float(
    "temperature",
    0.0,
    0.0,
    2.0,
    step=0.05,
    symbol="τ",
    help="Above 0 the proposals are drawn instead of being the most likely.",
    source="0; 0.2 in the README",
)
TOP_P = Float(
    "top_p",
    1.0,
    0.01,
    1.0,
    help="Only the most likely tokens with this mass together may be proposed; 1 allows all.",
    source="off; 0.95 in the README",
)
TOP_K = Int(
    "top_k", 0, 0, 1024, help="Only this many of the most likely tokens may be proposed; 0 allows all.", source="off"
)

MARGIN = LaneInfo("probability", "How far the best token is ahead of the second; the order of topk_margin.")
NEG_ENTROPY = LaneInfo(
    "score", "Entropy in nats with a minus sign, so that larger is more confident; the order of entropy."
)


def time_grid(steps: int) -> Tensor:
    """t_0 = 1 to t_S = 0.001 in equal steps, [S + 1], float32 as in the official code: its rounding decides some
    commits."""
    return torch.linspace(1, EPS, steps + 1)


def narrowed(z: Tensor, temperature: float, top_p: float, top_k: int) -> Tensor:
    """Logits of the distribution that proposals are drawn from: z / temperature, then top-p, then top-k. [m, V] -> [m,
    V]."""
    return within_rank(within_mass(z / max(temperature, COLD) if temperature > 0 else z, top_p), top_k)


def propose(q: Tensor, temperature: float, rng: Generator) -> Tensor:
    """A token per row of the narrowed logits q [m, V], drawn, or the most likely one at temperature 0. [m]."""
    if temperature == 0 or not len(q):
        return q.argmax(-1)
    return torch.multinomial(q.softmax(-1).cpu(), 1, generator=rng)[:, 0].to(q.device)


def score(z: Tensor, x0: Tensor, alg: str) -> Tensor:
    """What an order goes by, larger first: p1 - p2, sum p ln(p + 1e-10), or the probability of x0. z [m, V], x0 [m] ->
    [m]."""
    if alg == "topk_margin":
        first, second = z.softmax(-1).topk(2).values.unbind(-1)
        return first - second
    if alg == "entropy":
        p = z.softmax(-1)
        return (p * (p + 1e-10).log()).sum(-1)
    return token_probability(z, x0, torch.float32)


def pick(order: Tensor, k: int, alg_temp: float, rng: Generator) -> Tensor:
    """Indices of the k largest of `order`, or k drawn without replacement from softmax(order / alg_temp). -inf marks
    what may not be picked.

    Where the softmax runs out of float32, a floor keeps what may be picked above what may not, and what lies below it
    is drawn evenly; there the official loops could pick a position that is decided already."""
    if alg_temp == 0 or k == 0:
        return order.topk(k).indices
    chance = (order / max(alg_temp, COLD)).softmax(-1).clamp(min=1e-30).masked_fill(order == -torch.inf, 0)
    return torch.multinomial(chance.cpu(), k, generator=rng).to(order.device)
