"""What two readers of a text give the same drafted tokens, as a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from engines.core.recording import floats
from engines.core.trace import Count, Index, Packed, PackedTokens, Record, pack_exact

if TYPE_CHECKING:
    from torch import Tensor


class Opinions(Record):
    """What two readers of a text give the same tokens.

    Some tokens behind drafted ones, and what two readers give them, so that a rule that mixes the readers can be
    tried again with another strength.

    `rows` [n]: rows of the step's tree that are tested there. `tokens` [n, k]: first the drafted token, then others in
    the order of what the second reader gives them; -1 fills up. `first`, `second` [n, k]: probabilities, in the order
    of `names`; together they may be less than 1, for not all tokens are listed. `unlisted` [n]: tokens that the rule
    moves and the list has no room for. `rule`: the numbers of the rule that was used, by name."""

    rows: list[Index]
    tokens: PackedTokens
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


def pack_opinions(
    listed: Sequence[Sequence[int]],
    first: Sequence[Tensor],
    second: Sequence[Tensor],
    names: Sequence[str],
    unlisted: Sequence[int],
    rule: Mapping[str, float],
) -> Opinions | None:
    """What two readers, distributions [V] of each drafted row, give its listed tokens, the drafted one first; None
    where nothing was drafted. The rows are those of a chain behind the root."""
    if not listed:
        return None
    k = max(map(len, listed))
    tokens = np.array([[*row, *[-1] * (k - len(row))] for row in listed])

    def shares(reader: Sequence[Tensor]) -> Packed:
        rows = [np.pad(floats(p[list(row)]), (0, k - len(row))) for p, row in zip(reader, listed, strict=True)]
        return pack_exact(np.stack(rows))

    rows = list(range(1, len(listed) + 1))
    return Opinions(rows, pack_exact(tokens), shares(first), shares(second), list(names), list(unlisted), dict(rule))
