"""Linear layers in bfloat16 for the processor at hand. With AVX-512: weights laid out once for oneDNN's kernels, so
that forwards of few rows do not copy the weights at every call. Without it: products of several rows in float32.

torch keeps a linear layer's weight row by row; oneDNN wants it in blocks and lays it out anew in every call. For few
rows that is a good part of the time, for 256 nearly nothing; `python -m tests.engines.models.packing` measures it. The
numbers are the same to the bit on the processors that were tried.

A processor without instructions for bfloat16 (AVX2) takes the rows one by one and turns every number of the weights
into float32 for each of them. Once for all rows is faster from three rows on, with 256 rows five to eight times
(measured on an AMD EPYC, one thread, SmolLM2's layers). The inputs are the same, sums are in float32 as before, and the
result is rounded to bfloat16 once, as before."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from engines.core.machine import computes_bfloat16

ROWS = 3  # from so many on float32 is faster
BLOCK = 1_048_576  # weights that are turned into float32 at once: they stay in the processor's cache


class PackedLinear(nn.Module):
    """A linear layer whose weight is kept in oneDNN's own layout. For forwards only: it cannot be trained or saved."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), 1)
        self.bias = linear.bias

    @property
    def weight(self) -> Tensor:
        """The weight [out, in], unpacked: a copy."""
        return self._packed.to_dense()

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] to [..., out]."""
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")


class WidenedLinear(nn.Linear):
    """A linear layer in bfloat16 whose products of several rows are made in float32, block by block of the weight."""

    @classmethod
    def of(cls, layer: nn.Linear) -> WidenedLinear:
        """The same layer, its weight shared."""
        wide = cls(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        wide.weight, wide.bias = layer.weight, layer.bias
        return wide

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] to [..., out]."""
        if x.numel() < ROWS * self.in_features or x.dtype != torch.bfloat16:
            return super().forward(x)
        rows, size = x.float(), max(1, BLOCK // self.in_features)
        blocks = self.weight.split(size)
        shifts = [None] * len(blocks) if self.bias is None else [part.float() for part in self.bias.split(size)]
        parts = zip(blocks, shifts, strict=True)
        return torch.cat([nn.functional.linear(rows, block.float(), b).to(x.dtype) for block, b in parts], -1)


def can_pack() -> bool:
    """Whether this build of torch and this processor have the kernels (an x86 processor with AVX-512 or better;
    otherwise nothing is gained)."""
    has_ops = hasattr(torch.ops.mkldnn, "_reorder_linear_weight") and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return has_ops and torch.backends.mkldnn.is_available() and "AVX512" in torch.backends.cpu.get_cpu_capability()


def pack_linear(layer: nn.Module) -> nn.Module:
    """A plain linear layer that lies on the CPU in bfloat16 as a packed or a widened one; any other module as it is."""
    plain = type(layer) is nn.Linear and layer.weight.dtype == torch.bfloat16 and layer.weight.device.type == "cpu"
    if not plain or (computes_bfloat16() and not can_pack()):
        return layer
    return PackedLinear(layer) if can_pack() else WidenedLinear.of(layer)  # type: ignore[arg-type]


def pack(network: Any) -> Any:
    """Replace every plain linear layer that lies on the CPU in bfloat16 as `pack_linear` does, in place; others stay.
    Where most of the weights were laid out anew, the rest is copied out of the file, of which every page that was read
    would stay in memory as long as one tensor lies there. Returns the network."""
    for parent in list(network.modules()):
        for name, layer in list(parent.named_children()):
            if (packed := pack_linear(layer)) is not layer:
                setattr(parent, name, packed)
    moved = sum(
        module.in_features * module.out_features for module in network.modules() if isinstance(module, PackedLinear)
    )
    left = [parameter for parameter in network.parameters() if parameter.device.type == "cpu"]
    if moved > sum(
        parameter.numel() for parameter in left
    ):  # of experts in one tensor the copy would be the larger part
        for parameter in left:
            parameter.data = parameter.data.clone()
    return network
