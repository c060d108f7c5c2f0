"""Chimera's drafter: an encoder of the last three tokens, one layer over the model's own last states, and a head for
each depth (arXiv 2402.15758; kafkayu/Chimera, chimera/model/Chimera_model.py).

Shapes: n rows, m rows that they may see, d hidden size, W tokens of a window, K heads, f channels of the layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from engines.models.networks.block import Block
from engines.models.networks.exits import frozen, scaled

if TYPE_CHECKING:
    from engines.models.parts import Part

WINDOW = 3


class ChimeraDrafter(nn.Module):
    """g = encoded(window), f = layer(g) over what the row sees, and A_i [h; f] on the scale of the model's last norm,
    which its output head reads; h is the last true state. Each A starts as [I, I]."""

    def __init__(self, K: int, d: int, f: int) -> None:
        super().__init__()
        self.G, self.U = nn.Parameter(torch.zeros(d, WINDOW * d)), nn.Parameter(torch.zeros(d, d))
        self.c = nn.Parameter(torch.zeros(d))
        self.layer = Block(d, f)
        self.A = nn.ParameterList(nn.Parameter(torch.eye(d).repeat(1, 2)) for _ in range(K))

    def inputs(self, e: Tensor, window: int | Tensor = WINDOW) -> Tensor:
        """Embeddings e [n, W, d] of runs of tokens, the newest last, each at root mean square 1 and one behind the
        other, [n, W d]. window: how many of the newest count, one number or [n]; the others are 0."""
        kept = torch.arange(WINDOW, 0, -1, device=e.device) <= torch.as_tensor(window, device=e.device).view(-1, 1)
        return (scaled(e) * kept[..., None]).flatten(1)

    def encoded(self, e: Tensor, window: int | Tensor = WINDOW) -> Tensor:
        """What runs of tokens come to: y + SiLU(U y + c) of y = G x, [n, d]."""
        y = self.inputs(e, window) @ self.G.T
        return y + nn.functional.silu(y @ self.U.T + self.c)

    def predicted(self, h: Tensor, f: Tensor, i: int) -> Tensor:
        """What head i makes of the last true states h [n, d] and the encoder's f [n, d]."""
        return torch.cat([h.float(), f], -1) @ self.A[i].T


def drafter_of(part: Part) -> ChimeraDrafter:
    """The drafter of a part, in float32."""
    state = {name: t.float() for name, t in part.tensors.items() if name not in ("accuracy", "vocabulary")}
    K, (d, f) = sum(name.startswith("A.") for name in state), state["layer.down"].shape
    return frozen(ChimeraDrafter(K, d, f), state)
