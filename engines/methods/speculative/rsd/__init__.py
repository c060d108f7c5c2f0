"""Recursive speculative decoding: a draft tree sampled without replacement (Jeon et al., arXiv:2402.14160).

A tree of drafts helps only as far as its branches differ. RSD draws siblings without replacement, so that no row is
spent twice on one token, and tests them one after the other against a target residual and a draft distribution that
shrink together. RSD-C gives every node of a level the same number of children; RSD-S keeps the W most promising
sequences of each level, a sample of sequences without replacement (Kool et al., arXiv:1903.06059).

No official code was found and the paper's experiments were not readable: noise, order and verification follow its
ingredients, tie-breaking, caches and stopping are ours. The i.i.d. tree is here for comparison: of RSD-C's shape, or W
independent sequences beside RSD-S. At a draft temperature of 0 there is one token to draw, and the tree is a chain.

Letters: V vocabulary, B beams, q the drafter's distribution, phi = log q of a path, psi its perturbed score, r and d
what refusals leave of p and q."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul

from engines.kit import (
    Bool,
    Choice,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    Tensor,
    Text,
    UserError,
    torch,
)
from engines.methods.speculative._turn import VERBS, Drafter, Target, Turn, draft_temperature, drafting, temperature
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.rsd.draws import Draws, draws_of

MOST = 48  # rows that any setting drafts
TINY = 1e-12  # uniforms stay this far from 0 and 1, so that their noise is finite

Distributions = Callable[[list[int]], "Tensor"]  # rows of one level -> q [k, V], one forward
Noise = Callable[[int], "Tensor"]  # row -> fresh uniforms [V] for its children


def check(p: Params) -> None:
    """Raises UserError for branching factors that are none."""
    factors(p.branching)


@drafting(
    "rsd",
    title="RSD",
    own="after the abstract",
    paper="arXiv:2402.14160",
    summary="A tree of drafts whose siblings always differ, because they are drawn without replacement, verified one "
    "after the other.",
    needs={"target": "causal", "draft": "causal"},
    params=[
        Choice("variant", "S", ["S", "C"]),
        Int("width", 4, 1, 8, symbol="W", source="ours, for a CPU"),
        Int("length", 3, 1, 6, symbol="D", source="ours, for a CPU"),
        Text("branching", "2-2-1", source="ours, for a CPU"),
        Bool("replacement", False),
        temperature(),
        draft_temperature(1.0, source="ours; the paper's was not readable"),
    ],
    signature="siblings",
    emits={"intervals"},
    records={"draws": Draws},
    check=check,
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Draft level by level, one forward of the drafter each; the last level is not read by it. Then algorithm 2:
    verify, settle both caches."""
    target = Target(models.target, prompt, p, rows=1 + MOST)
    drafter = Drafter(models.draft, prompt, p, rows=MOST, vocab_size=models.target.vocab_size)
    ids = prompt
    while target.unfinished(ids):
        draft = Draft(ids[-1], replacement=p.replacement)

        def distributions(rows: list[int]) -> Tensor:
            return drafter.distribution(drafter.behind(ids, draft, rows).logits)

        def noise(row: int) -> Tensor:
            return torch.rand(drafter.vocab_size, dtype=torch.float64, generator=run.rng)

        if p.variant == "S" and not p.replacement:
            _, scores = beams(draft, p.width, min(p.length, target.room(ids)), distributions, noise)
        else:
            b = factors(p.branching) if p.variant == "C" else [p.width, *[1] * (p.length - 1)]
            scores = fan(draft, b[: target.room(ids)], distributions, noise)
        draft.values, draft.value_is = [None, *scores[1:]], ("perturbed log-probability", "score")
        iteration = target.verify(ids, draft, run.rng)
        drafter.settle(iteration.verdict.path)
        facts = iteration.facts(
            levels=max(draft.depths()),
            rescued=rescued(iteration),
            **({"repeated": repeated(draft)} if p.replacement else {}),
        )
        edit = yield run.step(
            **iteration.groups(),
            intervals=run.calls(VERBS),
            records={"draws": lambda iteration=iteration: draws_of(iteration, p.temperature)},
            facts=facts,
            note=note(iteration),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache, drafter.cache)


def factors(text: str) -> list[int]:
    """The branching factors of a text such as 2-2-1. Raises UserError."""
    parts = text.strip().split("-")
    b = [int(part) if part.isascii() and part.isdigit() else 0 for part in parts]
    if min(b) < 1 or sum(accumulate(b, mul)) > MOST:
        raise UserError(
            f"branching='{text[:40]}' is not a tree; give children per level such as 2-2-1, each at least 1 and at "
            f"most {MOST} nodes in all."
        )
    return b


