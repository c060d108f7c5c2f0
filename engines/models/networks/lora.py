"""Low-rank adapters for the linear maps of a frozen model (LoRA, arXiv 2106.09685), with the learned embedding of a pad
token: what a fine-tuning for lexical units keeps (arXiv 2405.15208 tunes the whole model).

Shapes: n rows, r rank, d hidden size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from engines.models.networks.exits import frozen

if TYPE_CHECKING:
    from engines.models.parts import Part

MAPS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class LoRA(nn.Module):
    """W x becomes W x + B A x for every map of every layer; A [r, in] random, B [out, r] zero at the start, so that the
    model begins as it is. pad [d] is the embedding that means "say what stands here"."""

    def __init__(self, shapes: Mapping[str, tuple[int, int]], pad: Tensor, r: int) -> None:
        """shapes: "layer-map" -> (out, in)."""
        super().__init__()
        self.pad = nn.Parameter(pad.clone())
        self.A = nn.ParameterDict({key: nn.Parameter(torch.randn(r, n) * n**-0.5) for key, (_, n) in shapes.items()})
        self.B = nn.ParameterDict({key: nn.Parameter(torch.zeros(m, r)) for key, (m, _) in shapes.items()})

    def added(self, layer: int, name: str, x: Tensor) -> Tensor:
        """B A x of rows [n, in]."""
        key = f"{layer}-{name}"
        return (x.float() @ self.A[key].T) @ self.B[key].T


def lora_of(part: Part) -> LoRA:
    """The adapters of a part, in float32."""
    state = {name: t.float() for name, t in part.tensors.items() if name == "pad" or name[:2] in ("A.", "B.")}
    sides = {name[2:]: (len(state[f"B.{name[2:]}"]), t.shape[1]) for name, t in state.items() if name[:2] == "A."}
    rank = next(t.shape[0] for name, t in state.items() if name[:2] == "A.")
    return frozen(LoRA(sides, state["pad"], rank), state)
