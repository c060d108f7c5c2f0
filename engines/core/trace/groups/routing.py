"""Experts, layers and memory slots that served positions."""

from typing import Literal

from engines.core.trace.base import Index, Record
from engines.core.trace.packed import Packed


class Routing(Record):
    """Which units served which positions in which layers of one model, packed, so that a real mixture stays small.

    `chosen`: whole numbers [positions, layers, k], -1 where fewer than k units served. `weights`: their shares, of the
    same shape, or none. `units`: how many there are to choose from in a layer, 0 where that is not known. `kind`
    device: on which device each position is; under the role "experts" the positions are the numbers of experts. `kind`
    memory: crossings row * K + column of the keys of a memory, their weights of either sign; under the roles "rows" and
    "columns" the keys whose crossings were candidates.
    """

    kind: Literal["expert", "layer", "memory", "device"]
    positions: list[Index]
    layers: list[int]
    chosen: Packed
    weights: Packed | None = None
    units: Index = 0
    role: str = ""

    def __post_init__(self) -> None:
        shape = self.chosen.shape
        if shape[:2] != [len(self.positions), len(self.layers)] or len(shape) != 3:
            raise ValueError(
                f"routing: the chosen units have the shape {shape}, which does not fit {len(self.positions)} positions "
                f"and {len(self.layers)} layers"
            )
        if self.chosen.dtype not in ("u2", "i4"):
            raise ValueError(f"routing: units are whole numbers, not {self.chosen.dtype}")
        if self.weights is not None and self.weights.shape != shape:
            raise ValueError(f"routing: weights of shape {self.weights.shape} do not fit units of shape {shape}")
