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

from __future__ import annotations

from engines.kit import Bool, Params, Recorder, Roles, Steps, method, part
from engines.methods.multimodal._seen import Drafter, Vision, picture_of, rounds, tree_params
from engines.methods.speculative._turn import EMITS, LANES


@method(
    "vispec",
    title="ViSpec",
    family="multimodal",
    paper="arXiv:2509.15235",
    code="https://github.com/KangJialiang/ViSpec",
    summary="An adaptor compresses the picture for the draft: one token in the place of all patches, and a vector that "
    "reminds every later word of it.",
    needs={"target": "layered", "drafts": part("vision-compressor")},
    params=[
        Bool("global_vector", True, sees="The picture is added to the state before every word of the draft."),
        Bool("compact", True, sees="The compact token stands for the picture in the draft's sequence."),
        *tree_params(15, 3, 4, "30 guesses, depth 3 and k 8 in the code"),
    ],
    signature="seen",
    emits=EMITS - {"lanes"},
    records={"vision": Vision},
    lanes=LANES,
    baseline="greedy",
    lossless=True,
    departures="A target of 0.47 M weights and a draft of 0.18 M, trained here for 300 steps with the loss of the "
    "first stage only; a smaller tree. The draft's own work is method time, not layer rows.",
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The compressed draft: A and g are made from the picture when it first reads."""
    from engines.models.networks.vision_draft import draft_of  # it needs torch, which listing methods does not load

    draft = draft_of(models.drafts, "compressed").to(models.target.record.device)
    image = picture_of(models.target, prompt[: run.prompt_length])
    model = models.target.playing("draft")
    drafter = Drafter(model, draft, image, compact=p.compact, recall=p.global_vector)
    yield from rounds(models, prompt, p, run, drafter)


if __name__ == "__main__":
    from engines.kit import show

    show("vispec", "tiny-vlm", "scene 12")
