"""What a film may be at most, one picture of it, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

CLEAR = 255  # the palette's entry that no picture uses
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Caps:
    """What a film may cost: pictures, pictures a second, points of width, pixels of one picture, and seconds in which
    it is drawn and written."""

    frames: int = 900
    rate: float = 25.0
    width: float = 480.0
    pixels: int = 2_000_000
    seconds: float = 900.0


@dataclass(frozen=True)
class Shot:
    """One picture: when it appears and how long it stands (seconds of film), and the place on the clock that it
    shows."""

    begin: float
    stand: float
    x: float


@dataclass(frozen=True)
class Report:
    """What was made: pictures, seconds of film before the pause, each run's own seconds of film, and pixels."""

    frames: int
    seconds: float
    runs: tuple[float, ...]
    size: tuple[int, int]