def gumbel(u: Tensor) -> Tensor:
    """Standard Gumbel noise of uniforms, any shape."""
    return -(-u.double().clamp(TINY, 1 - TINY).log()).log()


def gumbel_topk(q: Tensor, u: Tensor, k: int) -> tuple[list[int], list[float]]:
    """k tokens of q [V] without replacement in draw order, by the largest log q + g, with these scores; fewer where q
    has fewer."""
    best = (q.double().log() + gumbel(u).to(q.device)).topk(min(k, int((q > 0).sum())))
    return best.indices.tolist(), best.values.tolist()


def fan(draft: Draft, b: Sequence[int], distributions: Distributions, noise: Noise) -> list[float]:
    """RSD-C: below every node of a level its b_l first tokens, or b_l independent ones with replacement. The perturbed
    score of each row."""
    level, perturbed = [0], [0.0]
    for k in b:
        below = []
        for row, q in zip(level, distributions(level), strict=True):
            draft.distributions[row] = q
            drawn = (
                [gumbel_topk(q, noise(row), 1) for _ in range(k)]
                if draft.replacement
                else [gumbel_topk(q, noise(row), k)]
            )
            for x, score in ((x, score) for tokens, scores in drawn for x, score in zip(tokens, scores, strict=True)):
                below.append(draft.add(row, x, chance=float(q[x])))
                perturbed.append(score)
        level = below
    return perturbed


def beams(draft: Draft, W: int, D: int, distributions: Distributions, noise: Noise) -> tuple[list[float], list[float]]:
    """RSD-S: on each level the W largest psi over the children of all beams; psi falls within a level. Returns phi and
    psi of each row.

    Whether a child stays depends on its psi alone, which given the siblings before it says nothing about its token: the
    distribution is kept."""
    level, all_phi, all_psi = [0], [0.0], [0.0]
    for _ in range(D):
        q = distributions(level).double()  # [B, V]
        phi, psi = (
            torch.tensor([scores[row] for row in level], dtype=torch.float64, device=q.device)
            for scores in (all_phi, all_psi)
        )
        u = torch.stack([noise(row) for row in level]).to(q.device)
        phi, psi = (scores.flatten() for scores in perturb(phi, psi, q, u))
        best = psi.topk(min(W, int((psi > -torch.inf).sum()))).indices
        draft.distributions.update(zip(level, q, strict=True))
        at, tokens = (best // q.shape[-1]).tolist(), (best % q.shape[-1]).tolist()
        level = [draft.add(level[i], x, chance=float(q[i, x])) for i, x in zip(at, tokens, strict=True)]
        all_phi, all_psi = all_phi + phi[best].tolist(), all_psi + psi[best].tolist()
    return all_phi, all_psi


def perturb(phi: Tensor, psi: Tensor, q: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """phi and psi [B, V] of every child, from those of the beams [B], q and u [B, V]: Gumbel scores whose maximum per
    beam is moved to its psi."""
    phi = phi[:, None] + q.log()
    G = phi + gumbel(u)
    Z = G.amax(-1, keepdim=True)
    v = psi[:, None] - G + (-torch.expm1(G - Z)).log()  # expm1: near the maximum 1 - exp would round to 0
    return phi, psi[:, None] - v.clamp(min=0) - torch.exp(-v.abs()).log1p()


def repeated(draft: Draft) -> int:
    """Rows that carry the token of a sibling drawn before, and all below them: a token refused once has no chance
    left."""
    seen: set[tuple[int, int]] = set()
    lost: set[int] = set()
    for row, key in enumerate(zip(draft.parents, draft.tokens, strict=True)):
        if key in seen or key[0] in lost:
            lost.add(row)
        seen.add(key)
    return len(lost)


def rescued(iteration: Turn) -> int:
    """Accepted rows that were not the first sibling tested: there a chain would have ended."""
    kept = iteration.verdict.path[1:]
    return sum(row != iteration.draft.parents.index(iteration.draft.parents[row]) for row in kept)


def note(iteration: Turn) -> str:
    """One sentence on the round."""
    wasted, later = repeated(iteration.draft), rescued(iteration)
    more = [f"{wasted} wasted on repeats of a sibling or nodes below one"] if wasted else []
    more += [f"{later} accepted after a sibling was refused, where a chain would have ended"] if later else []
    return "; ".join([iteration.note()[:-1], *more]) + "."
