"""One iteration of Jacobi decoding over a window, with all its random numbers given (SJD, arXiv:2410.01699, algorithm
1; official code: `scheduler/jacobi_iteration_lumina_mgpt.py`).

Letters: W positions of the window, V vocabulary; p [W, V] the distributions of this iteration (p_1 is sure, the others
hold if the drafts before them stay), q the distributions that the W - 1 drafts were drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass

from engines.core.sampling import inverse_cdf
from engines.kit import Tensor, accept_probability, residual


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
