"""MSD, multimodal speculative decoding (Lin et al., arXiv:2505.14260; code Lyn-Lucy/MSD, EAGLE/eagle/model).

EAGLE's draft foresees the target's next hidden state from a token and the state before it. MSD lets patches of a
picture in another way than words, as they are, and trains the draft on text first, then on ever more pictures. The
tree, its check and what is written are EAGLE-2's: the text is the target's own.

We depart from the released code in: a model of 0.47 M weights that sees 24 x 24 pixels, and drafts of 0.14 M trained
here for 300 steps with both losses at weight 1 and without noise; the layer's attention reads rows at one scale; a tree
of 15 guesses; three controls with the same layer, steps and scenes beside it.

Letters: F the draft's estimate of a hidden state h, e the embedding of a token, z what enters the draft's layer, k
guesses of a node."""

from __future__ import annotations

from engines.kit import Choice, Params, Recorder, Roles, Steps, method, part
from engines.methods.multimodal._seen import Drafter, Vision, picture_of, rounds, tree_params
from engines.methods.speculative._turn import EMITS, LANES


@method(
    "msd",
    title="MSD",
    family="multimodal",
    paper="arXiv:2505.14260",
    code="https://github.com/Lyn-Lucy/MSD",
    summary="A draft for a model that sees: patches enter it as they are, words with the state before them; it learned "
    "from text first, then from ever more pictures.",
    needs={"target": "layered", "drafts": part("vision-drafts")},
    params=[
        Choice(
            "draft",
            "growing",
            ("growing", "mixed", "fused", "text"),
            sees="growing: MSD. mixed: its inputs, half pictures from the start. fused: EAGLE's inputs, half pictures. "
            "text: EAGLE, trained on text only.",
            source="released: growing",
        ),
        *tree_params(15, 3, 4, "59 guesses, depth 5 and k 10 in the code"),
    ],
    signature="seen",
    emits=EMITS - {"lanes"},
    records={"vision": Vision},
    lanes=LANES,
    baseline="greedy",
    lossless=True,
    departures="A target of 0.47 M weights and drafts of 0.14 M, trained here for 300 steps; a smaller tree; no noise "
    "on the states. The draft's own work is method time, not layer rows.",
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """A draft of the part, chosen by its training; patches enter it as they are."""
    from engines.models.networks.vision_draft import draft_of  # it needs torch, which listing methods does not load

    draft = draft_of(models.drafts, p.draft).to(models.target.record.device)
    image = picture_of(models.target, prompt[: run.prompt_length])
    yield from rounds(models, prompt, p, run, Drafter(models.target.playing("draft"), draft, image))


if __name__ == "__main__":
    from engines.kit import show

    show("msd", "tiny-vlm", "scene 12")
