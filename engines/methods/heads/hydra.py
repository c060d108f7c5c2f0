"""Hydra: draft heads that know what the heads before them guessed (Ankner et al., arXiv:2402.05109; code zankner/Hydra,
model/hydra_heads/mlp_head.py).

As in Medusa small heads read the last hidden state h of the frozen model, fill a tree of fixed shape, and one forward
verifies it. But head i also reads the embeddings of the tokens on its path, the model's own next token and the guesses
of the heads before: every node has guesses of its own, and a path reads like a text.

We depart from the released code in: each head has a linear path, R x + SiLU(W x + b), which ridge regression fills
before training; one layer a head and no prefix layer (Hydra, not Hydra++); the tree is built from accuracies measured
on held-out text; a draft vocabulary where the model's is large; exact verification above temperature 0 (released:
typical acceptance).

Letters: K heads, a[d][r] the measured chance that guess r of head d is right behind true tokens, v draft vocabulary."""

from collections.abc import Sequence
from typing import Any

from engines.kit import Int, Params, Recorder, Roles, Steps, Tensor, part
from engines.methods.heads import _template as template
from engines.methods.speculative._turn import Target, Turn, drafting
from engines.methods.speculative._verify import Draft


@drafting(
    "hydra",
    title="Hydra",
    paper="arXiv:2402.05109",
    code="https://github.com/zankner/Hydra",
    summary="Medusa's heads, but each also reads the tokens guessed before it, so that every path fits together.",
    needs={"target": "layered", "heads": part("hydra-heads", "hydra-heads")},
    params=[
        Int("nodes", 12, 0, 63, neutral=0, source="63 in the code"),
        Int("K", 3, 1, 5, symbol="K", source="4"),
    ],
    signature="tree",
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """h is the hidden state that spoke the newest token, so a turn without one (the first, and after a person's change)
    reads the text and drafts nothing."""
    model, n = models.target, models.target.num_layers
    heads = Published(models.heads) if hasattr(models.heads, "drafter") else Trained(model, models.heads)
    paths, parents = template.parents_of(path for path, _ in template.likeliest(heads.accuracy[: p.K], p.nodes))
    target = Target(model, prompt, p, rows=len(paths))
    ids, h = prompt, None
    while target.unfinished(ids):
        draft, known = Draft(ids[-1], "draft"), paths[:1]
        if h is not None and len(paths) > 1:
            deepest = target.deepest(ids)
            known = [path for path in paths if len(path) <= deepest]
            draft = grown(heads, h, known, parents[: len(known)], ids)
        iteration = target.verify(ids, draft, run.rng, hidden=(n,))
        size = "" if h is not None else f" {models.heads.parameters:,} trained parameters draft from here on."
        facts = iteration.facts(heads=max(map(len, known)))
        edit = yield run.step(**iteration.groups(template.ranks_of(known)), facts=facts, note=iteration.note() + size)
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        h = heads.read(iteration, n, target.cache.length)
        h = h if ids == iteration.ids else None


class Trained:
    """The heads that were trained here. accuracy [K][RANKS]: how often each guess was right on held-out text."""

    def __init__(self, model: Any, part: Any) -> None:
        from engines.models.networks.hydra_heads import heads_of  # it needs torch, which listing methods does not load

        self.model, self.heads = model.playing("draft"), heads_of(part).to(model.record.device)
        self.vocabulary = template.vocabulary_of(part, model.record.device)
        self.accuracy: list[list[float]] = part.tensors["accuracy"].tolist()

    def read(self, iteration: Turn, n: int, length: int) -> Tensor | None:
        """The state [d] that they read behind a round. n: the target's layers; length: rows of the text that hold."""
        return iteration.hidden[n][iteration.verdict.path[-1]]

    def guess(self, i: int, h: Tensor, lines: list[list[int]], at: int) -> Tensor:
        """Logits [n, v] of head i behind n paths of i + 1 tokens, from the state h [d]; they speak of position `at`."""
        e = self.model.embed([token for line in lines for token in line]).unflatten(0, (len(lines), i + 1))
        x = self.heads(h.expand(len(lines), -1), e)  # [n, d]
        return self.model.unembed(x, self.vocabulary, normed=True, predicts=[at] * len(lines))


class Published:
    """Published heads. Hydra++'s prefix layer reads the whole text; the tree's shape comes from assumed accuracies
    (`ASSUMED`), since they bring none."""

    vocabulary = None

    def __init__(self, heads: Any) -> None:
        self.heads, self.pasts = heads, heads.pasts()
        self.accuracy = [template.ASSUMED] * heads.heads

    def read(self, iteration: Turn, n: int, length: int) -> Tensor | None:
        """See `Trained`; the prefix layer reads what the round added to the text."""
        begin = len(iteration.before) - 1 - len(iteration.chain)
        self.pasts.crop(min(begin, length))
        new = iteration.states[n][: max(0, length - begin)]
        return self.heads.state(self.heads, new, self.pasts) if len(new) else None

    def guess(self, i: int, h: Tensor, lines: list[list[int]], at: int) -> Tensor:
        """See `Trained`."""
        return self.heads.guess(self.heads, i, h, lines, at)


def grown(
    heads: Trained | Published,
    h: Tensor,
    paths: Sequence[template.Path],
    parents: Sequence[int],
    ids: Sequence[int],
) -> Draft:
    """The tree of these paths below the text `ids`, depth by depth: head i guesses behind every node of depth i that
    has children, from h [d] and the tokens down to that node."""

    def ranked(i: int, rows: list[int], draft: Draft) -> list[template.Ranking]:
        lines = [[ids[-1], *draft.path(row)] for row in rows]  # each i + 1 tokens
        return template.rankings_of(heads.guess(i, h, lines, len(ids) + i), heads.vocabulary)

    return template.by_depth(paths, parents, ids[-1], ranked)[0]
