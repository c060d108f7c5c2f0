"""On-policy states: the boards that a parallel decoder leaves behind, reached by decoding while a masked model learns
them.

Random masks are seldom like the boards of a decoder that commits what it is sure of: there everything easy is written
and everything hard is missing, and on those a model trained on random masks is too sure of itself. A board starts from
masks alone. At every forward the network learns the masks of the current block, and those whose confidence is above a
line drawn for the board are committed, at least the surest one, as a decoder would. Where a right answer agrees with
what the network would write there, that is written, and the truth is from now on any one of the answers that agree,
each as likely as the others; else the true tokens are written. So what is committed never depends on a truth that the
board does not show, and the distribution of the rest is what cross-entropy asks for. One forward serves both, the loss
and the way on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engines.core.errors import UserError
from engines.models.adapters.oracle import MANY, right_answers
from engines.tasks import Example
from engines.tasks.rows import answer_text
from engines.training.core.data import draw, encode
from engines.training.tiny.certainty import current_block, proposals
from engines.training.tiny.networks import Network
from engines.training.tiny.recipes import Recipe

BOARDS = 384  # that are under way at once
SPARE = (0, 0, 0, 16, 32)  # positions of a canvas beyond the answer rounded up to whole blocks
BLOCKS = (
    8,
    16,
    16,
    16,
    24,
    32,
    128,
    128,
)  # positions of a board's blocks, 128: the whole canvas; one board in nine has from 5 to 20
LINES = (0.3, 2.3)  # lines are 1 - 10^-u with u drawn from here: 0.5 to 0.995
ANSWERS = 120  # right answers of a board at most: of prompts that have more only the reference is known
NEAREST, LIKELY = (
    6,
    0.4,
)  # the loss is taken on the block's first masks and on those at least so sure: the others cannot be known yet


@dataclass
class Board:
    """A prompt and its canvas. ids: as far as it is written, masks elsewhere; truth: all of it; start: of the canvas;
    line, block: of its decoding. answers [N, length of the canvas]: every right answer, N = 1 where only the reference
    is known."""

    ids: list[int]
    truth: list[int]
    start: int
    line: float
    block: int
    answers: np.ndarray


@dataclass(frozen=True)
class View:
    """Some boards as tensors. x, truth [R, L]; inside [R, L]: the masks of each board's current block; ends, lines [R]:
    where a board ends, its line."""

    x: Tensor
    truth: Tensor
    inside: Tensor
    ends: Tensor
    lines: Tensor


class OnPolicy:
    """Boards under way. seed: two of a recipe with the same seed draw the same boards."""

    def __init__(self, recipe: Recipe, tokenizer: Any, seed: int) -> None:
        self.recipe, self.tokenizer, self.seed = recipe, tokenizer, seed
        self._rng = random.Random(f"{recipe.drawn}/windows from {seed}")
        self.boards: list[Board] = []
        self._go_to((0, 0))

    def _go_to(self, place: tuple[int, int]) -> None:
        self._place, self._fresh = place, self._new(place)

    def state(self) -> dict[str, Any]:
        """For a checkpoint: the boards under way, the place in the pools and the random state."""
        boards = [vars(board) | {"answers": torch.from_numpy(board.answers)} for board in self.boards]
        return {"boards": boards, "place": self._place, "random": self._rng.getstate()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.boards = [Board(**board | {"answers": board["answers"].numpy()}) for board in state["boards"]]
        version, numbers, gauss = state["random"]
        self._rng.setstate((version, tuple(numbers), gauss))
        self._go_to(tuple(state["place"]))

    def loss(self, network: Network) -> tuple[Tensor, int]:
        """Mean cross-entropy (nats) over the masks asked for of one batch of boards, which go on by one forward; and
        the tokens fed."""
        z, view, sure = self.advance(network)
        asked = ((view.inside.cumsum(1) <= NEAREST) | (sure > LIKELY))[view.inside]
        return F.cross_entropy(z[asked], view.truth[view.inside][asked]), view.x.numel()

    def advance(self, network: Network) -> tuple[Tensor, View, Tensor]:
        """One forward over one batch of boards, which go on by it: logits [n, V] of the masks inside, the boards before
        it, confidences [R, L]."""
        rows = self._window()
        view = self.view(rows, network.device)
        z = proposals(network, view.x, view.ends, view.inside, self.tokenizer.mask_token_id)
        with torch.no_grad():
            sure = torch.zeros(view.x.shape, device=z.device)
            sure[view.inside] = z.softmax(-1).amax(-1)
            tokens = view.x.clone()
            tokens[view.inside] = z.argmax(-1)
            commits, tokens = committed(sure, view).cpu().numpy(), tokens.cpu().numpy()
        for board, commit, proposed in zip(rows, commits, tokens, strict=True):
            self._go_on(board, commit.nonzero()[0], proposed)
        self.boards = [board for board in self.boards if self.tokenizer.mask_token_id in board.ids]
        return z, view, sure

    def _go_on(self, board: Board, commits: np.ndarray, proposed: np.ndarray) -> None:
        """Write what the network proposes at the commits [k], or the true tokens if no right answer agrees with
        that."""
        places = commits - board.start
        agree = board.answers[(board.answers[:, places] == proposed[commits]).all(1)]
        if not len(agree):
            told = np.array(board.truth)[commits]
            agree = board.answers[(board.answers[:, places] == told).all(1)]
        board.answers = agree
        board.truth[board.start :] = agree[self._rng.randrange(len(agree))].tolist()
        for place in commits.tolist():
            board.ids[place] = board.truth[place]

    def view(self, rows: list[Board], device: torch.device | str = "cpu") -> View:
        """The tensors of some boards; beyond a board's end are end marks that it does not see."""
        width = max(len(board.ids) for board in rows)
        end, mask_id = self.tokenizer.eos_token_id, self.tokenizer.mask_token_id
        x, truth = (
            torch.tensor([ids + [end] * (width - len(ids)) for ids in lists])
            for lists in ([b.ids for b in rows], [b.truth for b in rows])
        )
        starts, sizes = (torch.tensor([getattr(board, name) for board in rows]) for name in ("start", "block"))
        inside = current_block(x == mask_id, starts, sizes[:, None])
        ends, lines = torch.tensor([len(board.ids) for board in rows]), torch.tensor([board.line for board in rows])
        return View(*(part.to(device) for part in (x, truth, inside, ends, lines)))

    def _window(self) -> list[Board]:
        """Boards of about one length, at most `recipe.batch` tokens; those that are done have been replaced."""
        while len(self.boards) < BOARDS:
            self._place, board = next(self._fresh)
            self.boards.append(board)
        self.boards.sort(key=lambda board: len(board.ids))
        first = last = self._rng.randrange(len(self.boards))
        while last < len(self.boards) and (
            last == first or len(self.boards[last].ids) * (last - first + 1) <= self.recipe.batch
        ):
            last += 1
        return self.boards[first:last]

    def _new(self, start: tuple[int, int]) -> Iterator[tuple[tuple[int, int], Board]]:
        """Endless (place behind the board, board) of nothing but masks, of training examples in the recipe's mixture,
        from a place (pool, number in it)."""
        end, mask_id, block = self.tokenizer.eos_token_id, self.tokenizer.mask_token_id, self.recipe.block
        first, skipped = start
        for pool in count(first):
            rng = random.Random(f"{self.recipe.drawn}/walk from {self.seed}/{pool}")  # the text decides what is drawn
            examples = draw(self.recipe, rng)
            for i, (example, (prompt, answer)) in enumerate(
                zip(examples, encode(self.tokenizer, examples), strict=True)
            ):
                length = -(-len(answer) // block) * block + rng.choice(SPARE)
                line, size = 1 - 10 ** -rng.uniform(*LINES), rng.choice((*BLOCKS, rng.randint(5, 20)))
                if pool == first and i < skipped:
                    continue
                answers = self._all_answers(example, answer)
                canvases = np.array([one + [end] * (length - len(one)) for one in answers if len(one) <= length])
                masks, truth = [mask_id] * length, canvases[0].tolist()
                board = Board(prompt + masks, prompt + truth, len(prompt), line, size, canvases)
                yield (pool, i + 1), board

    def _all_answers(self, example: Example, answer: list[int]) -> list[list[int]]:
        """The reference first, and the other right answers where they can be listed."""
        try:
            found = right_answers(example.prompt) if example.task in MANY else []
        except UserError:  # too many orders
            found = []
        others = [answer_text(one) for one in found if one != example.answer]
        if not 0 < len(others) < ANSWERS:
            return [answer]
        return [answer, *self.tokenizer(others)["input_ids"]]


def committed(sure: Tensor, view: View) -> Tensor:
    """Which masks are written after a forward [R, L]: those inside whose confidence `sure` [R, L] is above the board's
    line, and the surest one."""
    surest = torch.zeros_like(view.inside).scatter(
        1, sure.masked_fill(~view.inside, -1.0).argmax(1, keepdim=True), True
    )
    return view.inside & ((sure > view.lines[:, None]) | surest)
