"""Statistics that results are told with."""

from __future__ import annotations

import math

Z = 1.96  # 95 %


def wilson(right: int, tried: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), which stays inside 0..1 and does not shrink to a point where all or
    none are right."""
    p, z2 = right / tried, Z * Z / tried
    middle, half = p + z2 / 2, Z * math.sqrt(p * (1 - p) / tried + z2 / (4 * tried))
    return (middle - half) / (1 + z2), (middle + half) / (1 + z2)
