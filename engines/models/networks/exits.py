"""What makes an early exit speak: a linear map, or a small adapter with attention (`networks/exit_adapter.py`), from
the stream behind a few layers to the state that the output head reads. Both are parts of a model, an entry for each
exit.

Shapes: n rows, m rows before them, d hidden size, H heads of size e."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engines.core.errors import UserError
from engines.core.lazy import Tensor, torch

if TYPE_CHECKING:
    from engines.models.parts import Part

EPS = 1e-6


def scaled(h: Tensor) -> Tensor:
    """Rows [n, d] at root mean square 1, in float32: the streams of a model grow from layer to layer."""
    x = h.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)


def frozen(network: Any, state: Mapping[str, Tensor]) -> Any:
    """A network with trained weights, for forwards only."""
    network.load_state_dict(state)
    return network.requires_grad_(False)


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


def exits_of(tensors: Mapping[str, Any]) -> list[int]:
    """The exits that a part was made for, in order."""
    return sorted({int(name.partition(".")[0]) for name in tensors if name[0].isdigit()})


def check_exit(part: Part, exit_layer: int, layers: int) -> None:
    """Raises UserError for an exit behind the last layer but one, or one that the part was not made for."""
    if exit_layer >= layers:
        raise UserError(
            f"exit_layer {exit_layer} was given and {part.base} has {layers} layers; an early exit lies after 1 to "
            f"{layers - 1} of them."
        )
    known = exits_of(part.tensors)
    if exit_layer not in known:
        raise UserError(
            f"{part.name} has no exit after layer {exit_layer}; choose one of {', '.join(map(str, known))}."
        )


def maps_of(part: Part, exits: Sequence[int], layers: int) -> dict[int, Tensor]:
    """The linear maps [d, d] of these exits, in float32. Raises UserError as `check_exit`."""
    for exit_layer in exits:
        check_exit(part, exit_layer, layers)
    return {exit_layer: part.tensors[f"{exit_layer}.R"].float() for exit_layer in exits}
