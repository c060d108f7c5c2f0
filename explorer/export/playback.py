"""A trace as a picture reads it: the board after any number of steps, and how far each clock has come. The player keeps
the same rules in run.js."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, takewhile
from typing import get_args

import numpy as np

from engines import Step, Trace, UserError
from explorer.figures.calls import target_role
from explorer.figures.clock import Clock, cost
from explorer.figures.history import RANDOM, history, moved

CLOCKS: tuple[Clock, ...] = get_args(Clock)
CAUSES = frozenset({"accepted", "correction", "bonus", "forced", "changed", "settled"})
FIELDS: dict[Clock, str] = {"forwards": "forwards", "seconds": "model_seconds", "work": "work"}
OPEN = "▢"  # a place that nothing was written to yet
TIE = 1e-9  # a step that cost nothing has happened with the one before it


def characters(codes: str) -> str:
    """What bytes in hex, such as "0xE2 0x98 0x83", stand for; bytes that make no character stay bytes."""
    text = bytes(int(code, 16) for code in codes.split()).decode("utf-8", "surrogateescape")
    return "".join(f"⟨0x{ord(c) - 0xDC00:02X}⟩" if "\udc80" <= c <= "\udcff" else c for c in text)


def check_clock(runs: Sequence[Playback], clock: Clock) -> None:
    """Raises UserError where a run does not say where its steps are on this clock."""
    without = [run.header.title for run in runs if FIELDS.get(clock) in run.header.missing]
    if without:
        raise UserError(
            f"'{without[0][:60]}' recorded nothing for clock={clock} (it was made before that was, or by "
            "another program); choose another clock."
        )


@dataclass(frozen=True)
class Cell:
    """A place of the board: its token (None while open), its state by the theme's names, and the step that wrote it
    (-1: none did)."""

    position: int
    token: int | None
    state: str
    step: int


class Playback:
    """A trace with its cursor: t counts finished steps, 0 is the prompt alone."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.header = trace, trace.header
        self.pieces = {piece.id: piece for piece in trace.pieces}
        self.ends = set(trace.header.eos_ids)
        self.start = len(trace.header.prompt_ids)
        target = target_role(trace)
        self.axes: dict[Clock, list[float]] = {
            clock: [0.0, *accumulate(float(cost(step, clock, target)) for step in trace.steps)] for clock in CLOCKS
        }
        if self.axes["seconds"][-1] < TIE:  # less than a nanosecond in all is no time that can be drawn
            self.axes["seconds"] = [0.0] * len(self.axes["seconds"])
        self._history = history(trace)
        self.widths = self._history.widths
        self.widest = max(self.widths)  # positions of the longest board, prompt included
        self.ranges: dict[str, tuple[float, float]] = {}  # of a score over the whole run; 0 and 1 of a probability
        for step in trace.steps:
            self._range(step)

    def _range(self, step: Step) -> None:
        for lane in step.scores:
            if lane.unit == "probability":
                self.ranges[lane.name] = (0.0, 1.0)
                continue
            values = lane.values.array()
            known = values[np.isfinite(values)]
            if known.size:
                low, high = self.ranges.get(lane.name, (math.inf, -math.inf))
                self.ranges[lane.name] = (min(low, float(known.min())), max(high, float(known.max())))

    @property
    def length(self) -> int:
        """Steps."""
        return len(self.trace.steps)

    @property
    def lane(self) -> str | None:
        """The score that colours open cells: confidence where there is one, else the first."""
        return "confidence" if "confidence" in self.ranges else next(iter(self.ranges), None)

    def end(self, clock: Clock) -> float:
        """Where the run ends on a clock."""
        return self.axes[clock][-1]

    def cursor(self, clock: Clock, x: float) -> int:
        """How many steps are done at place x."""
        return max(0, bisect_right(self.axes[clock], x + TIE) - 1)

    def board(self, t: int) -> list[Cell]:
        """The cells behind the prompt after t steps."""
        cells, ended = [], False
        for position in range(self.start, self.widths[t]):
            cell = self._history.cell(position, t)
            write = self._last(cell, t)
            raw = write[1] if write else self.header.mask_id
            token = None if raw is None or raw < 0 or raw == self.header.mask_id else raw
            ended = ended or raw in self.ends
            state = self._state(token is None, write, t, ended)
            if state == "remasked" and write and self._history.inserted.get(cell) == write[0]:
                state = "masked"  # nothing was there to be hidden
            cells.append(Cell(position, token, state, write[0] if write else -1))
        return cells

    def _last(self, cell: int, t: int) -> tuple[int, int, str] | None:
        writes = self._history.writes.get(cell)
        if not writes:
            return None
        at = bisect_right(writes, t - 1, key=lambda write: write[0])
        return writes[at - 1] if at else None

    @staticmethod
    def _state(open_: bool, write: tuple[int, int, str] | None, t: int, ended: bool) -> str:
        now = write is not None and write[0] == t - 1
        if open_ and write and write[2] in RANDOM:
            return write[2] if now else "noise"
        if open_:
            return "remasked" if now else "masked"
        if write is None:
            return "prompt"
        if now and write[2] != "padding":
            return write[2] if write[2] in CAUSES else "new"
        return "forced" if write[2] == "forced" else "eos" if ended else "old"

    def tokens(self, t: int) -> int:
        """Tokens gained after t steps: ids after the prompt and before the first end mark, masks not counted."""
        count = 0
        for token in self.trace.output_ids if t == self.length else [cell.token for cell in self.board(t)]:
            if token in self.ends:
                break
            count += token is not None and token >= 0 and token != self.header.mask_id
        return count

    def text(self, t: int) -> str:
        """The text that stood after t steps, up to the first end mark; places still open are counted."""
        if t == self.length:
            return self.trace.text
        parts: list[str] = []
        standing = takewhile(lambda cell: cell.token not in self.ends, self.board(t))
        for is_open, cells in groupby(standing, lambda cell: cell.token is None):
            held = list(cells)
            if is_open:
                parts.append(f" {OPEN} " if len(held) == 1 else f" {OPEN}×{len(held)} ")
            else:
                tokens = [cell.token for cell in held if cell.token is not None]
                for broken, some in groupby(tokens, lambda token: self.kind_of(token) == "byte"):
                    words = [self.text_of(token) for token in some if self.kind_of(token) != "special"]
                    parts += [characters(" ".join(words))] if broken else words
        return "".join(parts).strip()

    def levels(self, t: int) -> dict[int, float]:
        """0..1 by position: the score of the step that led to t, for colour; positions without a value are left out."""
        if t == 0 or self.lane is None:
            return {}
        lane = next((lane for lane in self.trace.steps[t - 1].scores if lane.name == self.lane), None)
        if lane is None:
            return {}
        low, high = self.ranges[self.lane]
        values = lane.values.array().ravel()
        part = np.clip((values - low) / (high - low), 0, 1) if high > low else np.full(values.shape, 0.5)
        known = {lane.start + i: float(value) for i, value in enumerate(part) if math.isfinite(value)}
        places = {at: moved(self.trace.steps[t - 1], at) for at in known}
        return {place: known[at] for at, place in places.items() if place is not None}

    def text_of(self, token: int) -> str:
        """What a token looks like; an id without an entry is named."""
        piece = self.pieces.get(token)
        return piece.text if piece else f"token {token}"

    def kind_of(self, token: int) -> str:
        """text, special or byte."""
        piece = self.pieces.get(token)
        return piece.kind if piece else "special"

    @property
    def models(self) -> str:
        """The names of the models."""
        return " + ".join(model.name for model in self.header.models)
