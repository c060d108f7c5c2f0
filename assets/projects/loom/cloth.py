"""A piece of cloth on a loom."""

from yarn import Skein, Tint


class Cloth:
    """Rows of weft between threads of warp."""

    def __init__(self, warp_width: int) -> None:
        self._warp = warp_width
        self._picks: list[Skein] = []

    def throw_pick(self, skein: Skein) -> "Cloth":
        """Pass the shuttle once."""
        self._picks.append(skein)
        return self

    def unpick_last(self) -> Skein:
        """Take the last row out again."""
        return self._picks.pop()

    def selvedge_tint(self) -> Tint:
        """The colour at the edge."""
        return self._picks[-1].tint

    def ells_long(self) -> float:
        """How long the piece is."""
        return len(self._picks) / 40
