"""Boards that parallel decoders leave behind, walked while a masked model learns them.

Random masks are seldom like the boards of a decoder that commits what it is sure of: there everything easy is written and everything hard is missing,
and on those a model trained on random masks is too sure of itself. A walk starts from masks alone. At every board the network learns the masks of the
current block, and the walk commits those whose confidence lies above a line drawn for the board, and at least the surest one, as a decoder would, but
writes the *true* tokens there. Which masks are committed depends on the board and not on the truth, so the law of the rest is still what cross-entropy
asks for. One forward serves both, the loss and the way on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engines.models.train.certainty import proposals
from engines.models.train.data import draw, encode
from engines.models.train.networks import Network
from engines.models.train.recipes import Recipe

BOARDS = 384  # that are under way at once
SPARE = (0, 0, 0, 16, 32)  # positions of a canvas beyond the answer rounded up to whole blocks
LINES = (0.3, 2.3)  # lines are 1 - 10^-u with u drawn from here: 0.5 to 0.995
NEAREST, LIKELY = 6, 0.4  # the loss is taken on the block's first masks and on those at least so sure: the others cannot be known yet


@dataclass
class Board:
    """A prompt and its canvas. ids: as far as it is written, masks elsewhere; truth: all of it; start: of the canvas; line: of its walk."""

    ids: list[int]
    truth: list[int]
    start: int
    line: float


@dataclass(frozen=True)
class View:
    """Some boards as tensors. x, truth [R, L]; inside [R, L]: the masks of each board's current block; ends, lines [R]: where a board ends, its line."""

    x: Tensor
    truth: Tensor
    inside: Tensor
    ends: Tensor
    lines: Tensor


class Walk:
    """Boards under way. seed: two walks of a recipe with the same one draw the same boards."""

    def __init__(self, recipe: Recipe, tokenizer: Any, seed: int) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer
        self._fresh, self._rng = self._new(seed), random.Random(f"{recipe.name}/{recipe.seed}/windows from {seed}")
        self.boards: list[Board] = []

    def loss(self, network: Network) -> tuple[Tensor, int]:
        """Mean cross-entropy (nats) over the masks asked for of one batch of boards, which go on by one forward; and the tokens fed."""
        rows = self._window()
        view = self.view(rows, network.device)
        z = proposals(network, view.x, view.ends, view.inside, self.tokenizer.mask_token_id)
        with torch.no_grad():
            sure = torch.zeros(view.x.shape, device=z.device)
            sure[view.inside] = z.softmax(-1).amax(-1)
            for board, ids in zip(rows, torch.where(committed(sure, view), view.truth, view.x).tolist(), strict=True):
                board.ids = ids[: len(board.ids)]
        self.boards = [board for board in self.boards if self.tokenizer.mask_token_id in board.ids]
        asked = ((view.inside.cumsum(1) <= NEAREST) | (sure > LIKELY))[view.inside]
        return F.cross_entropy(z[asked], view.truth[view.inside][asked]), view.x.numel()

    def view(self, rows: list[Board], device: torch.device | str = "cpu") -> View:
        """The tensors of some boards; what lies beyond a board's end are end marks that it does not see."""
        width = max(len(board.ids) for board in rows)
        end, mask_id = self.tokenizer.eos_token_id, self.tokenizer.mask_token_id
        x, truth = (torch.tensor([ids + [end] * (width - len(ids)) for ids in lists]) for lists in ([b.ids for b in rows], [b.truth for b in rows]))
        starts = torch.tensor([board.start for board in rows])[:, None]
        masked, blocks = x == mask_id, (torch.arange(width) - starts) // self.recipe.block
        inside = masked & (blocks == blocks.gather(1, masked.int().argmax(1, keepdim=True)))
        ends, lines = torch.tensor([len(board.ids) for board in rows]), torch.tensor([board.line for board in rows])
        return View(*(part.to(device) for part in (x, truth, inside, ends, lines)))

    def _window(self) -> list[Board]:
        """Boards of about one length, at most `recipe.batch` tokens; those that are done have been replaced."""
        while len(self.boards) < BOARDS:
            self.boards.append(next(self._fresh))
        self.boards.sort(key=lambda board: len(board.ids))
        first = last = self._rng.randrange(len(self.boards))
        while last < len(self.boards) and (last == first or len(self.boards[last].ids) * (last - first + 1) <= self.recipe.batch):
            last += 1
        return self.boards[first:last]

    def _new(self, seed: int) -> Iterator[Board]:
        """Endless boards of nothing but masks, of training examples in the recipe's mixture."""
        end, mask_id, block = self.tokenizer.eos_token_id, self.tokenizer.mask_token_id, self.recipe.block
        for pool in count():
            rng = random.Random(f"{self.recipe.name}/{self.recipe.seed}/walk from {seed}/{pool}")
            for prompt, answer in encode(self.tokenizer, draw(self.recipe, rng)):
                length = -(-len(answer) // block) * block + rng.choice(SPARE)
                line = 1 - 10 ** -rng.uniform(*LINES)
                yield Board(prompt + [mask_id] * length, prompt + answer + [end] * (length - len(answer)), len(prompt), line)


def committed(sure: Tensor, view: View) -> Tensor:
    """Which masks are written after a forward [R, L]: those inside whose confidence `sure` [R, L] is above the board's line, and the surest one."""
    surest = torch.zeros_like(view.inside).scatter(1, sure.masked_fill(~view.inside, -1.0).argmax(1, keepdim=True), True)
    return view.inside & ((sure > view.lines[:, None]) | surest)
