"""Muon for the matrices inside the network, AdamW for embeddings and gains, as one optimizer; and learning rates."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn


class Optimizer:
    """Both optimizers as one. Muon (Jordan et al. 2024) orthogonalises each matrix's update and learns these tasks in
    fewer steps than AdamW alone."""

    def __init__(self, network: nn.Module, learning_rate: float) -> None:
        embeddings = {id(p) for m in network.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
        matrices = [p for p in network.parameters() if p.ndim == 2 and id(p) not in embeddings]
        inside = {id(p) for p in matrices}
        others = [p for p in network.parameters() if id(p) not in inside]
        self.parts: list[torch.optim.Optimizer] = [
            torch.optim.Muon(
                matrices, lr=learning_rate, weight_decay=0.01, momentum=0.95, adjust_lr_fn="match_rms_adamw"
            ),
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
