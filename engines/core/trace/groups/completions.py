"""What a helper lists as possible where the text ends."""

from __future__ import annotations

from typing import Literal

from engines.core.trace.base import Count, Index, Record


class Completions(Record):
    """What a helper, such as a static analyser, lists as possible where the text ends, and what the model wanted there.

    `state`: idle (the text does not end where the helper is asked), asked (in this step), open (a name is begun),
    astray (the name that is begun is none of those listed), unknown (it was asked and has no answer, so nothing is held
    to it). `names`: the first of the names that are still possible, `total` of them; `details` says one line on each.
    `written`: what stands of the name before this step.
    `allowed`: tokens that can go on with one of the names; `mass`: their probability together, before any mask.
    `refused`, `refused_probabilities`: the likeliest tokens that cannot. `held`: whether they were masked out. `name`:
    the name that this step completed, `exists`: whether it is listed. `line` and `column` of the place that was asked
    about, from 1 and 0. `source`: who answered; the interval of its work has this lane. `call`: the names are the
    parameters of a call that are free, and not all that may stand there."""

    position: Index
    state: Literal["idle", "asked", "open", "astray", "unknown"]
    names: list[str] = []
    details: list[str] = []
    total: Count = 0
    written: str = ""
    allowed: Count = 0
    mass: float | None = None
    refused: list[Index] = []
    refused_probabilities: list[float] = []
    held: bool = False
    name: str = ""
    exists: bool | None = None
    line: Count = 0
    column: Count = 0
    source: str = ""
    call: bool = False

    def __post_init__(self) -> None:
        if len(self.details) not in (0, len(self.names)) or len(self.names) > self.total:
            raise ValueError(
                f"completions: {len(self.names)} names with {len(self.details)} details do not fit {self.total} in all"
            )
        if len(self.refused) != len(self.refused_probabilities):
            raise ValueError(
                f"completions: {len(self.refused_probabilities)} probabilities for {len(self.refused)} refused tokens"
            )
