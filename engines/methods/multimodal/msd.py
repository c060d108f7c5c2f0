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

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from engines.core.picture import Pictured
from engines.core.trace import Count
from engines.kit import Choice, Params, Record, Recorder, Roles, Steps, Tensor, TokenId, part, top_ids
from engines.methods.heads._rows import Drafter
from engines.methods.multimodal._seen import MOST, Sighted, Vision, picture_of, tree_params, vision
from engines.methods.speculative._turn import Target, drafting
from engines.models.networks.exits import Past
from engines.models.parts import Part

if TYPE_CHECKING:
    from engines.models.networks.vision_draft import VisionDraft


class Inputs(Record):
    """How picture and words enter each draft of the part, and the word that it says first at every place that the step
    wrote, with the true text before it."""

    drafting: str  # the draft whose guesses were verified
    names: list[str]
    ways: list[str]  # how a patch enters it: "decoupled" as it is, "fused" as words do, through fc with a state
    learnt_from: list[str]  # "text", "half" of it pictures, "growing" from one to the other
    patches: Count
    first: list[list[TokenId]]  # [drafts, words written]; the last words where no state stands before the first


class Beside:
    """All drafts of a part on the text of a run, loaded and asked where a step is recorded and nowhere else."""

    def __init__(self, model: Any, part: Part, image: Pictured | None, drafting: str) -> None:
        self.model, self.part, self.drafting = model.unbooked(), part, drafting
        self.V = 0 if image is None else image.last - image.first
        self.T = 0  # rows read

    @cached_property
    def drafts(self) -> dict[str, tuple[VisionDraft, Past]]:
        """The drafts of the part, by name, each with the keys and values of what it has read."""
        from engines.models.networks.vision_draft import draft_of, drafts_of

        names, device = drafts_of(self.part.tensors), self.model.record.device
        return {
            name: (draft_of(self.part, name).to(device), Past()) for name in self.part.card["drafts"] if name in names
        }

    def read(self, ids: Sequence[int], H: Tensor, gained: int) -> Inputs:
        """Read what is new of the text and of its true states H [len(ids) - 1, d]; row t, the token t + 1 with the
        state at t, speaks of token t + 2. written: tokens at the end of `ids` that the step wrote."""
        begin, end = self.T, len(ids) - 2
        e, h = self.model.embed(ids)[begin + 1 : -1], H[begin:end]
        first = []
        for draft, past in self.drafts.values():
            z, at, _ = draft.sequence(e, h, 0 if begin else self.V)
            F = draft.through(z, past, at + begin)[-gained:]
            z = self.model.unembed(F, normed=True, predicts=len(ids) - len(F))
            first.append(top_ids(z, 1)[:, 0].tolist())
        self.T = end
        cards = [self.part.card["drafts"][name] for name in self.drafts]
        ways, learnt_from = ([str(card[key]) for card in cards] for key in ("way", "learnt_from"))
        return Inputs(self.drafting, [*self.drafts], ways, learnt_from, self.V, first)

    def forget(self, length: int) -> None:
        """Of the text's first `length` states the rows stay whose tokens do."""
        self.T = max(0, min(length - 1, self.T))
        for _, past in self.drafts.values() if self.T else ():
            past.crop(self.T)


@drafting(
    "msd",
    title="MSD",
    paper="arXiv:2505.14260",
    code="https://github.com/Lyn-Lucy/MSD",
    summary="A draft for a vision-language model: patches enter it as they are, words with the state before them; it "
    "learned from text first, then from more and more pictures.",
    needs={"target": "layered", "drafts": part("vision-drafts")},
    params=[
        Choice("draft", "growing", ("growing", "mixed", "fused", "text"), source="released: growing"),
        *tree_params("59 guesses, depth 5 and k 10 in the code"),
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
