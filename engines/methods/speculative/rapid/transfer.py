"""The transfer of RAPID (arXiv:2502.20330): the target's logits take a step towards the drafter's distribution, and the
test of drafted tokens against what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from engines.kit import (
    Generator,
    Tensor,
    accept_probability,
    distribution,
    draw,
    torch,
    uniform,
)
from engines.methods.speculative._verify import Draft, Test, Verdict


@dataclass(frozen=True)
class Transfer:
    """One position: target p and drafter q [V] in float64, the tokens whose logits move, z' and p'."""

    p: Tensor
    q: Tensor
    mask: Tensor
    z_hat: Tensor
    p_hat: Tensor

    @classmethod
    def of(cls, z: Tensor, q: Tensor, eta: float, alpha: float) -> Transfer:
        """A step of size eta from z [V] (logits after temperature) towards q, where q >= alpha max q."""
        p, mask = z.softmax(-1), q >= alpha * q.max()
        z_hat = torch.where(mask & ~z.isneginf(), z - eta * (p - q), z)
        return cls(p, q, mask, z_hat, z_hat.softmax(-1))

    @property
    def residual(self) -> Tensor:
        """What is drawn from after a refusal: norm(max(p - q, p - p', 0)), p where nothing is left."""
        left = torch.maximum(self.p - self.q, self.p - self.p_hat).clamp(min=0)
        return left / left.sum() if left.sum() > 0 else self.p

    @property
    def output(self) -> Tensor:
        """The distribution of the emitted token: m + (1 - sum m) residual with m = min(q, p')."""
        m = torch.minimum(self.q, self.p_hat)
        return m + (1 - m.sum()) * self.residual

    @property
    def shift(self) -> float:
        """Total variation of the output from p."""
        return float((self.output - self.p).abs().sum() / 2)


@dataclass
class Look:
    """The rule of a round, with what it found. q: the drafter's distribution [V] behind each row; transferred, lost:
    rows that the rule kept and eta = 0 refuses with the same uniform, and the other way round."""

    eta: float
    alpha: float
    T: float
    q: list[Tensor]
    transferred: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)

    def at(self, z: Tensor, row: int) -> Transfer:
        """The transfer behind a row, of the target's logits z [n, V]."""
        return Transfer.of(z[row].double() / self.T, self.q[row].to(z.device), self.eta, self.alpha)

    def verdict(self, z: Tensor, draft: Draft, temperature: float, rng: Generator, ends: frozenset[int]) -> Verdict:
        """Test the draft left to right; the token behind it is the target's, or at a refusal the residual's."""
        tests: list[Test] = []
        for row in range(len(self.q)):
            transfer, token = self.at(z, row), draft.tokens[row + 1]
            if temperature == 0:
                plain, moved = (int(logits.argmax()) == token for logits in (z[row], transfer.z_hat))
                chance, u, kept = float(plain or moved), None, plain or moved
            else:
                chance, u = accept_probability(transfer.p_hat, transfer.q, token), uniform(rng)
                kept, plain = u < chance, u < accept_probability(transfer.p, transfer.q, token)
            tests.append(Test(row + 1, chance, u, kept))
            if kept != plain:
                (self.transferred if kept else self.lost).append(row + 1)
            if not kept:
                emitted = draw(transfer.residual, rng) if temperature else int(z[row].argmax())
                return Verdict(list(range(row + 1)), emitted, "residual" if temperature else "argmax", tests)
            if token in ends:
                return Verdict(list(range(row + 2)), -1, "draft", tests)
        last = z[len(self.q)]  # the drafter has no row here, so nothing moves
        emitted = draw(distribution(last.double(), temperature), rng) if temperature else int(last.argmax())
        return Verdict(list(range(len(draft))), emitted, "target" if temperature else "argmax", tests)
