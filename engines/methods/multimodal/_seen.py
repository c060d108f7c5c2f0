"""What the drafts of a model that sees share: the layer with its keys and values, and what is recorded.

Letters: e the embedding of a token, h the target's state before it, F the draft's estimate of a state, V patches, T
rows of text and picture that the draft has read, k guesses of a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engines.core.picture import Pictured
from engines.core.trace import Count, NumBytes, Packed, Record, pack
from engines.kit import (
    Int,
    Param,
    Params,
    Tensor,
    UserError,
    max_new_tokens,
    top_ids,
    torch,
)
from engines.methods.heads._rows import Fan, grown
from engines.methods.speculative._turn import Target, Turn, temperature
from engines.methods.speculative._verify import Draft
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


def tree_params(nodes: int, depth: int, top_k: int, source: str) -> list[Param]:
    """Length, the tree's size and temperature."""
    return [
        max_new_tokens(48),
        Int("nodes", nodes, 0, MOST, neutral=0, help="Guesses that are verified in one forward.", source=source),
        Int("depth", depth, 0, 7, help="How many times the draft is extended: it has up to depth + 1 tokens."),
        Int("top_k", top_k, 1, 10, symbol="k", help="Guesses of each expanded node; 1 drafts a plain chain."),
        temperature(),
    ]


def picture_of(model: Any, prompt: Sequence[int]) -> Pictured | None:
    """The picture that a prompt begins with. Raises UserError where one stands later: a draft lets in only the first
    rows as a picture."""
    pictured: Pictured | None = model.pictured(prompt)
    if pictured is not None and pictured.first != 1:
        raise UserError(f"a picture is at position {pictured.first}; begin the prompt with it.")
    return pictured


class Drafter:
    """The draft with its keys and values: it reads the text with the target's states, then rows of a tree with its own.
    compact, recall: whether the draft gets the compact tokens and the global vector, where it has them."""

    def __init__(
        self, model: Any, draft: VisionDraft, image: Pictured | None, *, compact: bool = True, recall: bool = True
    ) -> None:
        self.model, self.draft, self.past, self.image = model, draft, Past(), image
        self.compact, self.recall = compact, recall
        self.V = 0 if image is None else image.last - image.first
        self.T = self.rows = self.read_rows = 0  # rows that went through it in this turn; that it kept of the text
        self.g: Tensor | None = None  # the global vector
        self.H: Tensor | None = None  # the true states of the text but its last token

    @property
    def kept(self) -> int:
        """Rows that it keeps of the picture."""
        if self.draft.adaptor is None or not self.V:
            return self.V
        return len(self.draft.adaptor.q) - 1 if self.compact else 0

    def read(self, ids: Sequence[int], H: Tensor, k: int) -> None:
        """Read what is new of the text: row t is the token t + 1 with the state at t. A tree below `ids` may follow,
        with k guesses of each node."""
        begin, self.T, self.end, self.k = self.T, len(H), len(ids), k
        if begin:
            z = self.draft.text(self.model.embed(ids[begin + 1 :]), H[begin:], self.g)
            at = torch.arange(begin, self.T, device=H.device)
        else:
            e = self.model.embed(ids)[1:]  # a picture's rows are made together, from its first place on
            if self.V and self.draft.adaptor is not None:
                A, g, attention = self.draft.compact(e[: self.V])
                A, self.g, self.attention = A[: self.kept], g if self.recall else None, attention.mean(0)
                z = torch.cat([A, self.draft.text(e[self.V :], H[self.V :], self.g)])
                at = torch.arange(self.V - self.kept, self.T, device=H.device)
            else:
                z, at, _ = self.draft.sequence(e, H, self.V)
        self.F = self.draft.through(z, self.past, at)[-1:]  # [1, d]: at the root
        self.rows, self.features = len(z), {0: self.F[0]}
        self.lines: dict[int, list[int]] = {0: []}  # row of the tree -> places of it and its ancestors
        self.root, self.read_rows = z[-1], self.past.length

    def tree(self, target: Target, ids: Sequence[int], p: Params) -> Draft:
        """EAGLE-2's tree below the text, none where the true states of all but its last token are not there."""
        deepest = min(target.deepest(ids), p.depth + 1)
        if self.H is None or len(self.H) != len(ids) - 1 or not p.nodes or deepest < 1:
            return Draft(ids[-1], "draft")
        self.read(ids, self.H, p.top_k)
        return grown(self.fan, ids[-1], p.top_k, deepest - 1, p.nodes)

    def learn(self, iteration: Turn) -> None:
        """Take the target's last states of a round."""
        (states,) = iteration.states.values()
        self.H = states if self.H is None else torch.cat([self.H, states])

    def fan(self, rows: Sequence[int], tokens: Sequence[int], parents: Sequence[int]) -> Fan:
        """The k best guesses behind each of these rows of a tree, all of one depth, with their log-probabilities."""
        depth = len(self.lines[parents[rows[0]]]) + 1 if rows[0] else 0
        if depth:
            base = self.past.length
            sees = torch.zeros(len(rows), base + len(rows), dtype=torch.bool, device=self.F.device)
            sees[:, : self.read_rows] = True
            for i, row in enumerate(rows):
                self.lines[row] = [*self.lines[parents[row]], base + i]
                sees[i, self.lines[row]] = True
            before = torch.stack([self.features[parents[row]] for row in rows])
            at = torch.full((len(rows),), self.T + depth - 1, device=self.F.device)
            z = self.draft.text(self.model.embed([tokens[row] for row in rows]), before, self.g)
            self.F = self.draft.through(z, self.past, at, sees)
            self.features |= dict(zip(rows, self.F, strict=True))
            self.rows += len(rows)
        z = self.model.unembed(self.F, normed=True, predicts=[self.end + depth] * len(rows))
        best = top_ids(z, self.k)
        return best.tolist(), z.double().log_softmax(-1).gather(-1, best).tolist()

    def forget(self, length: int) -> None:
        """Of the text's first `length` states the row of the last one waits for its token; the tree is gone."""
        self.T = max(0, min(length - 1, self.T))
        self.past.crop(max(0, self.T - self.V + self.kept))
        self.rows, self.H = 0, None if self.H is None else self.H[:length]

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


def vision(drafter: Drafter, iteration: Turn, tokenizer: Any, fresh: bool) -> Vision:
    """What a round says of the picture."""
    readers, looks = drafter.looks()
    record = shown(drafter.image, iteration.gained, tokenizer, fresh)
    record.looks, record.readers = None if looks is None else pack(looks.numpy(), 0.0, float(looks.max())), readers
    if drafter.read_rows:
        record.entries = {"picture": drafter.kept, "text": drafter.read_rows - drafter.kept}
        record.entry_bytes = 2 * 4 * len(drafter.draft.bias)  # a key and a value in float32
    return record


def shown(image: Pictured | None, tokens: Sequence[int], tokenizer: Any, fresh: bool) -> Vision:
    """The picture and the classes of the tokens that a step wrote. fresh: the step is the first, which brings the
    pixels."""
    return Vision(
        pack(image.pixels.numpy() / 255, 0.0, 1.0) if image is not None and fresh else None,
        [] if image is None else list(image.grid),
        kinds=[word_class(tokenizer.piece(token).text.strip()) for token in tokens],
    )
