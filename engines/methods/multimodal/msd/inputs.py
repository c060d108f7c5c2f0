"""What each draft of a part says first of every word that was written, on the true text and states: how a draft was
trained, and how pictures enter it, with nothing else changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from engines.core.picture import Pictured
from engines.core.trace import Count
from engines.kit import Record, Tensor, TokenId, top_ids
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
