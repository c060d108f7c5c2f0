"""What a verified chunk reads of a mixture: the union of its rows' experts in each layer, in experts and in bytes.

Letters: n rows, N experts of a layer, U the union."""

from collections.abc import Sequence
from typing import NamedTuple

from engines.core.kinds.moe import Mixture
from engines.kit import Interval, Routing, Tensor, bytes_held, torch


class Reading(NamedTuple):
    """A chunk's reading: experts that some row uses, mean over the layers, as a share too; the mean share that one row
    uses; bytes of the experts that are read and of all."""

    union: float
    union_share: float
    row_share: float
    bytes_read: int
    bytes_dense: int


def pattern(routed: Routing) -> Tensor:
    """Boolean [n, N]: which experts are on for which row."""
    n, N = routed.logits.shape
    on = torch.zeros(n, N + 1, dtype=torch.bool, device=routed.experts.device)
    at = torch.where(routed.experts < 0, N, routed.experts).long()
    return on.scatter_(1, at, True)[:, :N]


def reading(routings: Sequence[Routing], mixtures: Sequence[Mixture]) -> Reading:
    """What was read in the layers of a forward, of which each router decided in `routings`."""
    patterns = [pattern(routing) for routing in routings]
    unions = [int(on.any(0).sum()) for on in patterns]
    size = {m.layer: m.expert_bytes for m in mixtures}
    sizes = [size[routing.layer] for routing in routings]
    shares = [U / on.shape[1] for U, on in zip(unions, patterns, strict=True)]
    L = max(1, len(routings))
    return Reading(
        sum(unions) / L,
        sum(shares) / L,
        sum(float(on.float().mean()) for on in patterns) / L,
        sum(U * b for U, b in zip(unions, sizes, strict=True)),
        sum(on.shape[1] * b for on, b in zip(patterns, sizes, strict=True)),
    )


def arena(r: Reading) -> list[Interval]:
    """The bytes of all experts, those that are read first."""
    return [
        bytes_held("experts", "read", 0, r.bytes_read),
        bytes_held("experts", "left alone", r.bytes_read, r.bytes_dense),
    ]
