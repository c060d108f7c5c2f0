"""DFlash: a block drafter that fills all its masks in one pass (Chen et al., arXiv:2602.06036; code z-lab/dflash,
dflash/model.py).

A block is the newest token, the anchor, with masks behind it. Its rows go through a few layers together, each seeing
all of the block, both ways, and the context: states of several layers of the model, drawn together by one matrix, from
which every layer makes keys and values. Slot i predicts the token that stands at i, so one pass drafts b - 1 tokens and
one forward of the model verifies the chain. Slots are filled at the same time: none knows which token another chose.
The context's keys stay, the block's do not.

We depart in: the layers that ship are small ones, trained here (see their card); above temperature 0 the drafts are
still the first choices and one draw of the model decides (released: drawn drafts with rejection), and the distribution
is the same, plain sampling's; the prompt is read in the first turn, which drafts nothing.

Letters: b tokens of a block, n rows of context, v draft vocabulary."""

from typing import Any

from engines.kit import (
    Int,
    Params,
    Probability,
    Record,
    Recorder,
    Roles,
    Steps,
    Tensor,
    TokenId,
    part,
    top_ids,
    torch,
)
from engines.methods.speculative._turn import Target, Turn, drafting
from engines.methods.speculative._verify import Draft

MOST = 32
SHOWN = 3  # guesses of a slot in the record


class MaskBlock(Record):
    """The block that this call verified: the states behind it, and the guesses for each mask, best first."""

    layers: list[int]  # the states were taken behind so many layers of the model
    depth: int  # all layers of the model
    context: int = 0  # rows of states behind the block
    joined: int = 0  # those of them that this pass has added
    tokens: list[list[TokenId]] = []  # [b - 1, SHOWN]
    chances: list[list[Probability]] = []  # of the same shape


@drafting(
    "dflash",
    title="DFlash",
    paper="arXiv:2602.06036",
    code="https://github.com/z-lab/dflash",
    summary="A small network fills a block of masks in one pass, reading states of several layers of the model.",
    needs={"target": "layered", "drafter": part("dflash-layers", "dflash-block")},
    params=[
        Int("block", 0, 0, MOST, neutral=1, symbol="b", source="16 in most published drafters"),
    ],
    signature="maskblock",
    records={"maskblock": MaskBlock},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """A turn without the states of the text but its last token (the first, and after a person's change) reads the text
    and drafts nothing."""
    model, drafter = models.target, Drafter(models.drafter)
    block = p.block or drafter.source.block
    target, ids = Target(model, prompt, p, rows=block), prompt
    while target.unfinished(ids):
        draft, ready, filled = Draft(ids[-1], "draft"), drafter.ready(ids), drafter.nothing()
        b = 1 + min(block - 1, target.deepest(ids))
        if ready and b > 1:
            filled = drafter.fill(ids, b)
            for i, (tokens, chances) in enumerate(zip(filled.tokens, filled.chances, strict=True)):
                draft.taken(draft.add(i, tokens[0], chances[0]), "layer", "one pass")  # below the slot before it
        iteration = target.verify(ids, draft, run.rng, hidden=drafter.source.reads)
        drafter.learn(iteration)
        size = "" if ready else f" {models.drafter.parameters:,} trained parameters draft from here on."
        edit = yield run.step(
            **iteration.groups(),
            records={"maskblock": lambda filled=filled: filled},
            facts=iteration.facts(context_rows=filled.context),
            note=iteration.note() + size,
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        drafter.forget(target.cache.length)


class Drafter:
    """The block drafter of a run, and the model's states of the text that have not joined its context yet."""

    def __init__(self, source: Any) -> None:
        self.source, self.pasts = source, source.pasts()
        self.new: list[Tensor] = []

    def nothing(self) -> MaskBlock:
        """The record of a turn in which no block was filled."""
        n = self.source.num_layers
        return MaskBlock([n if i < 0 else i for i in self.source.reads], n)

    @property
    def known(self) -> int:
        """Tokens of the text whose states it has."""
        return int(self.pasts.length) + sum(map(len, self.new))

    def ready(self, ids: list[int]) -> bool:
        """Whether it has the state of each token of the text but the last, the anchor of the next block."""
        return 0 < self.known == len(ids) - 1

    def learn(self, iteration: Turn) -> None:
        """Take the states of a round: of the text that was fed with it, and of the accepted tokens."""
        self.new.append(self.source.states(iteration.states))

    def fill(self, ids: list[int], b: int) -> MaskBlock:
        """The pass: the new states join the context, and the block [anchor, mask x (b - 1)] is filled."""
        states = torch.cat(self.new)
        self.new = []
        out = self.source.fill(self.source, ids[-1], states, self.pasts, b)  # [b - 1, d]
        z = self.source.logits(out, range(len(ids), len(ids) + b - 1))  # [b - 1, v]: of the token at each slot
        best = top_ids(z, min(SHOWN, z.shape[-1]))
        made = self.nothing()
        made.context, made.joined, made.tokens = self.pasts.length, len(states), self.source.tokens(best).tolist()
        made.chances = z.double().softmax(-1).gather(-1, best).tolist()
        return made

    def forget(self, length: int) -> None:
        """Only states of the text's first `length` tokens hold."""
        self.pasts.crop(length)
        left = max(0, length - self.pasts.length)
        self.new = [torch.cat(self.new)[:left]] if self.new else []
