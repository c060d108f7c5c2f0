"""What makes an early exit speak: a linear map, or a small adapter with attention, from the stream behind a few layers
to the state that the output head reads. Both are parts of a model, one entry for each exit.

Shapes: n rows, m rows before them, d hidden size, H heads of size e."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from engines.core.errors import UserError

if TYPE_CHECKING:
    from engines.models.parts import Part

EPS, BASE = 1e-6, 10_000.0


def scaled(h: Tensor) -> Tensor:
    """Rows [n, d] at root mean square 1, in float32: the streams of a model grow from layer to layer."""
    x = h.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)


class Past:
    """Keys and values [H, m, e] of the rows that an adapter has read."""

    def __init__(self) -> None:
        self.k: Tensor | None = None
        self.v: Tensor | None = None

    @property
    def length(self) -> int:
        """How many rows it has read."""
        return 0 if self.k is None else int(self.k.shape[1])

    def add(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values, with new ones behind the old."""
        self.k = k if self.k is None else torch.cat([self.k, k], 1)
        self.v = v if self.v is None else torch.cat([self.v, v], 1)
        return self.k, self.v

    def crop(self, length: int) -> None:
        """Forget what stands behind the first `length` rows."""
        if self.k is not None and self.v is not None:
            self.k, self.v = self.k[:, :length], self.v[:, :length]


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
        out: Tensor = x @ self.R.T + read.transpose(0, 1).reshape(len(x), -1) @ self.O.T
        return out


def turned(x: Tensor, at: Tensor) -> Tensor:
    """x [H, n, e] rotated by the positions `at` [n], the halves of e paired."""
    e = x.shape[-1] // 2
    angle = at[:, None].float() * BASE ** (-torch.arange(e, device=x.device).float() / e)
    a, b, cos, sin = x[..., :e], x[..., e:], angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def exits_of(tensors: Mapping[str, Any]) -> list[int]:
    """The exits that a part was made for, in order."""
    return sorted({int(name.partition(".")[0]) for name in tensors if name[0].isdigit()})


def check_exit(part: Part, exit_layer: int, layers: int) -> None:
    """Raises UserError for an exit behind the last layer but one, or one that the part was not made for."""
    if exit_layer >= layers:
        raise UserError(
            f"exit_layer {exit_layer} was given and {part.base} has {layers} layers; an early exit lies behind 1 to "
            f"{layers - 1} of them."
        )
    known = exits_of(part.tensors)
    if exit_layer not in known:
        raise UserError(
            f"{part.name} has no exit behind layer {exit_layer}; choose one of {', '.join(map(str, known))}."
        )


def adapter_of(part: Part, exit_layer: int, layers: int) -> ExitAdapter:
    """The adapter of an exit, in float32. Raises UserError as `check_exit`."""
    check_exit(part, exit_layer, layers)
    mine = {name.partition(".")[2]: t.float() for name, t in part.tensors.items() if name.startswith(f"{exit_layer}.")}
    adapter = ExitAdapter(len(mine["g"]))
    adapter.load_state_dict(mine)
    return adapter.requires_grad_(False)


def maps_of(part: Part, exits: Sequence[int], layers: int) -> dict[int, Tensor]:
    """The linear maps [d, d] of these exits, in float32. Raises UserError as `check_exit`."""
    for exit_layer in exits:
        check_exit(part, exit_layer, layers)
    return {exit_layer: part.tensors[f"{exit_layer}.R"].float() for exit_layer in exits}
