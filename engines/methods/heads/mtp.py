"""Multi-token prediction: one layer behind the model, run k times (DeepSeek-V3, arXiv:2412.19437, section 2.2; several
runs of one layer as vLLM and SGLang do with Qwen's).

An MTP layer reads the model's last hidden state and the embedding of the token that was written from it, and says the
token after that one, through the model's own embeddings and output head: h' = TRM(M [norm(e); norm(h)]). Run again on
its own state h' and its own guess it says one more, and so on; the model checks the chain in one forward.

We depart from the paper in: one layer is run k times (V3 has a layer of its own for each place, and one place in all);
h is the state behind the final norm, the model's and the layer's, as engines feed Qwen's (DeepSeek's: before it); M
reads the embedding first, as the published tensors lie; the layer is a small dense one, trained here behind the model
and not with it (see its card); exact verification; the prompt is read in the first turn, which drafts nothing.

Letters: h the model's last state, h' the layer's, e the embedding of a token, k runs of the layer, M the projection."""

from functools import partial

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
)
from engines.methods.heads._rows import Drafter, grown
from engines.methods.speculative._turn import Target, drafting
from engines.methods.speculative._verify import Draft
from engines.models.drafters.rows import Published

MOST = 7


class Unrolled(Record):
    """The layer, run after run: what each run read and said. Its first state is the model's, the others are its own."""

    layers: int  # of the model, below its final norm
    rows: int  # of the text, with the model's states, that the first run read
    read: list[TokenId]  # by each run, the newest token first
    drafts: list[TokenId]
    chances: list[Probability]


@drafting(
    "mtp",
    title="MTP layer",
    own="one layer run k times, as engines do",
    paper="arXiv:2412.19437",
    code="https://github.com/deepseek-ai/DeepSeek-V3",
    summary="One layer reads the model's last state and the newest token, guesses the next, and runs again on its own "
    "state.",
    needs={"target": "layered", "layer": part("mtp-layer", "mtp-layer")},
    params=[
        Int("k", 3, 0, MOST, symbol="k", neutral=0, source="1 in the paper"),
    ],
    signature="unrolled",
    records={"unrolled": Unrolled},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """h stands for every token of the text but the newest, so a turn without them (the first, and after a person's
    change) reads the text and drafts nothing. Behind a round only rows of the model's states stay in the layer's
    cache."""
    model, drafter = models.target, Drafter(Published(models.layer))
    target, ids = Target(model, prompt, p, rows=MOST + 1), prompt
    while target.unfinished(ids):
        draft, ready = Draft(ids[-1], "draft"), drafter.ready(ids)
        k = min(p.k, target.deepest(ids))
        if ready and k > 0:
            drafter.read(ids, 1)  # run 1: [norm(e); norm(h)] of what is new of the text
            draft = grown(drafter.fan, ids[-1], 1, k - 1, k)  # runs 2 .. k: the layer's own guess and state h'
        iteration = target.verify(ids, draft, run.rng, hidden=drafter.source.reads)
        records = {"unrolled": partial(unrolled, model.num_layers, drafter.text_rows, draft)}
        size = "" if ready else f" {models.layer.parameters:,} trained parameters draft from here on."
        facts = iteration.facts(layer_rows_of_draft=drafter.rows, runs_of_the_layer=len(draft) - 1)
        edit = yield run.step(**iteration.groups(), records=records, facts=facts, note=iteration.note() + size)
        drafter.learn(iteration)
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        drafter.forget(target.cache.length)


def unrolled(n: int, rows: int, draft: Draft) -> Unrolled | None:
    """The runs of a turn behind n layers of the model; None where nothing was drafted."""
    k = len(draft) - 1
    chances = [float(f"{chance or 0.0:.5g}") for chance in draft.chances[1:]]
    return Unrolled(n, rows, draft.tokens[:k], draft.tokens[1:], chances) if k else None
