"""What each exit would have drafted right, counted with fading memory, and the exit and draft length that follow (DEL,
arXiv:2504.05598; code class DEL, equal to it on the golden cases)."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat

from engines.core.trace import Small
from engines.kit import Alternatives, Probability, Record, Stops, Tensor, TokenId, torch


class ShadowTokens(Record):
    """What each exit would have said behind the rows of a round, how often it was right so far, and what follows."""

    exits: list[int]
    exit_layer: int  # that drafted this round
    layers: int  # L
    target: list[TokenId]  # what the whole model says behind each row
    shadow: list[list[TokenId]]  # [exits, rows]: what an exit says there
    context: int  # rows in front of the drafted ones
    counted: int  # rows, from the left; what stands behind a wrong draft is left out
    alpha: list[Probability | None]  # of each exit, with this round; None without counts
    costs: tuple[float, float]  # of a verification and of a draft, in layers, beside their own
    most: Small  # lengths 0 ... most - 1 are compared
    next_exit: int
    next_d: int

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """The tokens per layer that each exit and length promise."""
        table = promised(self.alpha, self.exits, self.layers, self.most, *self.costs)
        return {"promised": Stops([0], [[row and [round(tpl, 5) for tpl in row] for row in table]])}


class Counts:
    """Fading counts and sums of confidence over matches and mismatches, [exits, 2] each."""

    def __init__(self, exits: Sequence[int]) -> None:
        self.exits = exits
        self.n, self.sums = (torch.zeros(len(exits), 2, dtype=torch.float64) for _ in range(2))

    @property
    def known(self) -> bool:
        """Whether anything was counted."""
        return bool(self.n.any())

    def update(self, match: Tensor, sure: Tensor, exit_row: int, context: int, d: int, omega: float) -> int:
        """Count the columns of a round: match and confidence [exits, T]. What stands behind the first mismatch of the
        current exit depends on a refused token and is left out, unless d was 0. Returns the columns counted."""
        match, sure = match.cpu(), sure.cpu().double()
        wrong = (~match[exit_row, context:]).nonzero()
        T = context + int(wrong[0]) + 1 if d and len(wrong) else match.shape[1]
        kinds = torch.stack([match[:, :T], ~match[:, :T]], 1).double()  # [exits, 2, T]
        self.n = omega * self.n + kinds.sum(-1)
        self.sums = omega * self.sums + (kinds * sure[:, None, :T]).sum(-1)
        return T

    def alpha(self) -> list[float | None]:
        """Chance that an exit drafts right; None without counts."""
        return [a / (a + b) if a + b else None for a, b in self.n.tolist()]

    def facts(self) -> dict[str, float]:
        """alpha by exit, for the record."""
        return {f"alpha {i}": a for i, a in zip(self.exits, self.alpha(), strict=True) if a is not None}

    def means(self) -> list[list[float | None]]:
        """Mean confidence over matches and over mismatches."""
        pairs = zip(self.n.tolist(), self.sums.tolist(), strict=True)
        return [[s / n if n else None for n, s in zip(*pair, strict=True)] for pair in pairs]

    def tau(self) -> list[float | None]:
        """The middle between both means of each exit; None where one has no data."""
        return [None if a is None or b is None else (a + b) / 2 for a, b in self.means()]


@dataclass(frozen=True)
class Best:
    """Exit, length and expected tokens per layer."""

    exit_layer: int
    d: int
    tpl: float


def choose(
    alpha: Sequence[float | None],
    exits: Sequence[int],
    L: int,
    most: int,
    least: int = 0,
    c_v: float = 0.0,
    c_d: float = 0.0,
) -> Best:
    """The most expected tokens per layer over exits and lengths 0 ... most - 1; ties: lowest exit, then length."""
    best = Best(exits[0], 0, 0.0)
    for exit_layer, row in zip(exits, promised(alpha, exits, L, most, c_v, c_d), strict=True):
        for d, tpl in enumerate(row or ()):
            if d >= least and tpl > best.tpl:
                best = Best(exit_layer, d, tpl)
    return best


def promised(
    alpha: Sequence[float | None], exits: Sequence[int], L: int, most: int, c_v: float, c_d: float
) -> list[list[float] | None]:
    """Expected tokens per layer [exits, most]: (1 + a + ... + a^d) / (L + c_v + d (l + c_d)); None without counts."""
    rows = list[list[float] | None]()
    for exit_layer, a in zip(exits, alpha, strict=True):
        expected = accumulate(accumulate(repeat(a or 0.0, most - 1), operator.mul, initial=1.0))
        row = [sum_ / (L + c_v + d * (exit_layer + c_d)) for d, sum_ in enumerate(expected)]
        rows.append(None if a is None else row)
    return rows
