"""EAGLE-3: drafting on three of the model's layers (Li et al., arXiv:2503.01840; code SafeAILab/EAGLE, model/cnets.py
and model/utils.py).

EAGLE's layer had to predict the model's last state, and its guesses came of that. Here nothing is asked of the state:
fc draws a low, a middle and a high state of the model together, the layer learns the next token alone, and it learns
from its own outputs, which are all that it has of the guesses it has made itself (training-time test). Its output head
is its own and knows a draft vocabulary, the most frequent tokens of the answers; no other token can be guessed. The
tree is EAGLE-2's.

A row is the embedding e of a token beside g = fc(l; m; h), the states at the place before it; behind the first guess,
beside a, the layer's own output there (section 3.1). After the check only rows with g stay; accepted guesses are read
again with theirs.

We depart in: the layer is small, trained here (see its card) on the text that EAGLE's layer learned from, unrolled over
three places; a smaller tree as default, made for a CPU; the prompt is read in the first turn, which drafts nothing.

Letters: l, m, h states of three layers, g what fc makes of them, a outputs of the layer, k guesses of a row (top_k)."""

from functools import partial

from engines.kit import Params, Record, Recorder, Roles, Steps, TokenId, part, torch
from engines.methods.heads._rows import MOST, TREE, Drafter
from engines.methods.speculative._turn import Target, Turn, drafting
from engines.models.drafters.rows import Published


class Fused(Record):
    """Which states of the target the guesses of a round came from, and which tokens could be guessed at all."""

    reads: list[int]  # layers whose input is read; `layers`: the stream behind all of them
    layers: int  # of the target
    state: TokenId  # where the newest of these states was
    fused: int  # rows that were read with states of the target: the text's new ones
    fed_back: int  # rows that were read with an output of the drafter: guesses
    can_say: int  # tokens of the draft vocabulary
    of: int  # tokens of the target's
    outside: list[TokenId] = []  # what was written and is not among the former


@drafting(
    "eagle3",
    title="EAGLE-3",
    paper="arXiv:2503.01840",
    code="https://github.com/SafeAILab/EAGLE",
    summary="One layer reads three of the model's layers, learned to guess from its own outputs, and guesses the "
    "tokens of a small vocabulary.",
    needs={"target": "layered", "layer": part("eagle3-layer", "eagle-3")},
    params=TREE,
    signature="fused",
    records={"fused": Fused},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """A turn without the states of the text but its last token (the first, and after a person's change) reads the text
    and drafts nothing."""
    model, drafter = models.target, Drafter(Published(models.layer))
    target, ids = Target(model, prompt, p, rows=MOST + 1), prompt
    while target.unfinished(ids):
        # The text's new rows are read with their g, those of the tree with a.
        ready, draft = drafter.ready(ids), drafter.tree(target, ids, p)
        iteration = target.verify(ids, draft, run.rng, hidden=drafter.source.reads)
        drafter.learn(iteration)
        size = "" if ready else f" {models.layer.parameters:,} trained parameters draft from here on."
        edit = yield run.step(
            **iteration.groups(),
            facts=iteration.facts(layer_rows_of_draft=drafter.rows, depth=max(draft.depths())),
            records={"fused": partial(came_from, models, iteration, drafter)} if drafter.rows else {},
            note=iteration.note() + size,
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        drafter.forget(target.cache.length)


def came_from(models: Roles, iteration: Turn, drafter: Drafter) -> Fused:
    """The record of a turn that drafted."""
    layer, n, known = models.layer.drafter, models.target.num_layers, models.layer.drafter.vocabulary
    known = torch.arange(layer.vocab_size) if known is None else known.cpu()
    gained = torch.tensor(iteration.gained)
    return Fused(
        reads=[i if 0 <= i < n else n for i in layer.reads],
        layers=n,
        state=iteration.before[-2],
        fused=drafter.text_rows,
        fed_back=drafter.rows - drafter.text_rows,
        can_say=len(known),
        of=layer.vocab_size,
        outside=gained[~torch.isin(gained, known)].tolist(),
    )
