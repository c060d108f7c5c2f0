"""EAGLE: drafting in hidden states (Li et al., arXiv:2401.15077), with the dynamic draft tree of EAGLE-2 (Li et al.,
arXiv:2406.16858; code SafeAILab/EAGLE, model/cnets1.py and model/utils.py).

One decoder layer reads a token together with the model's last hidden state one place before it and foresees the next
hidden state, which the model's own output head turns into guesses; then it goes on from its own state. EAGLE-2 lets the
layer's confidence shape the tree: at each depth the k guesses with the largest joint probability are expanded, and of
all that was guessed the likeliest nodes are verified in one forward.

We depart from the released code in: the layer is small, trained here (see its card) on the text that Medusa's heads
learned from; its attention reads rows at one scale; a smaller tree as default, made for a CPU; a draft vocabulary where
the model's is large; the prompt is read in the first turn, which drafts nothing.

Letters: F the layer's estimate of a hidden state h, e the embedding of a token, k guesses of a node (top_k), T rows of
text that the layer has read, d hidden size, v draft vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engines.kit import Int, Params, Recorder, Roles, Steps, max_new_tokens, method, part, top_ids, torch
from engines.methods.heads._confident_tree import Fan, grown
from engines.methods.speculative._turn import EMITS, LANES, Target, temperature
from engines.methods.speculative._verify import Draft
from engines.models.exits import Past

if TYPE_CHECKING:
    from torch import Tensor

    from engines.models.networks.eagle_layer import EagleLayer

MOST = 63


@method(
    "eagle",
    title="EAGLE",
    family="heads",
    paper="arXiv:2401.15077",
    code="https://github.com/SafeAILab/EAGLE",
    summary="One layer predicts the next hidden states and drafts with the model's own head; its confidence shapes the "
    "tree.",
    needs={"target": "layered", "layer": part("eagle-layer")},
    params=[
        max_new_tokens(64),
        Int("nodes", 12, 0, MOST, neutral=0, source="59 beside the root in the code"),
        Int("depth", 3, 0, 7, source="7 in the code"),
        Int("top_k", 4, 1, 10, symbol="k", source="10 in the code"),
        temperature(),
    ],
    signature="tree",
    emits=EMITS - {"intervals"},
    lanes=LANES,
    baseline="greedy",
    lossless=True,
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """H holds the true hidden states of the text but its last token; a turn without all of them (the first, and after a
    person's change) reads the text and drafts nothing."""
    from engines.models.networks.eagle_layer import layer_of  # it needs torch, which listing methods does not load

    model, n = models.target, models.target.num_layers
    layer = layer_of(models.layer).to(model.record.device)
    drafter = Drafter(model.playing("draft"), layer, models.layer.tensors.get("vocabulary"))
    target, ids, H = Target(model, prompt, p, rows=MOST + 1), prompt, None
    while target.unfinished(ids):
        draft, ranks = Draft(ids[-1], "draft"), [-1]
        deepest = min(target.room(ids), (model.max_positions or target.end) - len(ids), p.depth + 1)
        if H is not None and len(H) == len(ids) - 1 and p.nodes and deepest > 0:
            drafter.read(ids, H, p.top_k)
            draft, ranks = grown(drafter.fan, ids[-1], p.top_k, deepest - 1, p.nodes), None
        turn = target.verify(ids, draft, run.rng, hidden=(n,))
        rows = [turn.hidden_chain[n], turn.hidden[n][turn.verdict.path]]
        known = torch.cat(rows if H is None else [H, *rows])
        size = "" if H is not None else f" {models.layer.parameters:,} trained parameters draft from here on."
        facts = turn.facts(layer_rows_of_draft=drafter.rows, depth=max(draft.depths()))
        edit = yield run.step(**turn.groups(ranks), facts=facts, note=turn.note() + size)
        ids = run.apply_edit(edit, turn.ids, target.cache)
        H = known[: target.cache.length]
        drafter.forget(target.cache.length)


class Drafter:
    """The layer with its keys and values: it reads the text with its true states, then rows of a tree with its own."""

    def __init__(self, model: Any, layer: EagleLayer, vocabulary: Tensor | None) -> None:
        self.model, self.layer, self.past = model, layer, Past()
        self.vocabulary = None if vocabulary is None else vocabulary.long().to(model.record.device)
        self.T = self.rows = 0  # rows of text that it has read; rows that went through it in this turn

    def read(self, ids: Sequence[int], H: Tensor, k: int) -> None:
        """Read what is new of the text: row t is the token t + 1 with the state at t. A tree below `ids` may follow,
        with k guesses of each node."""
        self.end, self.k, self.T = len(ids), k, len(H)
        begin = self.past.length
        self.F = self.layer(self.model.embed(ids[begin + 1 :]), H[begin:], self.past)[-1:]  # [1, d]: at the root
        self.rows, self.features = self.T - begin, {0: self.F[0]}
        self.lines: dict[int, list[int]] = {0: []}  # row of the tree -> places of it and its ancestors

    def fan(self, rows: Sequence[int], tokens: Sequence[int], parents: Sequence[int]) -> Fan:
        """The k best guesses behind each of these rows of a tree, all of one depth, with their log-probabilities."""
        depth = len(self.lines[parents[rows[0]]]) + 1 if rows[0] else 0
        if depth:
            base = self.past.length
            sees = torch.zeros(len(rows), base + len(rows), dtype=torch.bool, device=self.F.device)
            sees[:, : self.T] = True
            for i, row in enumerate(rows):
                self.lines[row] = [*self.lines[parents[row]], base + i]
                sees[i, self.lines[row]] = True
            before = torch.stack([self.features[parents[row]] for row in rows])
            at = torch.full((len(rows),), self.T + depth - 1, device=self.F.device)
            self.F = self.layer(self.model.embed([tokens[row] for row in rows]), before, self.past, at, sees)
            self.features |= dict(zip(rows, self.F, strict=True))
            self.rows += len(rows)
        z = self.model.unembed(self.F, self.vocabulary, normed=True, predicts=[self.end + depth] * len(rows))
        best = top_ids(z, self.k)
        tokens = best if self.vocabulary is None else self.vocabulary[best]
        return tokens.tolist(), z.double().log_softmax(-1).gather(-1, best).tolist()

    def forget(self, length: int) -> None:
        """Of the text's first `length` states the row of the last one waits for its token; the tree is gone."""
        self.past.crop(max(0, min(length - 1, self.T)))
        self.rows = 0


if __name__ == "__main__":
    from engines.kit import show

    show("eagle", "tiny-ar-l", "add: 457 + 86")
