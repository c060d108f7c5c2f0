"""Films of runs, in measured or scaled time: a GIF by Pillow, an MP4 with the extra `video`. Every run keeps its own
length: the shorter one ends, says so and stands still. A picture shows only what had happened by its time.

    data, report = animation([a, b], format="gif", clock="seconds", speed=0.5)
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from time import monotonic
from typing import Any

from engines import Trace, UserError
from explorer.export import look, raster
from explorer.export.drawing import Drawing
from explorer.export.figures import checked_clock, columns_for
from explorer.export.film_files import Caps, Progress, Report, Shot, write_gif, write_mp4
from explorer.export.overview import Scale, check_cells, overview, shared_scale
from explorer.export.playback import Playback, check_clock
from explorer.export.trees import MAX_NODES, ROW, folded, place, tree_board, tree_nodes, tree_words
from explorer.export.views import SMALL, grid, heading, names, span_kinds, token_board
from explorer.figures.calls import in_words, many, target_role
from explorer.figures.clock import Clock

FILM_VIEWS = ("step", "board", "tree")
WHOLE = 12.0  # seconds for all of the work, whose size differs a thousandfold from model to model, as in the player
RATES = {"steps": 6.0, "forwards": 6.0, "seconds": 1.0}  # units a second at speed 1, as the player has them
TICK = 0.1  # seconds of film between two pictures in which only the clock moves
PAUSE = 2.0  # seconds that the last picture stands before the film begins again
MIN_SPEED, MAX_SPEED = 0.01, 100.0
MAX_SECONDS = 300.0
MARGIN, GAP = 8.0, 16.0


def animation(
    traces: Trace | Iterable[Trace],
    *,
    format: str = "gif",
    view: str = "step",
    clock: str = "seconds",
    speed: float = 1.0,
    dpi: int = 144,
    caps: Caps | None = None,
    progress: Progress = lambda done, total: None,
) -> tuple[bytes, Report]:
    """A film of up to four traces as bytes, and what it is. Raises UserError.

    clock: seconds (measured, real time at speed 1), forwards or steps (six a second at speed 1). view: step (tokens),
    board (all steps, growing) or tree."""
    several = [traces] if isinstance(traces, Trace) else list(traces)
    if format not in ("gif", "mp4"):
        raise UserError(f"format={str(format)[:20]} is not allowed; choose gif or mp4.")
    caps = caps or Caps()
    stage = Stage(several, view, checked_clock(clock), checked_speed(speed), caps)
    shots = plan([run.axes[stage.clock] for run in stage.runs], stage.rate, caps)
    size = stage.pixels(dpi)
    pictures = in_time((stage.picture(shot.x, dpi, size) for shot in shots), len(shots), caps.seconds)
    data = (write_gif if format == "gif" else write_mp4)(pictures, shots, size, caps, progress)
    ends = tuple(run.end(stage.clock) / stage.rate for run in stage.runs)
    return data, Report(len(shots), max(ends), ends, size)


def in_time(pictures: Iterator[Any], count: int, seconds: float) -> Iterator[Any]:
    """The pictures, as long as there is time; what takes them works meanwhile. Raises UserError."""
    until = monotonic() + seconds
    for number, picture in enumerate(pictures):
        if monotonic() > until:
            raise UserError(
                f"the film was not finished: {number} of its {count} pictures were drawn in {seconds:g} seconds, which "
                "is as long as one may take here. Choose fewer or shorter runs."
            )
        yield picture


def checked_speed(speed: float) -> float:
    """A speed that a film can have. Raises UserError."""
    if isinstance(speed, bool) or not isinstance(speed, (int, float)) or not MIN_SPEED <= speed <= MAX_SPEED:
        raise UserError(
            f"speed={str(speed)[:20]} is not allowed; give a number from {MIN_SPEED:g} to {MAX_SPEED:g} (0.5 is half "
            "as fast as measured)."
        )
    return float(speed)


def plan(axes: Sequence[Sequence[float]], rate: float, caps: Caps) -> list[Shot]:
    """When which place of the clock is shown. A picture appears when a step ends in any run, or later where pictures
    would follow too fast; never before.

    axes: where each run's steps end on the clock; rate: clock units per second of film. Raises UserError for a film
    that would be too long."""
    end = max(axis[-1] for axis in axes) / rate
    if end > MAX_SECONDS:
        raise UserError(
            f"the film would be {end:.0f} seconds long; at most {MAX_SECONDS:.0f} are made. Choose a speed "
            f"{end / 60:.2g} times as great."
        )
    steps = sorted({place / rate for axis in axes for place in axis[1:]} | {end})
    least = max(1 / caps.rate, end / caps.frames)
    ticks = [TICK * n for n in range(1, int(end / TICK) + 1)] if end / TICK + len(steps) < caps.frames else []
    times, final = [0.0], max(end, least)
    for time in sorted({*steps, *ticks}):
        if time > times[-1]:  # one that came too soon after the last picture waits for its turn
            times.append(max(time, times[-1] + least))
    while len(times) > 1 and times[-1] > final - least:
        times.pop()
    times.append(final)
    stands = [b - a for a, b in pairwise(times)] + [PAUSE]
    return [Shot(time, stand, time * rate) for time, stand in zip(times, stands, strict=True)]


class Stage:
    """The layout of a film: the same places in every picture."""

    def __init__(self, traces: Sequence[Trace], view: str, clock: Clock, speed: float, caps: Caps) -> None:
        if view not in FILM_VIEWS:
            raise UserError(f"view={str(view)[:20]} is not allowed in a film; choose {', '.join(FILM_VIEWS)}.")
        if not 1 <= len(traces) <= 4:
            raise UserError(f"{len(traces)} traces do not make a film; give 1 to 4.")
        self.runs = [Playback(trace) for trace in traces]
        self.view, self.clock, self.speed, self.caps = view, clock, speed, caps
        check_cells(self.runs, view)
        self.names = names(self.runs)
        if clock == "work":
            check_clock(self.runs, clock)
        self.rate = speed * RATES.get(clock, max(run.axes[clock][-1] for run in self.runs) / WHOLE)
        if any(not run.length for run in self.runs):
            raise UserError("a trace has no steps; there is nothing to play.")
        if view == "tree" and not all(any(step.tree for step in trace.steps) for trace in traces):
            raise UserError("a run has no draft trees; choose the view step or board.")
        self.width = caps.width if len(self.runs) > 1 else min(caps.width, 360.0)
        self.columns = columns_for(self.runs, view, self.width)
        self.panel = (self.width - 2 * MARGIN - GAP * (self.columns - 1)) / self.columns
        self.scale = shared_scale(self.runs, clock, self.panel) if view == "board" else None
        self.deep = [self._deep(run) for run in self.runs]
        rows = [max(self.deep[i : i + self.columns]) for i in range(0, len(self.runs), self.columns)]
        self.tops = [MARGIN + 22 + sum(rows[:n]) + 48 * n for n in range(len(rows))]
        self.height = self.tops[-1] + rows[-1] + 48 + 14
        if self.height > 1400:
            raise UserError(
                f"a picture of this film would be {self.height / 72:.0f} inches high; choose the view board, or a "
                "shorter run."
            )

    def _deep(self, run: Playback) -> float:
        if self.scale:
            scratch = Drawing(self.width, 0)
            return overview(scratch, run, run.length, 0, 0, self.panel, self.scale)
        if self.view == "tree":
            trees = [folded(nodes) for t in range(1, run.length + 1) if (nodes := tree_nodes(run, t))]
            return max(min(place(nodes)[1], MAX_NODES) for nodes in trees) * ROW + 2
        return grid(run, self.panel, 7.0, len(span_kinds(run))).height

    def pixels(self, dpi: float) -> tuple[int, int]:
        """Width and height of a picture, both even. Raises UserError where it is larger than the cap."""
        if isinstance(dpi, bool) or not isinstance(dpi, (int, float)) or not 50 <= dpi <= 600:
            raise UserError(f"dpi={str(dpi)[:20]} is not allowed for a film; give a number from 50 to 600.")
        w, h = (2 * math.ceil(points * dpi / 144) for points in (self.width, self.height))
        if w * h > self.caps.pixels:
            raise UserError(
                f"a picture would have {w} x {h} pixels; at most {self.caps.pixels:,} in all are made. Choose fewer "
                "dots per inch or fewer runs."
            )
        return w, h

    def drawing(self, x: float) -> Drawing:
        """The picture at a place of the clock."""
        d = Drawing(self.width, self.height, "Decoding Explorer")
        self._clock(d, x)
        for i, run in enumerate(self.runs):
            row = i // self.columns
            deep = max(self.deep[row * self.columns : (row + 1) * self.columns])
            self._run(d, run, self.names[i], x, MARGIN + (i % self.columns) * (self.panel + GAP), self.tops[row], deep)
        return d

    def picture(self, x: float, dpi: float, size: tuple[int, int]) -> Any:
        """The same as an image of Pillow."""
        return raster.image(self.drawing(x), dpi, size=size)

    def _clock(self, d: Drawing, x: float) -> None:
        end = max(run.end(self.clock) for run in self.runs)
        shown = min(x, end)
        label = f"{shown:.2f} s" if self.clock == "seconds" else f"{math.floor(shown + 1e-6)} {self.clock}"
        d.text(MARGIN, MARGIN + 11, label, 12, look.surface("text"), "bold")
        pace = "measured time" if self.clock == "seconds" else f"clock: {self.clock}"
        pace += f", speed {self.speed:g}×"
        d.text(self.width - MARGIN, MARGIN + 10, pace, SMALL, look.surface("muted"), anchor="end")
        top, whole = MARGIN + 15, self.width - 2 * MARGIN
        d.box(MARGIN, top, whole, 2.4, look.surface("raised"), radius=1)
        if end and shown > 0:
            d.box(MARGIN, top, whole * shown / end, 2.4, look.surface("accent"), radius=1)
        for run in self.runs:
            at = MARGIN + whole * run.end(self.clock) / end if end else MARGIN
            d.line([(at - 0.5, top - 2), (at - 0.5, top + 4.4)], look.surface("text"), 1)

    def _run(self, d: Drawing, run: Playback, name: str, x: float, left: float, top: float, deep: float) -> None:
        t, over = run.cursor(self.clock, x), x >= run.end(self.clock) - 1e-9
        heading(d, run, name, left, top, self.panel - (62 if over else 0))
        if over:
            end = run.end(self.clock)
            label = f"ended at {end:.2f} s" if self.clock == "seconds" else f"ended at {end:g}"
            d.box(left + self.panel - 58, top, 58, 10.5, look.surface("text"), radius=2)
            d.text(left + self.panel - 29, top + 7.5, label, SMALL, look.surface("panel"), anchor="middle", room=56)
        seconds = run.axes["seconds"][t]
        calls = in_words(run.trace.steps[:t], target_role(run.trace))
        made = "" if "forwards" in run.trace.header.missing else f"{calls} · "
        counted = f"{many(run.tokens(t), 'token')} · {made}step {t} of {run.length} · {seconds:.3f} s"
        d.text(left, top + 27, counted, SMALL, look.surface("text"), room=self.panel)
        self._board(d, run, t, left, top + 33)
        note = run.trace.steps[t - 1].note if t else "Before the first step."
        note = tree_words(run, t) if self.view == "tree" else note
        d.text(left, top + 33 + deep + 6, note, SMALL, look.surface("muted"), room=self.panel)

    def _board(self, d: Drawing, run: Playback, t: int, left: float, top: float) -> None:
        if isinstance(self.scale, Scale):
            overview(d, run, t, left, top, self.panel, self.scale)
        elif self.view == "tree":
            tree_board(d, run, t, left, top, self.panel)
        else:
            token_board(d, run, t, left, top, self.panel, 7.0, span_kinds(run))
