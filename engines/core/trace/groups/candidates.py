"""The most likely tokens of a position."""

from engines.core.trace.base import Index, Record
from engines.core.trace.packed import Packed


class Candidates(Record):
    """The k most likely tokens at each position in focus: `tokens` and `probabilities` have shape [len(positions), k],
    best first."""

    positions: list[Index]
    tokens: Packed
    probabilities: Packed

    def __post_init__(self) -> None:
        if (
            self.tokens.shape != self.probabilities.shape
            or not self.tokens.shape
            or self.tokens.shape[0] != len(self.positions)
        ):
            raise ValueError(
                f"candidates: shapes {self.tokens.shape} and {self.probabilities.shape} do not fit "
                f"{len(self.positions)} positions"
            )
        if self.tokens.dtype not in ("u2", "i4"):
            raise ValueError(f"candidates: tokens are whole numbers, not {self.tokens.dtype}")
