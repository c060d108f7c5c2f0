"""The adapter of an early exit: one layer of attention from the stream behind a few layers to the state that the output
head reads.

Shapes: n rows, m rows before them, d hidden size, H heads of size e."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from engines.models.networks.exits import Past, check_exit, frozen, scaled

if TYPE_CHECKING:
    from engines.models.parts import Part

BASE = 10_000.0


class ExitAdapter(nn.Module):
    """R x + O attention(x) of x = g * scaled(h): one layer of attention with rotary positions and no feed-forward part
    (Kangaroo's adapter, arXiv 2404.18911), with a linear path R in the place of the residual, so that a ridge
    regression can begin it. O is 0 at the start. The result is on the scale of the model's last norm."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.g, self.R = nn.Parameter(torch.ones(d)), nn.Parameter(torch.eye(d))
        self.qkv, self.O = nn.Parameter(torch.randn(3 * d, d) * d**-0.5), nn.Parameter(torch.zeros(d, d))
        self.heads = max(2, d // 64)

    def forward(self, h: Tensor, past: Past | None = None) -> Tensor:
        """Rows h [n, d] of the stream, behind those that `past` holds -> [n, d]; every row sees those before it."""
        past = past or Past()
        x, m = scaled(h) * self.g, past.length
        q, k, v = (x @ self.qkv.T).view(len(x), 3, self.heads, -1).permute(1, 2, 0, 3)  # each [H, n, e]
        at = torch.arange(m, m + len(x), device=h.device)
        k, v = past.add(turned(k, at), v)
        sees = torch.arange(k.shape[1], device=h.device)[None] <= at[:, None]  # [n, m + n]
        read = nn.functional.scaled_dot_product_attention(turned(q, at)[None], k[None], v[None], attn_mask=sees)[0]
        return x @ self.R.T + read.transpose(0, 1).reshape(len(x), -1) @ self.O.T


def turned(x: Tensor, at: Tensor) -> Tensor:
    """x [H, n, e] rotated by the positions `at` [n], the halves of e paired."""
    e = x.shape[-1] // 2
    angle = at[:, None].float() * BASE ** (-torch.arange(e, device=x.device).float() / e)
    a, b, cos, sin = x[..., :e], x[..., e:], angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def adapter_of(part: Part, exit_layer: int, layers: int) -> ExitAdapter:
    """The adapter of an exit, in float32. Raises UserError as `check_exit`."""
    check_exit(part, exit_layer, layers)
    mine = {name.partition(".")[2]: t.float() for name, t in part.tensors.items() if name.startswith(f"{exit_layer}.")}
    return frozen(ExitAdapter(len(mine["g"])), mine)
