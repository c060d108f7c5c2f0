"""The pre-gating router of Read-ME (arXiv:2410.19123): one layer of a causal transformer that reads token ids and names
one expert for each token, for all layers of the large model.

It reads the large model's own embedding, frozen, through a linear map, so that only what is listed here is learned.

Shapes: n tokens, d hidden size of the large model, w width of the router, E experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from engines.models.networks.exit_adapter import turned
from engines.models.networks.exits import Past, frozen, scaled

if TYPE_CHECKING:
    from engines.models.parts import Part

WIDTH, HEADS, WIDER = 64, 4, 4
ROUTER = "router."  # before the names of its tensors in a part


class PreGate(nn.Module):
    """x = I scaled(e); x + O attention(x); x + D silu(U x); C x, a norm without weights before each."""

    def __init__(self, d: int, experts: int, w: int = WIDTH) -> None:
        super().__init__()
        shapes = {"I": (w, d), "qkv": (3 * w, w), "O": (w, w), "U": (WIDER * w, w), "D": (w, WIDER * w)}
        for name, (rows, columns) in {**shapes, "C": (experts, w)}.items():
            self.register_parameter(name, nn.Parameter(torch.randn(rows, columns) * columns**-0.5))

    def forward(self, e: Tensor, past: Past | None = None) -> Tensor:
        """Embeddings [n, d] of the tokens from the first one on, or behind those that `past` holds, which then holds
        these too -> logits [n, E]; a row sees the rows before it."""
        begin = past.length if past else 0
        x = scaled(e) @ self.I.T
        q, k, v = (scaled(x) @ self.qkv.T).view(len(x), 3, HEADS, -1).permute(1, 2, 0, 3)  # each [heads, n, w / heads]
        at = torch.arange(begin, begin + len(x), device=x.device)
        q, k = turned(q, at), turned(k, at)
        k, v = past.add(k, v) if past else (k, v)
        sees = torch.arange(k.shape[1], device=x.device) <= at[:, None] if begin else None  # [n, begin + n]
        read = nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], sees, is_causal=sees is None)
        x = x + read[0].transpose(0, 1).reshape(len(x), -1) @ self.O.T
        x = x + nn.functional.silu(scaled(x) @ self.U.T) @ self.D.T
        return scaled(x) @ self.C.T


def router_of(part: Part) -> PreGate:
    """The router of a part, in float32."""
    mine = {name.removeprefix(ROUTER): t.float() for name, t in part.tensors.items() if name.startswith(ROUTER)}
    return frozen(PreGate(mine["I"].shape[1], len(mine["C"]), len(mine["I"])), mine)
