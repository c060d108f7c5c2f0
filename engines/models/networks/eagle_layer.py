"""The draft layer of EAGLE: one decoder layer that foresees the next hidden state from a token and the state before it
(arXiv 2401.15077, section 4.1; SafeAILab/EAGLE, model/cnets1.py).

Shapes: n rows, m rows before them, d hidden size, H heads of size e, f channels of the feed-forward part; ... for rows
of a batch, which has no past."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from engines.models.networks.exit_adapter import turned
from engines.models.networks.exits import Past, frozen, scaled

if TYPE_CHECKING:
    from engines.models.parts import Part


class EagleLayer(nn.Module):
    """x = fc [s e; h] + b, then x + O attention(x), then x + down(SiLU(gate) * up) of the normed rows: a decoder layer,
    whose attention reads its rows at root mean square 1 (released: as they are). O and down are 0 at the start, so a
    ridge regression that fills fc begins it. s brings the embeddings to a root mean square of 1. The result is on the
    scale of the model's last norm."""

    def __init__(self, d: int, f: int, s: float = 1.0) -> None:
        super().__init__()
        self.fc, self.bias = nn.Parameter(torch.zeros(d, 2 * d)), nn.Parameter(torch.zeros(d))
        self.qkv, self.O = nn.Parameter(torch.randn(3 * d, d) * d**-0.5), nn.Parameter(torch.zeros(d, d))
        self.g = nn.Parameter(torch.ones(d))
        self.gate_up = nn.Parameter(torch.randn(2 * f, d) * d**-0.5)
        self.down = nn.Parameter(torch.zeros(d, f))
        self.register_buffer("s", torch.tensor([float(s)]))
        self.heads = max(2, d // 64)

    def inputs(self, e: Tensor, h: Tensor) -> Tensor:
        """Embeddings and states [n, d] side by side, [n, 2 d]."""
        return torch.cat([e.float() * self.get_buffer("s"), h.float()], -1)

    def forward(
        self, e: Tensor, h: Tensor, past: Past | None = None, at: Tensor | None = None, sees: Tensor | None = None
    ) -> Tensor:
        """Rows of a token's embedding e [n, d] and the state h [n, d] one place before it -> the state [n, d] at that
        token, as far as it can be foreseen. past: the rows before. at [n]: positions; sees [n, m + n]: which row sees
        which; by default a chain behind those before."""
        return self.through(self.inputs(e, h) @ self.fc.T + self.bias, past, at, sees)

    def through(
        self, x: Tensor, past: Past | None = None, at: Tensor | None = None, sees: Tensor | None = None
    ) -> Tensor:
        """The decoder layer on rows x [..., n, d]."""
        past, n = past or Past(), x.shape[-2]
        m = past.length
        at = torch.arange(m, m + n, device=x.device) if at is None else at
        q, k, v = self.split(x)
        k, v = past.add(turned(k, at), v)
        if sees is None:
            sees = torch.arange(m + n, device=x.device)[None] <= m + torch.arange(n, device=x.device)[:, None]
        x = x + self.read(turned(q, at), k, v, sees).transpose(-3, -2).flatten(-2) @ self.O.T
        gate, up = ((scaled(x) * self.g) @ self.gate_up.T).chunk(2, -1)
        return x + (nn.functional.silu(gate) * up) @ self.down.T

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values of rows, each [..., H, n, e], before they are turned."""
        return tuple((scaled(x) @ self.qkv.T).unflatten(-1, (3, self.heads, -1)).movedim(-3, 0).transpose(-3, -2))

    def read(self, q: Tensor, k: Tensor, v: Tensor, sees: Tensor) -> Tensor:
        """What queries [H, n, e] find in keys and values [H, m + n, e]."""
        return nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=sees)[0]


def layer_of(part: Part) -> EagleLayer:
    """The layer of a part, in float32."""
    state = {name: t.float() for name, t in part.tensors.items() if name not in ("accuracy", "vocabulary")}
    return frozen(EagleLayer(len(state["bias"]), state["down"].shape[1]), state)
