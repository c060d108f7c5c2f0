"""Muon for the matrices inside the network, AdamW for embeddings and gains, under one schedule."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn


class Optimizer:
    """Both optimizers as one. Muon (Jordan et al. 2024) orthogonalises each matrix's update and learns these tasks in fewer steps than AdamW alone."""

    def __init__(self, network: nn.Module, learning_rate: float) -> None:
        embeddings = {id(p) for m in network.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
        matrices = [p for p in network.parameters() if p.ndim == 2 and id(p) not in embeddings]
        inside = {id(p) for p in matrices}
        others = [p for p in network.parameters() if id(p) not in inside]
        self.rate = learning_rate
        self.parts: list[torch.optim.Optimizer] = [
            torch.optim.Muon(matrices, lr=learning_rate, weight_decay=0.01, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0),
        ]

    def step(self, done: int, warmup: int, share: float) -> None:
        """One update. The rate rises over `warmup` steps and falls along a half cosine to 2 % as `share` goes from 0 to 1."""
        rate = self.rate * min(1.0, (done + 1) / warmup) * (0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * min(share, 1.0))))
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = rate
            part.step()
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, Any]]:
        """The state of both, for a checkpoint."""
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Go on from a checkpoint's state."""
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)
