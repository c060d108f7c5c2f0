"""Weights laid out once for oneDNN's kernels: forwards of few rows in bfloat16 on a CPU without copying the weights at
every call.

torch keeps a linear layer's weight row by row; oneDNN wants it in blocks and lays it out anew in every call. For few
rows that is a good part of the time, for 256 nearly nothing; `python -m tests.engines.models.packing` measures it. The
numbers are the same to the bit on the processors that were tried."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


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
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")
        return out


def can_pack() -> bool:
    """Whether this build of torch and this processor have the kernels (an x86 processor with AVX-512 or better;
    otherwise nothing is gained)."""
    has_ops = hasattr(torch.ops.mkldnn, "_reorder_linear_weight") and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return has_ops and torch.backends.mkldnn.is_available() and "AVX512" in torch.backends.cpu.get_cpu_capability()


def pack_linear(layer: nn.Module) -> nn.Module:
    """A plain linear layer that lies on the CPU in bfloat16 as a packed one; any other module as it is."""
    plain = type(layer) is nn.Linear and layer.weight.dtype == torch.bfloat16 and layer.weight.device.type == "cpu"
    return PackedLinear(layer) if plain and can_pack() else layer  # type: ignore[arg-type]


def pack(network: Any) -> Any:
    """Replace every plain linear layer that lies on the CPU in bfloat16 by a packed one, in place; the others stay.
    Returns the network."""
    for parent in list(network.modules()):
        for name, layer in list(parent.named_children()):
            if (packed := pack_linear(layer)) is not layer:
                setattr(parent, name, packed)
    return network
