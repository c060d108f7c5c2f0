"""Falcon: semi-autoregressive drafting (Gao et al., arXiv:2412.12639; code Bestpay-inc/Falcon, models/cnets.py and
train/glance.py).

EAGLE's layer foresees one hidden state in a pass. Falcon's foresees k: row t estimates the state at t + k, inside a
block of k rows each sees the others, and an LSTM in front carries the order of the tokens. Blocks guess worse; coupled
sequential glancing trains them on inputs in which the teacher has filled in some places, more of them where a first
pass was wrong. The levels of the draft tree come in groups of k, so m passes draft k m levels, which one forward
verifies.

The released drafter runs its LSTM over the batch and cannot run as it is, so the paper is followed. We depart from both
in: the tree comes from measured accuracies; a linear path beside the LSTM, begun by a ridge regression; a small layer,
trained here (see its card); borders of blocks laid so that the last block ends at the newest token, in training and in
decoding; exact verification above temperature 0.

Letters: k rows of a block, m passes, T rows of text that the layer has read, F estimates of hidden states, d hidden
size."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engines.kit import (
    Bool,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    Tensor,
    UserError,
    many,
    part,
    top_ids,
    torch,
)
from engines.methods.heads._template import RANKS, Path, likeliest, parents_of, ranks_of, vocabulary_of
from engines.methods.speculative._turn import Target, drafting
from engines.methods.speculative._verify import Draft
from engines.models.networks.exits import Past

if TYPE_CHECKING:
    from engines.models.networks.falcon_layer import FalconLayer, State


MOST = 63  # guesses that are verified


@drafting(
    "falcon",
    title="Falcon",
    paper="arXiv:2412.12639",
    code="https://github.com/Bestpay-inc/Falcon",
    summary="A layer predicts a block of tokens in each pass, and its draft tree grows in groups of levels.",
    needs={"target": "layered", "layer": part("falcon-layer")},
    params=[
        Int("nodes", 12, 0, MOST, neutral=0, source="75 to 166 in the code"),
        Int("k", 2, 1, 2, symbol="k", source="2"),
        Int("m", 2, 1, 4, symbol="m", source="4"),
        Bool("glancing", True),
    ],
    signature="tree",
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """H holds the true hidden states of the text but its last token; a turn without all of them (the first, and after a
    person's change) reads the text and drafts nothing."""
    model, n = models.target, models.target.num_layers
    drafter, using = drafter_of(models, p), (p.k, p.glancing)
    target, ids, H = Target(model, prompt, p, rows=MOST + 1), prompt, None
    while target.unfinished(ids):
        if using != (p.k, p.glancing):  # a person changed it
            drafter, using = drafter_of(models, p), (p.k, p.glancing)
        draft, paths = Draft(ids[-1], "draft"), list[Path]()
        deepest = min(target.deepest(ids), p.k * p.m)
        drafter.rows = drafter.passes = 0
        if H is not None and len(H) == len(ids) - 1 and p.nodes and deepest > 0 and (first := drafter.read(ids, H)):
            paths, parents = template(models.layer, name_of(p.k, p.glancing), p.nodes, deepest)
            tokens, chances = grown(drafter, paths, ids, first)
            draft = Draft.of(tokens, parents, "draft")
            draft.chances[1:] = chances[1:]
            draft.values = [float(-(-len(path) // p.k)) for path in paths]
            draft.value_is = ("pass that drafted it", "pass")
        iteration = target.verify(ids, draft, run.rng, hidden=(n,))
        known = iteration.states[n] if H is None else torch.cat([H, iteration.states[n]])
        size = "" if H is not None else f" {drafter.parameters:,} trained parameters draft from here on."
        facts = iteration.facts(passes=drafter.passes, layer_rows_of_draft=drafter.rows, depth=max(draft.depths()))
        edit = yield run.step(
            **iteration.groups(ranks_of(paths) or [-1]),
            facts=facts,
            note=note(iteration.note(), drafter.passes, p.k) + size,
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        H = known[: target.cache.length]
        drafter.forget(target.cache.length)


def name_of(k: int, glancing: bool) -> str:
    """How the part calls the layer for blocks of k; a block of one has nothing to glance at."""
    return f"k{k}" if glancing or k == 1 else f"k{k}-unglanced"


def drafter_of(models: Roles, p: Params) -> Drafter:
    """The layer for this k, with nothing read. Raises UserError for one that the part does not have."""
    from engines.models.networks.falcon_layer import layer_of  # it needs torch, which listing methods does not load

    name, known = name_of(p.k, p.glancing), models.layer.card["layers"]
    if name not in known:
        raise UserError(f"{models.layer.name} has no layer '{name}'; it has {', '.join(known)}: change k or glancing.")
    device = models.target.record.device
    layer, vocabulary = layer_of(models.layer, name).to(device), vocabulary_of(models.layer, device)
    return Drafter(models.target.playing("draft"), layer, p.k, vocabulary)


def template(layer: Any, name: str, nodes: int, deepest: int) -> tuple[list[Path], list[int]]:
    """The paths of the tree, root first, and their parents: the likeliest of the part's measured accuracies."""
    a = layer.tensors["accuracy"][layer.card["layers"].index(name)][:deepest].tolist()
    return parents_of(path for path, _ in likeliest(a, nodes))


def note(sentence: str, passes: int, k: int) -> str:
    """One sentence on the round."""
    turns = many(passes, "pass", "passes")
    return f"{sentence[:-1]}; drafted in {turns} of {many(k, 'level')} each." if passes else sentence


@dataclass(frozen=True)
class Group:
    """What one pass found below a node: states F [k, d] of the next k places, the best guesses of each of them
    [k][RANKS] and their chances, the LSTM's state behind its rows, and the places of its rows and those above them in
    the layer's cache."""

    F: Tensor
    guesses: list[list[int]]
    chances: list[list[float]]
    state: State
    line: list[int]


class Drafter:
    """The layer with its keys, values and LSTM states: it reads the text with its true states, then whole blocks of a
    tree with its own."""

    def __init__(self, model: Any, layer: FalconLayer, k: int, vocabulary: Tensor | None) -> None:
        self.model, self.layer, self.k, self.past = model, layer, k, Past()
        self.vocabulary = vocabulary
        self.states: list[State] = []  # behind each row of text that was read
        self.rows = self.passes = 0  # of this turn

    @property
    def parameters(self) -> int:
        """Trained numbers of the layer."""
        return sum(tensor.numel() for tensor in self.layer.parameters())

    def read(self, ids: Sequence[int], H: Tensor) -> Group | None:
        """Read what is new of the text, at least the last k rows: row t is the token t + 1 with the state H[t]. What
        the last block foresees behind the text; None where the text is shorter than a block."""
        from engines.models.networks.falcon_layer import mask_of

        T = len(H)
        self.rows = self.passes = 0
        if self.k > T:
            return None
        begin = min(len(self.states), T - self.k)
        self.forget_from(begin)
        z = self.layer.inputs(self.model.embed(ids[begin + 1 : T + 1]), H[begin:])[:, None]  # [n, 1, 2 d]
        given = []
        for row in z:
            r, state = self.layer.run(row[None], self.states[-1] if self.states else None)
            given.append(r)
            self.states.append(state)
        x = self.layer.mixed(z, torch.cat(given))[:, 0]
        F = self.layer.through(x, self.past, sees=mask_of(len(x), self.k, begin).to(x.device))[-self.k :]
        self.rows, self.passes = len(x), 1
        return Group(F, *self._said(F, len(ids)), self.states[-1], [])

    def below(
        self, leaders: Sequence[Path], of: MutableMapping[Path, Group], tokens: Mapping[Path, int], end: int
    ) -> None:
        """One pass below nodes of one depth, a multiple of k: each has a block of its own, the k tokens that lead to it
        with the states that its group foresaw. Adds the groups to `of`, which is by node. end: length of the text."""
        k, depth, T = self.k, len(leaders[0]), len(self.states)
        above = [of[path[:-k]] for path in leaders]
        e = [self.model.embed([tokens[path[: depth - k + j + 1]] for j in range(k)]) for path in leaders]
        z = torch.stack([self.layer.inputs(rows, up.F) for rows, up in zip(e, above, strict=True)], 1)  # [k, B, 2 d]
        h, c = (torch.cat(side, 1) for side in zip(*(up.state for up in above), strict=True))
        r, (h, c) = self.layer.run(z, (h, c))
        x = self.layer.mixed(z, r).transpose(0, 1).flatten(0, 1)  # [B k, d], block behind block
        base, n = self.past.length, len(x)
        sees = torch.zeros(n, base + n, dtype=torch.bool, device=x.device)
        sees[:, :T] = True
        lines = [[*up.line, *range(base + b * k, base + (b + 1) * k)] for b, up in enumerate(above)]
        for b, line in enumerate(lines):
            sees[b * k : (b + 1) * k, line] = True
        at = (T + depth - k + torch.arange(k, device=x.device)).repeat(len(leaders))
        F = self.layer.through(x, self.past, at, sees).unflatten(0, (len(leaders), k))
        self.rows, self.passes = self.rows + n, self.passes + 1
        for b, path in enumerate(leaders):
            guesses = self._said(F[b], end + depth)
            of[path] = Group(F[b], *guesses, (h[:, b : b + 1], c[:, b : b + 1]), lines[b])

    def _said(self, F: Tensor, start: int) -> tuple[list[list[int]], list[list[float]]]:
        z = self.model.unembed(F, self.vocabulary, normed=True, predicts=start)
        best = top_ids(z, RANKS)
        tokens = best if self.vocabulary is None else self.vocabulary[best]
        return tokens.tolist(), z.double().softmax(-1).gather(-1, best).tolist()

    def forget(self, length: int) -> None:
        """Of the text's first `length` states the row of the last one waits for its token; the tree is gone."""
        self.forget_from(max(0, min(length - 1, len(self.states))))

    def forget_from(self, row: int) -> None:
        """Only the first rows of text stay."""
        del self.states[row:]
        self.past.crop(row)


def grown(drafter: Drafter, paths: Sequence[Path], ids: Sequence[int], first: Group) -> tuple[list[int], list[float]]:
    """Tokens and chances of the nodes of a template, the root first: those of a group share the guesses of its rows;
    below a node at a multiple of k stands a group of its own, all groups of a depth in one pass."""
    k, of, tokens, chances = drafter.k, {(): first}, {(): ids[-1]}, {(): 1.0}
    inner = {path[: (len(path) - 1) // k * k] for path in paths if path}
    for depth in sorted({len(path) for path in paths if path}):
        if depth > k and depth % k == 1 % k:
            drafter.below(sorted(path for path in inner if len(path) == depth - 1), of, tokens, len(ids))
        for path in (path for path in paths if len(path) == depth):
            group, j = of[path[: (depth - 1) // k * k]], (depth - 1) % k
            tokens[path], chances[path] = group.guesses[j][path[-1]], group.chances[j][path[-1]]
    return [tokens[path] for path in paths], [chances[path] for path in paths]
