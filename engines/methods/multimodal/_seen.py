"""What the drafts of a model that sees share: the layer with its keys and values, and what is recorded.

Letters: e the embedding of a token, h the target's state before it, F the draft's estimate of a state, V patches, T
rows of text and picture that the draft has read, k guesses of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engines.core.picture import Pictured
from engines.core.trace import Count, NumBytes, Packed, Record, pack
from engines.kit import (
    Int,
    Param,
    Tensor,
    UserError,
    max_new_tokens,
    torch,
)
from engines.methods.speculative._turn import Turn
from engines.models.networks.exits import Past
from engines.tasks.grid_scenes import word_class

if TYPE_CHECKING:
    from engines.models.networks.vision_draft import VisionDraft

MOST = 63
READERS = ["compact token", "global vector"]
SIDE = 512  # pixels of a side of the picture, at most


class Vision(Record):
    """A picture that a language model sees, and what of it reaches a draft.

    pixels [rows, columns, 3], red, green and blue from 0 to 1; none where they are those of an earlier step. grid:
    rows and columns of its patches. looks [n, patches]: how much each of n readers took from each patch, named by
    `readers`. entries: positions that the draft keeps, by what they stand for ("picture", "text"), and bytes of each.
    kinds: of the tokens that the step wrote, in their order, the class of each word."""

    pixels: Packed | None = None
    grid: list[Count] = []
    looks: Packed | None = None
    readers: list[str] = []
    entries: dict[str, Count] = {}
    entry_bytes: NumBytes = 0
    kinds: list[str] = []


def tree_params(source: str) -> list[Param]:
    """The length of an answer and the size of the tree."""
    return [
        max_new_tokens(48),
        Int("nodes", 15, 0, MOST, neutral=0, help="Guesses that are verified in one forward.", source=source),
        Int("depth", 3, 0, 7, help="How many times the draft is extended: it has up to depth + 1 tokens."),
        Int("top_k", 4, 1, 10, symbol="k", help="Guesses of each expanded node; 1 drafts a plain chain."),
    ]


def picture_of(model: Any, prompt: Sequence[int]) -> Pictured | None:
    """The picture that a prompt begins with. Raises UserError where one stands later: a draft lets in only the first
    rows as a picture."""
    pictured: Pictured | None = model.pictured(prompt)
    if pictured is not None and pictured.first != 1:
        raise UserError(f"a picture is at position {pictured.first}; begin the prompt with it.")
    return pictured


class Sighted:
    """The draft and its keys and values as rows to draft with: it reads picture and text with the target's states, then
    rows of a tree with its own. compact, recall: whether the draft gets the compact tokens and the global vector, where
    it has them."""

    def __init__(
        self,
        model: Any,
        draft: VisionDraft,
        image: Pictured | None,
        first: int,
        *,
        compact: bool = True,
        recall: bool = True,
    ) -> None:
        """model: the target playing the draft; first: the token before the first row, which opens the picture."""
        self.model, self.draft, self.past, self.image, self.first = model, draft, Past(), image, first
        self.compact, self.recall, self.reads = compact, recall, (model.num_layers,)
        self.V = 0 if image is None else image.last - image.first
        self.T = self.read_rows = 0  # rows of text that it has read; those that it kept of picture and text
        self.g: Tensor | None = None  # the global vector

    @property
    def kept(self) -> int:
        """Rows that it keeps of the picture."""
        if self.draft.adaptor is None or not self.V:
            return self.V
        return len(self.draft.adaptor.q) - 1 if self.compact else 0

    @property
    def length(self) -> int:
        """Rows of the text that it stands for, with all patches of the picture."""
        return self.past.length + self.V - self.kept if self.past.length else 0

    def states(self, hidden: Mapping[int, Tensor]) -> Tensor:
        """See `Rows`."""
        return hidden[self.reads[0]]

    def read(self, tokens: Sequence[int], S: Tensor) -> Tensor:
        """See `Rows`; a picture's rows are made together, from its first place on."""
        begin = self.length
        e = self.model.embed(tokens) if begin else self.model.embed([self.first, *tokens])[1:]
        self.T = begin + len(S)
        if begin:
            z, at = self.draft.text(e, S, self.g), torch.arange(begin, self.T, device=S.device)
        elif self.V and self.draft.adaptor is not None:
            A, g, attention = self.draft.compact(e[: self.V])
            A, self.g, self.attention = A[: self.kept], g if self.recall else None, attention.mean(0)
            z = torch.cat([A, self.draft.text(e[self.V :], S[self.V :], self.g)])
            at = torch.arange(self.V - self.kept, self.T, device=S.device)
        else:
            z, at, _ = self.draft.sequence(e, S, self.V)
        F = self.draft.through(z, self.past, at)
        self.root, self.read_rows = z[-1], self.past.length
        return F

    def grow(self, tokens: Sequence[int], before: Tensor, at: Tensor, sees: Tensor) -> Tensor:
        """See `Rows`; all rows see all that is kept of the picture."""
        z = self.draft.text(self.model.embed(tokens), before, self.g)
        return self.draft.through(z, self.past, at, sees[:, self.V - self.kept :])

    def logits(self, F: Tensor, predicts: Sequence[int]) -> Tensor:
        """See `Rows`."""
        return self.model.unembed(F, normed=True, predicts=predicts)

    def tokens(self, columns: Tensor) -> Tensor:
        """See `Rows`."""
        return columns

    def crop(self, length: int) -> None:
        """See `Rows`."""
        self.T = min(self.T, length)
        self.past.crop(max(0, length - self.V + self.kept))

    def looks(self) -> tuple[list[str], Tensor | None]:
        """(names of who looked, [n, V] how much each took of each patch): the adaptor's queries, or the newest row in
        the draft's own attention; nobody where there is no picture or nothing was read."""
        if not self.V or not self.read_rows:
            return [], None
        if self.draft.adaptor is None:
            assert self.past.k is not None
            at = torch.tensor([self.T - 1], device=self.root.device)
            attended = self.draft.looks(self.root, at, self.past.k[:, : self.read_rows])
            return ["draft"], attended[None, : self.V]
        return READERS, self.attention


def vision(rows: Sighted, iteration: Turn, tokenizer: Any, fresh: bool) -> Vision:
    """What a round says of the picture."""
    readers, looks = rows.looks()
    record = shown(rows.image, iteration.gained, tokenizer, fresh)
    record.looks, record.readers = None if looks is None else pack(looks.numpy(), 0.0, float(looks.max())), readers
    if rows.read_rows:
        record.entries = {"picture": rows.kept, "text": rows.read_rows - rows.kept}
        record.entry_bytes = 2 * 4 * len(rows.draft.bias)  # a key and a value in float32
    return record


def shown(image: Pictured | None, tokens: Sequence[int], tokenizer: Any, fresh: bool) -> Vision:
    """The picture and the classes of the tokens that a step wrote. fresh: the step is the first, which brings the
    pixels."""
    return Vision(
        pack(image.pixels.numpy() / 255, 0.0, 1.0) if image is not None and fresh else None,
        [] if image is None else list(image.grid),
        kinds=[word_class(tokenizer.piece(token).text.strip()) for token in tokens],
    )
