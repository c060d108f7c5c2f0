"""Shared mathematics of choosing tokens: confidences, entropy, Gumbel noise, rejection. Each function is small and
tested alone.

Letters: L positions, n rows, V vocabulary; z logits, p and q distributions (p the target's, q the drafter's).
"""

from __future__ import annotations

import math

from engines.core.lazy import Generator, Tensor, torch

BLOCK = 64  # ids that the largest logit is looked for together
FEW = 4  # times k blocks from which looking at blocks pays


def token_probability(z: Tensor, tokens: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """softmax(z)[token] per row, z [n, V], tokens [n] -> [n], in `dtype` (default float64).

    It is the softmax itself, as in the official loops: exp(z - logsumexp(z)) is the same number on paper, but in
    float32 it is off by up to 1e-6 near 1, and so puts several sure positions into another order.
    """
    return z.to(dtype or torch.float64).softmax(-1).gather(-1, tokens[:, None]).squeeze(-1)


def entropy(z: Tensor, base: float = math.e) -> Tensor:
    """Entropy of softmax(z) per row, z [n, V] -> [n]; nats, or bits with base 2. Entries of -inf count nothing."""
    return torch.special.entr(z.softmax(-1)).sum(-1) / math.log(base)


def gumbel_argmax(z: Tensor, temperature: float, rng: Generator, rows: Tensor | None = None, of: int = 0) -> Tensor:
    """One token per row drawn from softmax(z / temperature), z [..., V] -> [...]; argmax at 0.

    LLaDA's form of Gumbel-max, exp(z) / (-ln U)^T in float64 (float32 noise is known to hurt): one uniform tensor of
    z's shape. rows [k], of: z [k, V] are these rows of a board of `of`, and the noise is drawn for all of it, so that
    leaving rows out changes no draw."""
    if temperature == 0:
        return z.argmax(-1)
    z = z.double()
    u = torch.rand(z.shape if rows is None else (of, z.shape[-1]), dtype=torch.float64, generator=rng)
    u = (u if rows is None else u[rows.to(u.device)]).to(z.device)
    return (z.exp() / (-u.log()) ** temperature).argmax(-1)


def draw(p: Tensor, rng: Generator) -> int:
    """One token from the distribution p [V] by inverse CDF in token order."""
    return inverse_cdf(p, uniform(rng))


def uniform(rng: Generator) -> float:
    """A number from U(0, 1)."""
    return float(torch.rand((), dtype=torch.float64, generator=rng))


def inverse_cdf(p: Tensor, v: float) -> int:
    """The smallest index whose cumulative sum is strictly above v * sum(p)."""
    cumulative = p.double().cumsum(-1)
    index = int(torch.searchsorted(cumulative, v * cumulative[-1], right=True))
    return min(index, int(p.nonzero()[-1]))


def distribution(z: Tensor, temperature: float) -> Tensor:
    """What sampling at `temperature` would use: softmax(z / T) [.., V]; one-hot at the first maximum for T = 0."""
    if temperature == 0:
        return torch.nn.functional.one_hot(z.argmax(-1), z.shape[-1]).to(torch.float32)
    return (z.float() / temperature).softmax(-1)


def within_mass(z: Tensor, top_p: float) -> Tensor:
    """Top-p: logits [.., V] with -inf behind the most likely tokens whose mass first exceeds `top_p`; the first one
    always stays, 1 keeps all."""
    if top_p >= 1:
        return z
    ranked, ids = z.sort(dim=-1, descending=True, stable=True)
    beyond = torch.zeros_like(ids, dtype=torch.bool)
    beyond[..., 1:] = ranked.softmax(-1).cumsum(-1)[..., :-1] > top_p
    return z.masked_fill(torch.zeros_like(beyond).scatter(-1, ids, beyond), -torch.inf)


def within_rank(z: Tensor, top_k: int) -> Tensor:
    """Top-k: logits [.., V] with -inf below the k-th largest; equals of the k-th stay, 0 keeps all."""
    if top_k <= 0:
        return z
    return z.masked_fill(z < z.topk(min(top_k, z.shape[-1]), dim=-1).values[..., -1:], -torch.inf)


def accept_probability(p: Tensor, q: Tensor, token: int) -> float:
    """min(1, p(x)/q(x)): the chance that a token drawn from q is kept (Leviathan et al. 2023, algorithm 1)."""
    if q[token] <= 0:  # cannot have been drawn, but rounding may say so; never keep what the target rules out
        return float(p[token] > 0)
    return min(1.0, float(p[token] / q[token]))


def residual(p: Tensor, q: Tensor) -> Tensor | None:
    """norm(max(p - q, 0)) [V], the distribution after a rejection; None where p = q (then nothing is ever rejected)."""
    left = (p - q).clamp(min=0)
    total = left.sum()
    return left / total if total > 1e-12 else None


def without(q: Tensor, token: int) -> Tensor | None:
    """q [V] with one token struck out and renormalised; None if nothing is left."""
    rest = q.clone()
    rest[token] = 0
    total = rest.sum()
    return rest / total if total > 1e-12 else None


def _largest(z: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest logits per row and their ids, best first, any of equal ones: z [n, V] -> [n, k] twice.

    On a CPU torch.topk takes many times longer than the largest of each block of ids. The k largest logits lie in the
    k blocks with the largest of these."""
    n, V = z.shape
    if z.device.type != "cpu" or V % BLOCK or FEW * k * BLOCK > V:
        values, ids = z.topk(k, dim=-1)
        return values, ids
    blocks = z.reshape(n, V // BLOCK, BLOCK)
    best = blocks.amax(-1).topk(k, dim=-1).indices
    values, at = blocks.gather(1, best[..., None].expand(n, k, BLOCK)).flatten(1).topk(k, dim=-1)
    return values, best.gather(1, at // BLOCK) * BLOCK + at % BLOCK


def top_ids(z: Tensor, k: int) -> Tensor:
    """Ids of the k largest logits per row, best first, equal logits by rising id: z [n, V] -> [n, k].

    torch.topk alone gives ties in no fixed order, which makes bf16 runs differ from machine to machine.
    """
    k = min(k, z.shape[-1])
    values, ids = _largest(z, min(k + 1, z.shape[-1]))
    tied = (values[:, k - 1] == values[:, -1]).nonzero()[:, 0].tolist() if values.shape[-1] > k else []
    values, ids = values[:, :k], ids[:, :k]
    for row in tied:  # across the border topk kept any of the equal ones
        near = (z[row] >= values[row, -1]).nonzero()[:, 0]  # rising ids
        ids[row] = near[z[row, near].argsort(descending=True, stable=True)[:k]]
        values[row] = z[row, ids[row]]
    by_id = ids.argsort(-1)
    order = by_id.gather(-1, values.gather(-1, by_id).argsort(dim=-1, descending=True, stable=True))
    return ids.gather(-1, order)
