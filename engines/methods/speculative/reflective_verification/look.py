"""Both opinions of a drafted round: what they say, where they differ, and with which weights the draft would win."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from engines.kit import (
    Alternatives,
    Params,
    Probability,
    Record,
    Stops,
    Tensor,
    TokenId,
    accept_probability,
    distribution,
    slider,
    token_probability,
    torch,
)
from engines.methods.speculative._turn import Turn


class Reflection(Record):
    """Both opinions of the drafted tokens, and the rows that were read for them."""

    alpha: Probability
    text: int  # rows of each part, from left to right: text that the cache lacked, draft, r, s, the draft again
    draft: int
    request: int
    prefix: int
    again: int
    own: list[Probability]  # of each drafted token by z0
    reflected: list[Probability]  # by zr
    mixed: list[Probability]  # by the mixture
    own_best: list[TokenId]  # what z0 would rather say there
    reflected_best: list[TokenId]
    mixed_best: list[TokenId]
    wins: list[tuple[float, float] | None]  # where nothing is drawn: the weights of zr with which the draft is the best

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """What becomes of the draft with another weight."""
        return {"alpha": Stops.over(slider(0, 1, 0.01, self.alpha), partial(fates, self.wins))} if self.wins else {}


def fates(wins: Sequence[tuple[float, float] | None], alpha: float) -> list[str]:
    """What becomes of each drafted token with a weight: both (it stands without zr, too), rescued, lost, refused, and
    behind a refusal."""
    outcomes = list[str]()
    for win in wins:
        plain, stands = (win is not None and win[0] <= at <= win[1] for at in (0.0, alpha))
        outcomes.append(("both" if plain else "rescued") if stands else "lost" if plain else "refused")
        if not stands:
            break
    return outcomes + ["behind"] * (len(wins) - len(outcomes))


@dataclass(frozen=True)
class Look:
    """A verified round with both opinions: z0 and zr [gamma + 1, V] (zr is z0 where no second copy was read), rows:
    those read of each part, as `Reflection` names them."""

    iteration: Turn
    z0: Tensor
    zr: Tensor
    rows: tuple[int, int, int, int, int]

    @property
    def extra(self) -> int:
        """Rows read for the second opinion."""
        return sum(self.rows[2:])

    def changed(self, temperature: float) -> tuple[list[int], list[int]]:
        """Rows that the mixture kept and z0 alone refuses, and the other way round, with the same uniform."""
        draft = self.iteration.draft
        rescued: list[int] = []
        lost: list[int] = []
        for test in self.iteration.verdict.tests:
            row, token = draft.parents[test.row], draft.tokens[test.row]
            q = draft.distributions.get(row)
            if temperature == 0:
                plain = int(self.z0[row].argmax()) == token
            elif q is not None and test.u is not None:
                p0 = distribution(self.z0[row].double(), temperature)
                plain = test.u < accept_probability(p0, q.to(p0.device).double(), token)
            else:  # a token put in by the poison test: one draw of the mixture decides, which z0 has no part in
                plain = test.accepted
            if test.accepted != plain:
                (rescued if test.accepted else lost).append(test.row)
        return rescued, lost

    def lanes(self) -> dict[str, Any]:
        """The chance of each token gained under either opinion."""
        before, gained = len(self.iteration.before), self.iteration.gained
        rows, tokens = self.iteration.verdict.path[: len(gained)], torch.tensor(gained, device=self.z0.device)
        opinions = {"own": self.z0, "reflected": self.zr} if self.extra else {"own": self.z0}
        at = range(before, before + len(gained))
        return {name: (at, token_probability(z[rows], tokens)) for name, z in opinions.items()}

    def record(self, p: Params) -> Reflection:
        """What both opinions say of each drafted token."""
        drafted = torch.tensor(self.iteration.draft.tokens[1:], dtype=torch.long, device=self.z0.device)
        z0, zr = self.z0[:-1], self.zr[:-1]  # the last row predicts what stands behind the draft
        opinions = (z0, zr, fuse(z0, zr, p.alpha))
        shares = [token_probability(z, drafted).tolist() for z in opinions]
        best = [z.argmax(-1).tolist() for z in opinions]
        wins = [won(a, b, int(x)) for a, b, x in zip(z0, zr, drafted, strict=True)] if p.temperature == 0 else []
        return Reflection(p.alpha if self.extra else 0.0, *self.rows, *shares, *best, wins)


def won(z0: Tensor, zr: Tensor, x: int) -> tuple[float, float] | None:
    """The weights alpha in [0, 1] with which token x is the best of (1 - alpha) * z0 + alpha * zr [V], an interval as
    the mixture is linear in alpha; None where there are none."""
    a, b = ((z[x] - z).double() for z in (fuse(z0, zr, 0.0), fuse(z0, zr, 1.0)))  # its lead over each other token
    a, b = a[z0 > float("-inf")], b[z0 > float("-inf")]
    at = a / (a - b)  # where the lead is lost or won
    low = max(0.0, *at[(a < 0) & (b >= 0)].tolist(), 0.0)
    high = min(1.0, *at[(a >= 0) & (b < 0)].tolist(), 1.0)
    return None if bool(((a < 0) & (b < 0)).any()) or low > high else (low, high)


def fuse(z0: Tensor, zr: Tensor, alpha: float) -> Tensor:
    """(1 - alpha) * z0 + alpha * zr, any shape. What z0 rules out stays so; zr alone rules nothing out."""
    zr = torch.where(zr.isneginf(), z0, zr)
    return torch.where(z0.isneginf(), z0, (1 - alpha) * z0 + alpha * zr)
