"""A step and a whole trace: one schema for every family, versioned, validated when read, JSON that a browser reads
without a library.

`Trace = header + steps + end`. A step records *facts* about one turn of a decoding loop; a group that a method does not
fill is absent. Derived figures (rates, speed-ups) never stand here, only in `explorer.figures.metrics`. Positions are
absolute: the prompt starts at 0.

Shapes: L positions of the board (prompt included), n rows of a draft tree, k candidates, V vocabulary. Times are
seconds."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from engines.core.trace.base import Count, Record, Seconds
from engines.core.trace.header import End, Header, Piece
from engines.core.trace.reading import check_consistency, decode
from engines.core.trace.step import Step


class Totals(Record):
    """Sums over the steps. `forwards`: calls of all models together; `work_by_role`: rows times layers. Tokens are
    counted as ids emitted before the first end mark; end and padding are apart."""

    forwards: Count
    forwards_by_role: dict[str, Count]
    work_by_role: dict[str, Count]
    tokens_fed: Count
    tokens: Count
    end_tokens: Count
    padding: Count
    masks_left: Count
    model_seconds: Seconds
    method_seconds: Seconds


class Trace(Record):
    """A whole run. `pieces` is the token table: every id that occurs anywhere in the trace."""

    header: Header
    steps: list[Step]
    pieces: list[Piece]
    end: End

    @property
    def text(self) -> str:
        """The generated text up to the first end mark, special tokens left out."""
        return self.end.text

    @property
    def output_ids(self) -> list[int]:
        """All ids after the prompt as the run left them: end marks, padding and remaining masks included."""
        return self.end.output_ids

    @property
    def totals(self) -> Totals:
        """Counts and times summed over the steps."""
        by_role = _summed(step.forwards for step in self.steps)
        ids, ends = self.end.output_ids, set(self.header.eos_ids)
        first_end = next((i for i, token in enumerate(ids) if token in ends), len(ids))
        masks = ids.count(self.header.mask_id) if self.header.mask_id is not None else 0
        body = ids[:first_end]
        return Totals(
            forwards=sum(by_role.values()),
            forwards_by_role=by_role,
            work_by_role=_summed(step.work for step in self.steps),
            tokens_fed=sum(s.tokens_fed for s in self.steps),
            tokens=len(body) - (body.count(self.header.mask_id) if self.header.mask_id is not None else 0),
            end_tokens=int(first_end < len(ids)),
            padding=sum(1 for token in ids[first_end + 1 :] if token != self.header.mask_id),
            masks_left=masks,
            model_seconds=math.fsum(s.model_seconds for s in self.steps),
            method_seconds=math.fsum(s.method_seconds for s in self.steps),
        )

    def to_json(self) -> str:
        """Compact JSON; `Trace.from_json` gives an equal trace back."""
        return msgspec.json.encode(self).decode("utf-8")

    @classmethod
    def from_json(cls, text: str | bytes) -> Trace:
        """Read and validate. Raises TraceError with the place of the first fault; never executes or trusts anything in
        the text."""
        trace = decode(text, cls)
        check_consistency(trace)
        return trace


def _summed(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for count in counts:
        for role, n in count.items():
            sums[role] = sums.get(role, 0) + n
    return sums


read_trace = Trace.from_json
