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

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engines.kit import Params, Recorder, Roles, Steps, Tensor, part
from engines.methods.heads._rows import MOST, TREE, Drafter
from engines.methods.heads._template import vocabulary_of
from engines.methods.speculative._turn import Target, drafting
from engines.models.drafters.rows import Published, Rows
from engines.models.networks.exits import Past

if TYPE_CHECKING:
    from engines.models.networks.eagle_layer import EagleLayer


@drafting(
    "eagle",
    title="EAGLE",
    paper="arXiv:2401.15077",
    code="https://github.com/SafeAILab/EAGLE",
    summary="One layer predicts the next hidden states and drafts with the model's own head; its confidence shapes the "
    "tree.",
    needs={"target": "layered", "layer": part("eagle-layer", "eagle-2")},
    params=TREE,
    signature="tree",
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """A turn without the true hidden states of the text but its last token (the first, and after a person's change)
    reads the text and drafts nothing."""
    model, drafter = models.target, Drafter(rows_of(models.target, models.layer))
    target, ids = Target(model, prompt, p, rows=MOST + 1), prompt
    while target.unfinished(ids):
        ready, draft = drafter.ready(ids), drafter.tree(target, ids, p)
        iteration = target.verify(ids, draft, run.rng, hidden=drafter.source.reads)
        drafter.learn(iteration)
        size = "" if ready else f" {models.layer.parameters:,} trained parameters draft from here on."
        facts = iteration.facts(layer_rows_of_draft=drafter.rows, depth=max(draft.depths()))
        edit = yield run.step(**iteration.groups(), facts=facts, note=iteration.note() + size)
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        drafter.forget(target.cache.length)


def rows_of(model: Any, layer: Any) -> Rows:
    """What drafts: a published drafter, or the layer that was trained here for this model."""
    if hasattr(layer, "drafter"):
        return Published(layer)
    from engines.models.networks.eagle_layer import layer_of  # it needs torch, which listing methods does not load

    device = model.record.device
    return Trained(model.playing("draft"), layer_of(layer).to(device), vocabulary_of(layer, device))


class Trained(Rows):
    """The layer that was trained here (`engines.models.networks.eagle_layer`) as rows to draft with, with the model's
    embeddings and head."""

    def __init__(self, model: Any, layer: EagleLayer, vocabulary: Tensor | None) -> None:
        """model: the target playing the draft."""
        self.model, self.layer, self.past = model, layer, Past()
        self.vocabulary = vocabulary
        self.reads = (model.num_layers,)

    def states(self, hidden: Mapping[int, Tensor]) -> Tensor:
        """See `Rows`."""
        return hidden[self.reads[0]]

    def read(self, tokens: Sequence[int], S: Tensor) -> Tensor:
        """See `Rows`."""
        return self.layer(self.model.embed(tokens), S, self.past)

    def grow(self, tokens: Sequence[int], before: Tensor, at: Tensor, sees: Tensor) -> Tensor:
        """See `Rows`."""
        return self.layer(self.model.embed(tokens), before, self.past, at, sees)

    def logits(self, F: Tensor, predicts: Sequence[int]) -> Tensor:
        """See `Rows`."""
        return self.model.unembed(F, self.vocabulary, normed=True, predicts=predicts)
