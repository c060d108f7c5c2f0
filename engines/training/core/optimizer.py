"""Muon for the matrices inside the network, AdamW for embeddings and gains, as one optimizer; and learning rates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


class StackedMuon(torch.optim.Optimizer):
    """Muon in float32, matrices of one shape at once. torch's own orthogonalises one by one in bfloat16, which some
    processors emulate: there it took 1.2 s of a step of 1.4 s with the 66 matrices of a network of 1.4 M weights."""

    COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the Newton-Schulz step, as in torch's

    def __init__(
        self, matrices: Iterable[nn.Parameter], lr: float, weight_decay: float = 0.01, momentum: float = 0.95
    ) -> None:
        super().__init__(list(matrices), {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """One update, of the size that AdamW's would have."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[nn.Parameter]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    shapes.setdefault(p.shape, []).append(p)
            for (m, n), alike in shapes.items():
                updates = orthogonal(torch.stack([self._wanted(p, group["momentum"]) for p in alike]))
                for p, update in zip(alike, updates, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(update, alpha=-group["lr"] * 0.2 * max(m, n) ** 0.5)

    def _wanted(self, p: nn.Parameter, momentum: float) -> Tensor:
        """The gradient with Nesterov's momentum."""
        assert p.grad is not None
        held = self.state[p].setdefault("momentum", torch.zeros_like(p))
        held.lerp_(p.grad, 1 - momentum)
        return p.grad.lerp(held, momentum)


def orthogonal(G: Tensor, steps: int = 5) -> Tensor:
    """Matrices [k, m, n] with all singular values near 1: five steps of Newton and Schulz."""
    a, b, c = StackedMuon.COEFFICIENTS
    tall = G.shape[1] > G.shape[2]
    X = G.mT if tall else G
    X = X / X.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        A = X @ X.mT
        X = a * X + (b * A + c * A @ A) @ X
    return X.mT if tall else X


class Optimizer:
    """Both optimizers as one. Muon (Jordan et al. 2024) orthogonalises each matrix's update and learns these tasks in
    fewer steps than AdamW alone. stacked: with `StackedMuon` in place of torch's."""

    def __init__(self, network: nn.Module, learning_rate: float, *, stacked: bool = False) -> None:
        embeddings = {id(p) for m in network.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
        matrices = [p for p in network.parameters() if p.ndim == 2 and id(p) not in embeddings]
        inside = {id(p) for p in matrices}
        others = [p for p in network.parameters() if id(p) not in inside]
        muon = (
            StackedMuon(matrices, learning_rate)
            if stacked
            else torch.optim.Muon(
                matrices, lr=learning_rate, weight_decay=0.01, momentum=0.95, adjust_lr_fn="match_rms_adamw"
            )
        )
        self.parts: list[torch.optim.Optimizer] = [
            muon,
            torch.optim.AdamW(others, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0),
        ]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of both."""
        return [group for part in self.parts for group in part.param_groups]

    def step(self) -> None:
        """One update of all weights."""
        for part in self.parts:
            part.step()

    def zero_grad(self) -> None:
        """Drop all gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, Any]]:
        """The state of both, for a checkpoint."""
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Go on from a checkpoint's state."""
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)


def cosine(rate: float, step: int, warmup: int, share: float) -> float:
    """The rate rises over `warmup` steps and falls along a half cosine to 2 % as `share` goes from 0 to 1."""
    return rate * min(1.0, (step + 1) / warmup) * (0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * min(share, 1.0))))


def straight(rate: float, step: int, warmup: int, share: float) -> float:
    """The same rise, then a straight fall to 2 %."""
    return rate * min(1.0, (step + 1) / warmup) * (1 - 0.98 * min(share, 1.0))
