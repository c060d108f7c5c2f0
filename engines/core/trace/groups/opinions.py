"""What two readers of a text give the same tokens."""

from __future__ import annotations

from engines.core.trace.base import Count, Index, Record
from engines.core.trace.packed import Packed


class Opinions(Record):
    """Some tokens behind drafted ones, and what two readers give them, so that a rule that mixes the readers can be
    tried again with another strength.

    `rows` [n]: rows of the step's tree that are tested there. `tokens` [n, k]: first the drafted token, then others in
    the order of what the second reader gives them; -1 fills up. `first`, `second` [n, k]: probabilities, in the order
    of `names`; together they may be less than 1, for not all tokens are listed. `unlisted` [n]: tokens that the rule
    moves and the list has no room for. `rule`: the numbers of the rule that was used, by name."""

    rows: list[Index]
    tokens: Packed
    first: Packed
    second: Packed
    names: list[str]
    unlisted: list[Count] = []
    rule: dict[str, float] = {}

    def __post_init__(self) -> None:
        shape = self.tokens.shape
        if len(shape) != 2 or shape[0] != len(self.rows) or not shape[1] or len(self.names) != 2:
            raise ValueError(
                f"opinions: tokens of shape {str(shape)[:60]} and {len(self.names)} names for {len(self.rows)} rows of "
                "two readers"
            )
        for packed in (self.first, self.second):
            if packed.shape != shape or packed.dtype != "f4":
                raise ValueError(f"opinions: {packed.dtype} of shape {str(packed.shape)[:60]} are no probabilities")
        if len(self.unlisted) not in (0, len(self.rows)):
            raise ValueError(f"opinions: {len(self.unlisted)} counts of unlisted tokens for {len(self.rows)} rows")
        if self.tokens.dtype not in ("u2", "i4"):
            raise ValueError(f"opinions: tokens are whole numbers, not {self.tokens.dtype}")
