"""Hydra's draft heads: each reads the model's last hidden state and the tokens guessed so far (arXiv 2402.05109;
zankner/Hydra, model/hydra_heads/mlp_head.py).

Shapes: n rows, d hidden size, K heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from engines.models.networks.exits import frozen

if TYPE_CHECKING:
    from engines.models.parts import Part


class HydraHeads(nn.Module):
    """K heads; head i takes x = [h; s e_0; ... s e_i], the embeddings of the token behind h and of the i guesses after
    it, to R x + SiLU(W x + b), on the scale of the model's last norm. s brings embeddings to a root mean square of
    1."""

    def __init__(self, K: int, d: int, s: float = 1.0) -> None:
        super().__init__()
        wide = [(i + 2) * d for i in range(K)]
        self.R = nn.ParameterList(nn.Parameter(torch.eye(d, width)) for width in wide)
        self.W = nn.ParameterList(nn.Parameter(torch.zeros(d, width)) for width in wide)
        self.b = nn.ParameterList(nn.Parameter(torch.zeros(d)) for _ in wide)
        self.register_buffer("s", torch.tensor([float(s)]))

    def inputs(self, h: Tensor, e: Tensor) -> Tensor:
        """States h [n, d] and embeddings e [n, i + 1, d] side by side: [n, (i + 2) d]."""
        return torch.cat([h.float(), (e.float() * self.get_buffer("s")).flatten(1)], -1)

    def forward(self, h: Tensor, e: Tensor) -> Tensor:
        """What the head for i + 1 tokens makes of h [n, d] and e [n, i + 1, d]: states [n, d]."""
        x, i = self.inputs(h, e), e.shape[1] - 1
        return x @ self.R[i].T + nn.functional.silu(x @ self.W[i].T + self.b[i])


def heads_of(part: Part) -> HydraHeads:
    """The heads of a part, in float32."""
    state = {name: t.float() for name, t in part.tensors.items() if name not in ("accuracy", "vocabulary")}
    return frozen(HydraHeads(sum(name.startswith("b.") for name in state), len(state["b.0"])), state)
