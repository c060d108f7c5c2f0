"""The window of a run of Jacobi decoding: its drafts from one forward to the next, one iteration with all its random
numbers given, and its record (SJD, arXiv:2410.01699, algorithm 1; official code:
`scheduler/jacobi_iteration_lumina_mgpt.py`).

Letters: W positions of the window, V vocabulary; p [W, V] the distributions of this iteration (p_1 is sure, the others
hold if the drafts before them stay), q the distributions that the W - 1 drafts were drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engines.core.picture import Picture
from engines.core.sampling import inverse_cdf
from engines.core.trace import pack
from engines.kit import (
    CausalLM,
    Generator,
    KVCache,
    Media,
    Params,
    Tensor,
    Tree,
    UserError,
    accept_probability,
    many,
    residual,
    torch,
    uniform,
)
from engines.methods.speculative._verify import Draft, Test, Verdict, record_tree


@dataclass(frozen=True)
class Iteration:
    """What became of the drafts: how many were accepted, the chance that each tested one had, the fresh token of every
    position, the tokens committed, and what was left of p at the refused position [V] (None where none was)."""

    accepted: int
    chances: list[float]
    fresh: list[int]
    committed: list[int]
    left: Tensor | None


def iterate(
    p: Tensor, drafts: Sequence[int], q: Sequence[Tensor], uniforms: Sequence[float], exact_match: bool = False
) -> Iteration:
    """Draw a fresh token for every position, then test the drafts in order with min(1, p(x) / q(x)); the first refused
    one is replaced by a draw from norm(max(p - q, 0)), and where none is refused the last fresh token follows.

    p [W, V], W - 1 drafts with their q [V]. uniforms: W for the fresh tokens, W - 1 for the tests, 1 for the
    replacement, in this order. exact_match: plain Jacobi decoding instead, which keeps a draft only if the fresh token
    of its position is the same."""
    width = len(p)
    fresh = [inverse_cdf(p[i], uniforms[i]) for i in range(width)]
    chances: list[float] = []
    for i, token in enumerate(drafts):
        if exact_match:
            chances.append(float(fresh[i] == token))
            if fresh[i] != token:
                return Iteration(i, chances, fresh, [*drafts[:i], fresh[i]], None)
            continue
        chances.append(accept_probability(p[i], q[i], token))
        if uniforms[width + i] >= chances[-1]:
            left = residual(p[i], q[i])
            left = p[i] if left is None else left  # p = q but for rounding
            return Iteration(i, chances, fresh, [*drafts[:i], inverse_cdf(left, uniforms[2 * width - 1])], left)
    return Iteration(len(drafts), chances, fresh, [*drafts, fresh[-1]], None)


def first_guess(init: str, before: Sequence[int], columns: int, place: int, u: float, tokens: range) -> tuple[int, str]:
    """A draft for a place that has none yet, and how it was made. before: the picture's tokens and drafts up to there;
    columns: of the picture, 0 for text; place: of the draft in the picture; u: a uniform; tokens: what may stand there.

    left copies the token to the left, but not over the start of a row; above copies the one a row up, in the first row
    the one to the left (noise there is what the model goes on from: it cost a hundred forwards of a picture); where
    there is none, and with random, a token is drawn evenly."""
    how = "left" if init == "above" and place < columns else init
    back = {"left": 1, "above": columns}.get(how, 0)
    starts_row = how == "left" and columns > 0 and place % columns == 0
    if back and place >= back and not starts_row:
        return before[-back], how
    return tokens[min(int(u * len(tokens)), len(tokens) - 1)], "random"


class Window:
    """The drafts behind the text with their distributions. Raises UserError where the model has no picture to copy from
    or nothing to be guided by."""

    def __init__(self, model: CausalLM, prompt: Sequence[int], p: Params) -> None:
        self.model, self.p, self.start, self.picture = model, p, len(prompt), model.picture
        name = model.record.name
        if p.init == "above" and self.picture is None:
            raise UserError(
                f"init=above copies from the row above and {name} writes text without rows; choose random or left."
            )
        if p.guidance != 1 and (self.picture is None or self.picture.blank < 0):
            raise UserError(
                f"guidance={p.guidance:g} needs a model that knows a blank prompt, and {name} does not; leave it at 1."
            )
        self.tokens = range(self.picture.first, self.picture.end) if self.picture else range(model.vocab_size)
        self._drafts: list[int] = []
        self._q: list[Tensor] = []

    def carry(self, tokens: Sequence[int], q: Tensor) -> None:
        """The drafts of the next iteration: fresh tokens of this one and the distributions [n, V] they came from."""
        self._drafts, self._q = list(tokens), list(q)

    def allowed(self, z: Tensor) -> Tensor:
        """Logits [W, V] with -inf for what is not a token of the picture."""
        if self.picture is None:
            return z
        z = z.clone()
        z[:, : self.tokens.start] = -torch.inf
        z[:, self.tokens.stop :] = -torch.inf
        return z

    def filled(self, ids: Sequence[int], width: int, rng: Generator) -> tuple[list[int], list[Tensor], list[str]]:
        """width - 1 drafts behind the text, the distribution [V] of each, and how each was made; those that are missing
        are first guesses, whose distribution is a point."""
        drafts, q = self._drafts[: width - 1], self._q[: width - 1]
        made = ["carried"] * len(drafts)
        while len(drafts) < width - 1:
            before = [*ids[self.start :], *drafts]
            columns = self.picture.columns if self.picture else 0
            token, how = first_guess(self.p.init, before, columns, len(before), uniform(rng), self.tokens)
            drafts.append(token)
            q.append(torch.nn.functional.one_hot(torch.tensor(token), self.model.vocab_size).float())
            made.append(how)
        return drafts, q, made


def guided(
    model: CausalLM,
    prompt: Sequence[int],
    ids: Sequence[int],
    drafts: Sequence[int],
    caches: Sequence[KVCache],
    s: float,
) -> Tensor:
    """Logits [W, V] behind the last token and each draft; above s = 1 those of the blank prompt pushed away from,
    blank + s (asked - blank), which costs a second forward (official code; Ho and Salimans 2022)."""
    asked = model.extend([*ids[caches[0].length :], *drafts], caches[0]).logits[-len(drafts) - 1 :]
    if s == 1 or model.picture is None:
        return asked
    blank = [*[model.picture.blank] * len(prompt), *ids[len(prompt) :]]
    free = model.extend([*blank[caches[1].length :], *drafts], caches[1]).logits[-len(drafts) - 1 :]
    return free + s * (asked - free)


def causes(iteration: Iteration, drafts: Sequence[int]) -> list[str]:
    """Why each committed token stands there."""
    own = "bonus" if iteration.accepted == len(drafts) else "correction"
    return [*["accepted"] * iteration.accepted, own if drafts else "sampled"]


def chain(
    ids: Sequence[int],
    drafts: Sequence[int],
    q: Sequence[Tensor],
    P: Tensor,
    iteration: Iteration,
    made: Sequence[str],
    u: Sequence[float],
) -> Tree:
    """The drafts as a chain behind the last token, with their chances, the uniforms [2 W] and what was kept."""
    draft = Draft(ids[-1])
    for row, (token, own, how) in enumerate(zip(drafts, q, made, strict=True)):
        draft.add(row, token, chance=float(own[token]), source=how)
    tests = [Test(i + 1, chance, u[len(P) + i], i < iteration.accepted) for i, chance in enumerate(iteration.chances)]
    refused = iteration.accepted < len(drafts)
    verdict = Verdict(
        list(range(iteration.accepted + 1)), iteration.committed[-1], "residual" if refused else "target", tests
    )
    return record_tree(P.log(), draft, verdict, len(ids) - 1)


def media(picture: Picture, known: Sequence[int], guesses: Sequence[int]) -> Media:
    """The picture so far: tokens known, and the guesses behind them that are tested next."""
    codes = np.full(picture.cells, -1, dtype=np.int32)
    drawn = np.array([*known, *guesses][: picture.cells], dtype=np.int32) - picture.first
    codes[: len(drawn)] = np.where((drawn >= 0) & (drawn < len(picture.colours)), drawn, -1)
    return Media(
        pack(codes.reshape(picture.rows, picture.columns)),
        colours=list(picture.colours),
        guesses=list(range(len(known), len(drawn))),
    )


def note(iteration: Iteration, drafts: Sequence[int]) -> str:
    """One sentence on the iteration."""
    if not drafts:
        return "No draft was tested; one token drawn."
    kept = f"{iteration.accepted} of {many(len(drafts), 'draft')} accepted"
    return (
        f"{kept}, one more drawn."
        if iteration.accepted == len(drafts)
        else f"{kept}; the next was refused and redrawn."
    )
