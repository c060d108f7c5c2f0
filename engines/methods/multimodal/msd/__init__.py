"""MSD, multimodal speculative decoding (Lin et al., arXiv:2505.14260; code Lyn-Lucy/MSD, EAGLE/eagle/model).

EAGLE's draft foresees the target's next hidden state from a token and the state before it. MSD lets patches of a
picture in another way than words, as they are, and trains the draft on text first, then on ever more pictures. The
tree, its check and what is written are EAGLE-2's: the text is the target's own.

We depart from the released code in: a model of 0.47 M weights that sees 24 x 24 pixels, and drafts of 0.14 M trained
here for 300 steps with both losses at weight 1 and without noise; the layer's attention reads rows at one scale; a tree
of 15 guesses; three controls with the same layer, steps and scenes beside it.

Letters: F the draft's estimate of a hidden state h, e the embedding of a token, z what enters the draft's layer, k
guesses of a node."""

from engines.kit import Choice, Params, Recorder, Roles, Steps, part
from engines.methods.heads._rows import Drafter
from engines.methods.multimodal._seen import MOST, Sighted, Vision, picture_of, tree_params, vision
from engines.methods.multimodal.msd.inputs import Beside, Inputs
from engines.methods.speculative._turn import Target, drafting


@drafting(
    "msd",
    title="MSD",
    paper="arXiv:2505.14260",
    code="https://github.com/Lyn-Lucy/MSD",
    summary="A draft for a vision-language model: patches enter it as they are, words with the state before them; it "
    "learned from text first, then from more and more pictures.",
    needs={"target": "layered", "drafts": part("vision-drafts")},
    new_tokens=None,
    params=[
        Choice("draft", "growing", ("growing", "mixed", "fused", "text"), source="released: growing"),
        *tree_params(15, 3, 4, "59 guesses, depth 5 and k 10 in the code"),
    ],
    signature="entering",
    records={"vision": Vision, "inputs": Inputs},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """EAGLE-2's rounds with a draft that sees. A turn without the true hidden states of the text but its last token
    (the first, and after a person's change) reads picture and text and drafts nothing."""
    from engines.models.networks.vision_draft import draft_of  # it needs torch, which listing methods does not load

    model = models.target
    draft = draft_of(models.drafts, p.draft).to(model.record.device)
    image = picture_of(model, prompt[: run.prompt_length])
    rows = Sighted(model.playing("draft"), draft, image, prompt[0])
    drafter = Drafter(rows)
    beside = Beside(model, models.drafts, image, p.draft)
    target, ids = Target(model, prompt, p, rows=MOST + 1), prompt
    while target.unfinished(ids):
        tree = drafter.tree(target, ids, p)  # patches enter as they are, words as (e, h)
        iteration = target.verify(ids, tree, run.rng, hidden=rows.reads)
        drafter.learn(iteration)
        fresh, facts = run.steps == 0, iteration.facts(layer_rows_of_draft=drafter.rows, depth=max(tree.depths()))
        edit = yield run.step(
            **iteration.groups(),
            records={
                "vision": lambda: vision(rows, iteration, model.tokenizer, fresh),
                "inputs": lambda: beside.read(iteration.ids, drafter.S, len(iteration.gained)),
            },
            facts=facts,
            note=iteration.note(),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        drafter.forget(target.cache.length)
        beside.forget(target.cache.length)
