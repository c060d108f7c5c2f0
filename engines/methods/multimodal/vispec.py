"""ViSpec, vision-aware speculative decoding (Kang et al., arXiv:2509.15235; code KangJialiang/ViSpec,
vispec/model/cnets_ours.py and spec_model_ours.py).

A draft of one layer drowns in the patches that its target filters layer by layer. ViSpec compresses them for the draft:
learnt queries attend to the patches once and give a compact token, which stands in the draft's sequence for the whole
picture, and a global vector, which joins the state before every later word. The tree, its check and what is written are
EAGLE-2's: the text is the target's own.

We depart from the released code in: a model of 0.47 M weights that sees 24 x 24 pixels, a draft of 0.18 M trained here
for 300 steps with the loss of the first stage (smooth L1 and soft cross-entropy, weight 1 each) on captions; the second
stage on long answers and on the draft's own outputs is left out; no ranking loss, no noise; a tree of 15 guesses.

Letters: A what the queries found, g the global vector, F the draft's estimate of a hidden state h, e the embedding of a
token, z what enters the draft's layer, k guesses of a node."""

from engines.kit import Bool, Params, Recorder, Roles, Steps, part
from engines.methods.heads._rows import Drafter
from engines.methods.multimodal._seen import MOST, Sighted, Vision, picture_of, tree_params, vision
from engines.methods.speculative._turn import Target, drafting


@drafting(
    "vispec",
    title="ViSpec",
    paper="arXiv:2509.15235",
    code="https://github.com/KangJialiang/ViSpec",
    summary="An adaptor compresses the picture for the draft: one token in place of all patches, and a vector that "
    "reminds every later word of it.",
    needs={"target": "layered", "drafts": part("vision-compressor")},
    params=[
        Bool("global_vector", True),
        Bool("compact", True),
        *tree_params("30 guesses, depth 3 and k 8 in the code"),
    ],
    signature="seen",
    records={"vision": Vision},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """EAGLE-2's rounds with a draft that reads A in the place of the patches and g with every later word; both are made
    when it first reads. A turn without the true hidden states of the text but its last token (the first, and after a
    person's change) reads picture and text and drafts nothing."""
    from engines.models.networks.vision_draft import draft_of  # it needs torch, which listing methods does not load

    model = models.target
    draft = draft_of(models.drafts, "compressed").to(model.record.device)
    image = picture_of(model, prompt[: run.prompt_length])
    rows = Sighted(model.playing("draft"), draft, image, prompt[0], compact=p.compact, recall=p.global_vector)
    drafter = Drafter(rows)
    target, ids = Target(model, prompt, p, rows=MOST + 1), prompt
    while target.unfinished(ids):
        tree = drafter.tree(target, ids, p)
        iteration = target.verify(ids, tree, run.rng, hidden=rows.reads)
        drafter.learn(iteration)
        fresh, facts = run.steps == 0, iteration.facts(layer_rows_of_draft=drafter.rows, depth=max(tree.depths()))
        if rows.g is not None:
            facts |= {"global_norm": float(rows.g.norm())}
        edit = yield run.step(
            **iteration.groups(),
            records={"vision": lambda: vision(rows, iteration, model.tokenizer, fresh)},
            facts=facts,
            note=iteration.note(),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        drafter.forget(target.cache.length)
