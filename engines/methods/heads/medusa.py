"""Medusa-1: heads that guess the tokens after the next (Cai et al., arXiv:2401.10774; code FasterDecoding/Medusa).

K small heads read the last hidden state h of the frozen model; head i guesses the token i + 1 places behind the one
that the model itself says next. Their best guesses fill a tree of fixed shape, one forward of the model verifies all of
it, and the hidden state of the last accepted node makes the next guesses: no second model, no pass of its own.

We depart from the released code in: each head has a linear path, h' = R h + SiLU(W h + b), which ridge regression fills
before training (released: h + SiLU(W h + b)); the model's own output head reads h', for a draft vocabulary where the
model's is large; the tree is built from accuracies measured on held-out text (the released ones fit Vicuna); above
temperature 0 the default is exact verification, and typical acceptance, the paper's, is a choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engines.kit import (
    Choice,
    Float,
    Generator,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    Tensor,
    distribution,
    draw,
    part,
    torch,
)
from engines.methods.heads import _template as template
from engines.methods.speculative._turn import Target, drafting, temperature
from engines.methods.speculative._verify import Draft, Test, Verdict, verify


@drafting(
    "medusa",
    title="Medusa",
    paper="arXiv:2401.10774",
    code="https://github.com/FasterDecoding/Medusa",
    summary="Small heads on the model's last hidden state guess the tokens after the next; one forward checks a tree.",
    needs={"target": "layered", "heads": part("medusa-heads", "medusa-heads")},
    params=[
        Int("nodes", 12, 0, 63, neutral=0, source="63 in the code"),
        Int("K", 3, 1, 5, symbol="K", source="3 to 5"),
        temperature(help=""),
        Choice("acceptance", "exact", ["exact", "typical"], source="typical in the paper"),
        Float("epsilon", 0.09, 0.01, 0.5, step=0.01, symbol="ε"),
        Float("delta", 0.3, 0.05, 1.0, step=0.05, symbol="δ"),
    ],
    signature="tree",
    lossless=[{"acceptance": "exact"}, {"temperature": 0.0}],
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Heads (section 2.1.1 of 2401.10774), tree attention (2.1.2) and the acceptance of its longest path. h is the
    hidden state that spoke the newest token, so a turn without one (the first, and after a person's change) reads the
    text and drafts nothing."""
    model, heads = models.target, heads_of(models.target, models.heads)
    a = heads.accuracy[: p.K]  # [K][RANKS]
    paths, _ = template.parents_of(path for path, _ in template.likeliest(a, p.nodes))
    rule = typical(p.epsilon, p.delta) if p.acceptance == "typical" and p.temperature else verify
    target = Target(model, prompt, p, rows=len(paths))
    ids, h = prompt, None
    while target.unfinished(ids):
        draft, known = Draft(ids[-1], "draft"), [()]
        if h is not None and len(paths) > 1:
            deepest = target.deepest(ids)
            known = [path for path in paths if len(path) <= deepest]
            ranked = template.rankings_of(heads.guess(h, len(ids), len(a)), heads.vocabulary)  # [K]
            draft = template.laid(known, ids[-1], ranked, "head")
        iteration = target.verify(ids, draft, run.rng, hidden=(model.num_layers,), rule=rule)
        size = "" if h is not None else f" {models.heads.parameters:,} trained parameters draft from here on."
        edit = yield run.step(
            **iteration.groups(template.ranks_of(known)),
            facts=iteration.facts(heads=len(a) if len(draft) > 1 else 0),
            note=iteration.note() + size,
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        h = iteration.hidden[model.num_layers][iteration.verdict.path[-1]] if ids == iteration.ids else None


def heads_of(model: Any, part: Any) -> Trained | Published:
    """What guesses: published heads, or those that were trained here for this model."""
    return Published(part) if hasattr(part, "drafter") else Trained(model, part)


class Trained:
    """The heads that were trained here, read by the model's own output head. accuracy [K][RANKS]: how often each guess
    was right on held-out text."""

    def __init__(self, model: Any, part: Any) -> None:
        self.model, device = model.playing("draft"), model.record.device
        self.tensors = {name: tensor.float().to(device) for name, tensor in part.tensors.items()}
        self.accuracy: list[list[float]] = self.tensors["accuracy"].tolist()
        self.vocabulary = template.vocabulary_of(part, device)

    def guess(self, h: Tensor, at: int, K: int) -> Tensor:
        """Logits [K, v] of the first K heads behind the state h [d]; the first speaks of position `at`."""
        return self.model.unembed(hidden(self.tensors, h, K), self.vocabulary, normed=True, predicts=at)


class Published:
    """Published heads, as many as their file has. They bring no measured accuracies, so the shape of the tree comes
    from assumed ones: ASSUMED, falling by a fifth from head to head."""

    vocabulary = None

    def __init__(self, heads: Any) -> None:
        self.heads = heads
        self.accuracy = [[chance * 0.8**i for chance in template.ASSUMED] for i in range(heads.heads)]

    def guess(self, h: Tensor, at: int, K: int) -> Tensor:
        """See `Trained`."""
        return self.heads.guess(self.heads, h, at, K)


def hidden(heads: Mapping[str, Tensor], h: Tensor, K: int) -> Tensor:
    """What K heads make of a hidden state h [d] or of several [n, d], behind the final norm: R h + SiLU(W h + b),
    [K, d] or [K, n, d], on the same scale."""
    R, W, b = (heads[name][:K] for name in ("R", "W", "b"))
    x = h.float() if h.ndim > 1 else h.float()[None]
    out = x @ R.mT + torch.nn.functional.silu(x @ W.mT + b[:, None])
    return out if h.ndim > 1 else out[:, 0]


def thresholds(p: Tensor, epsilon: float, delta: float) -> Tensor:
    """min(ε, δ exp(-H)) of each distribution [n, V]; H with the released 1e-5 inside the logarithm."""
    H = -(p * (p + 1e-5).log()).sum(-1)
    return (delta * (-H).exp()).clamp(max=epsilon)


def accepted_path(
    p: Tensor, draft: Draft, epsilon: float, delta: float, ends: frozenset[int] = frozenset()
) -> list[int]:
    """Rows (0 first) of the longest path of which every token x has p(x) > threshold at its parent; ties by the larger
    sum of ln p, then by the later leaf in the tree, as in the released order of rows. Nothing follows an end mark."""
    limit = thresholds(p, epsilon, delta)
    best: dict[int, tuple[int, float]] = {0: (0, 0.0)}  # accepted row -> its depth and sum of ln p
    for row in range(1, len(draft)):
        above, x = draft.parents[row], draft.tokens[row]
        open_above = above in best and not (above and draft.tokens[above] in ends)
        if open_above and float(p[above, x]) > float(limit[above]):
            best[row] = (best[above][0] + 1, best[above][1] + float(p[above, x].log()))
    path = [max(best, key=lambda row: (*best[row], row))]
    while path[0] > 0:
        path.insert(0, draft.parents[path[0]])
    return path


def typical(epsilon: float, delta: float) -> Callable[..., Verdict]:
    """Typical acceptance (section 2.3.1) in the place of `verify`: a guess is kept where the model finds it likely
    enough for how sure it is there. Behind the path the next token is drawn from what the threshold leaves. It does not
    keep the model's distribution."""

    def accept(
        z: Tensor, draft: Draft, temperature: float, rng: Generator, ends: frozenset[int] = frozenset()
    ) -> Verdict:
        p = distribution(z.double(), temperature)
        path = accepted_path(p, draft, epsilon, delta, ends)
        kept, row = set(path), path[-1]
        rows = [r for r in range(1, len(draft)) if draft.parents[r] in kept]
        tests = [Test(r, float(p[draft.parents[r], draft.tokens[r]]), None, r in kept) for r in rows]
        if row and draft.tokens[row] in ends:
            return Verdict(path, -1, "draft", tests)
        likely = torch.where(p[row] > thresholds(p[row : row + 1], epsilon, delta), p[row], 0.0)
        likely = likely if float(likely.sum()) > 0 else p[row]
        return Verdict(path, draw(likely / likely.sum(), rng), "target", tests)

    return accept
