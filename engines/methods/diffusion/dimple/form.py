"""The answer as a form: what is printed in it, and what a forward proposes for each field that is open."""

from collections.abc import Iterable
from functools import partial

from engines.kit import Alternatives, Position, Record, Stops, Tensor, TokenId, exact, slider


class Form(Record):
    """The answer as a form: the words printed before the first forward, and the open fields with their scores."""

    printed: list[Position]
    fields: list[Position]  # open before this step
    tokens: list[TokenId]  # proposed for them
    scores: list[float]  # of the order that `alg` names
    threshold: float  # 0: none
    mode: str  # confident, fallback or final

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """How many fields another threshold fills; none where the rate decides."""
        if self.mode == "final" or min(self.scores, default=-1) < 0:
            return {}
        return {"threshold": Stops.over(slider(0, 1, 0.01, self.threshold), partial(confident, self.scores))}


def confident(scores: Iterable[float], theta: float) -> int:
    """How many scores are above the threshold, if there is one."""
    return sum(score > theta for score in scores) if theta > 0 else 0


def form(pins: dict[int, int], masks: Tensor, x0: Tensor, order: Tensor, threshold: float, mode: str) -> Form:
    """The record of one forward; masks, x0, order [m]."""
    return Form(sorted(pins), masks.tolist(), x0.tolist(), exact(order), threshold, mode)
