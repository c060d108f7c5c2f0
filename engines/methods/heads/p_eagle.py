"""P-EAGLE: EAGLE-3's rows, all guesses in one pass (Hui et al., arXiv:2602.01469; code vllm-project/speculators,
models/peagle).

EAGLE-3 drafts k tokens in k passes, since each row waits for the guess of the row before it and for its output. Here
the rows that would wait are read at once: in place of the token that is not known yet each has a mask token, in place
of the state that is not there a learned one, the same for all, that goes through the same matrix fc. Attention runs
forward only, so a mask's row sees the text and the masks before it, and what was guessed there it does not know. One
pass drafts a chain of k tokens, and one forward of the model verifies it. Rows of masks never stay in the cache.

We depart in: two small layers, trained here (see their card; released: four); above temperature 0 the drafts are still
the first choices and one draw of the model decides, and the distribution is plain sampling's; the prompt is read in the
first turn, which drafts nothing.

Letters: k drafted tokens, n rows of text that are new, D numbers of the model's states for a row."""

from typing import Any

from engines.kit import (
    Int,
    Params,
    Probability,
    Record,
    Recorder,
    Roles,
    Steps,
    TokenId,
    part,
    top_ids,
)
from engines.methods.heads._rows import Drafter
from engines.methods.speculative._turn import Target, drafting
from engines.methods.speculative._verify import Draft
from engines.models.drafters.rows import Published

MOST = 16
SHOWN = 3  # guesses of a row in the record


class SharedState(Record):
    """The rows of a pass: those of the text, with the model's states, and after them those that share one state."""

    reads: list[int]  # layers whose input is read; `layers`: the stream behind all of them
    layers: int  # of the model
    before: int  # rows of text that were read in earlier passes
    text: list[TokenId]  # [n]: tokens of the rows that this pass read of the text
    tokens: list[list[TokenId]]  # [k, SHOWN]: guesses of the last of these rows, then of each mask, best first
    chances: list[list[Probability]]  # of the same shape, over the draft vocabulary


@drafting(
    "p-eagle",
    title="P-EAGLE",
    paper="arXiv:2602.01469",
    code="https://github.com/vllm-project/speculators",
    summary="EAGLE-3's rows in one pass: those that have no token and no state yet share a mask and a learned state.",
    needs={"target": "layered", "layer": part("parallel-layer", "parallel-eagle")},
    params=[
        Int("k", 4, 0, MOST, symbol="k", neutral=0, source="10 in the published drafter of GPT-OSS 20B"),
    ],
    signature="sharedstate",
    records={"sharedstate": SharedState},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """A turn without the states of the text but its last token (the first, and after a person's change) reads the text
    and drafts nothing."""
    model, drafter = models.target, Parallel(models.layer)
    target, ids = Target(model, prompt, p, rows=MOST + 1), prompt
    while target.unfinished(ids):
        draft, ready, filled = Draft(ids[-1], "draft"), drafter.ready(ids), None
        k = min(p.k, target.deepest(ids))
        if ready and k > 0:
            filled = drafter.draft(ids, k)
            for i, (tokens, chances) in enumerate(zip(filled.tokens, filled.chances, strict=True)):
                draft.taken(draft.add(i, tokens[0], chances[0]), "layer", "one pass")  # below the guess before it
        iteration = target.verify(ids, draft, run.rng, hidden=drafter.source.reads)
        drafter.learn(iteration)
        size = "" if ready else f" {models.layer.parameters:,} trained parameters draft from here on."
        edit = yield run.step(
            **iteration.groups(),
            records={"sharedstate": lambda filled=filled: filled} if filled else {},
            facts=iteration.facts(layer_rows_of_draft=drafter.rows),
            note=iteration.note() + size,
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        drafter.forget(target.cache.length)


class Parallel(Drafter):
    """The drafter of a run, and the model's states of its text."""

    def __init__(self, layer: Any) -> None:
        super().__init__(Published(layer))
        self.layer, self.pasts = layer, self.source.past

    def draft(self, ids: list[int], k: int) -> SharedState:
        """The pass: the n new rows of the text, each with the model's states, then k - 1 masks. The newest row of the
        text guesses the next token, mask j the token j places further on."""
        assert self.S is not None
        begin, self.T = self.source.length, self.known
        text = ids[begin + 1 :]
        out = self.layer.block(self.layer, text, self.S[begin : self.T], self.pasts, k)  # [k, d]
        z = self.source.logits(out, range(len(ids), len(ids) + k))  # [k, v]
        best = top_ids(z, min(SHOWN, z.shape[-1]))
        self.rows = len(text) + k - 1
        n = self.layer.num_layers
        return SharedState(
            reads=[i if 0 <= i < n else n for i in self.source.reads],
            layers=n,
            before=begin,
            text=text,
            tokens=self.source.tokens(best).tolist(),
            chances=z.double().softmax(-1).gather(-1, best).tolist(),
        )
