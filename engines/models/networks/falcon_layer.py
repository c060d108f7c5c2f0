"""Falcon's draft layer: an LSTM along the tokens and one decoder layer whose rows see each other in blocks of k (arXiv
2412.12639, sections 3.1 and 3.2).

Row t reads the token t + 1 with the state at t and estimates the state at t + k, so a block of k rows foresees k tokens
in one pass.

Shapes: n rows, d hidden size, B sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from engines.models.networks.eagle_layer import EagleLayer
from engines.models.networks.exits import frozen

if TYPE_CHECKING:
    from engines.models.parts import Part

State = tuple[Tensor, Tensor]  # of the LSTM behind a row, each [1, B, d]


class FalconLayer(EagleLayer):
    """x = fc z + P LSTM(z) + b for z = [s e; h], then EAGLE's decoder layer. The linear path beside the LSTM is ours:
    P is 0 at the start, so that a ridge regression in fc begins the layer."""

    def __init__(self, d: int, f: int, s: float = 1.0) -> None:
        super().__init__(d, f, s)
        self.lstm, self.P = nn.LSTM(2 * d, d), nn.Parameter(torch.zeros(d, d))

    def run(self, z: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Rows z [n, B, 2 d] along the tokens, behind a state: what the LSTM gives [n, B, d], and its state."""
        return self.lstm(z, state)

    def mixed(self, z: Tensor, r: Tensor) -> Tensor:
        """Rows x [.., d] of inputs z [.., 2 d] and what the LSTM gave for them, r [.., d]."""
        return z @ self.fc.T + r @ self.P.T + self.bias


def visible(n: int, k: int, past: int = 0) -> list[int]:
    """The relaxed causal mask: how many leading positions each of n rows sees, behind `past` ones that all see. Inside
    a block of k rows each sees the others; blocks are counted from the first of the n rows."""
    return [past + min(n, (i // k + 1) * k) for i in range(n)]


def mask_of(n: int, k: int, past: int = 0) -> Tensor:
    """The same as a mask [n, past + n] for rows whose last block is whole: a first block of n mod k rows comes before
    the others."""
    first = n % k
    sees = [*visible(first, k, past), *visible(n - first, k, past + first)]
    return torch.arange(past + n) < torch.tensor(sees, dtype=torch.long)[:, None]


def layer_of(part: Part, name: str) -> FalconLayer:
    """The layer of that name in a part, in float32."""
    state = {key.removeprefix(f"{name}."): t.float() for key, t in part.tensors.items() if key.startswith(f"{name}.")}
    return frozen(FalconLayer(len(state["bias"]), state["down"].shape[1]), state)
