"""The two tests of Judge Decoding, and the token behind what they keep."""

from engines.kit import (
    Generator,
    Params,
    Tensor,
    accept_probability,
    distribution,
    draw,
    residual,
    torch,
)
from engines.methods.speculative._verify import Draft


def standard(z: Tensor, draft: Draft, p: Params, rng: Generator) -> tuple[list[bool], list[float | None], list[float]]:
    """m_i, its uniform and its chance for every drafted token: the target's first choice at temperature 0; above,
    u < p/q, or u < p where the token was not drawn."""
    x = draft.tokens[1:]
    if p.temperature == 0:
        plain = [int(z[i].argmax()) == token for i, token in enumerate(x)]
        return plain, [None] * len(x), [float(match) for match in plain]
    ratio = []
    for i, token in enumerate(x):
        law, q = distribution(z[i].double(), p.temperature), draft.distributions.get(i)
        ratio.append(float(law[token]) if q is None else accept_probability(law, q.to(law.device).double(), token))
    u: list[float | None] = torch.rand(len(x), dtype=torch.float64, generator=rng).tolist()
    return [number is not None and number < chance for number, chance in zip(u, ratio, strict=True)], u, ratio


def or_mask(plain: list[bool], score: list[float], delta: float) -> tuple[list[bool], int]:
    """(accept_i = m_i or j_i, A: the tokens before the first refusal)."""
    accept = [m or s > delta for m, s in zip(plain, score, strict=True)]
    return accept, accept.index(False) if False in accept else len(accept)


def last_token(z: Tensor, draft: Draft, A: int, p: Params, rng: Generator) -> tuple[int, str]:
    """The target's token behind A kept ones: its first choice at temperature 0; above, drawn, at a refusal from what
    the drafter's distribution left over."""
    if p.temperature == 0:
        return int(z.argmax()), "argmax"
    law = distribution(z.double(), p.temperature)
    if len(draft) - 1 == A:
        return draw(law, rng), "target"
    q = draft.distributions.get(A)
    point = torch.nn.functional.one_hot(torch.tensor(draft.tokens[A + 1]), len(law)).double()
    left = residual(law, (point if q is None else q).to(law.device).double())
    return draw(law if left is None else left, rng), "residual"
