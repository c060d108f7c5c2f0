"""The board figure: all steps of a run at a glance, a row per position and a column per step."""

from collections.abc import Sequence
from dataclasses import dataclass

from engines import UserError
from explorer.export import fonts, look
from explorer.export.drawing import Drawing
from explorer.export.playback import Playback
from explorer.export.views import BOUNDS, MARKED, SMALL, TINY, small_fill, span_kinds, totals
from explorer.figures.clock import Clock

MAX_ROWS = 400  # steps of a board over steps
MAX_CELLS = {"board": 200_000, "step": 20_000}  # of all runs of a picture, by its view
MAX_BRACKETS = 100_000  # cells below which a step's spans lie, of each of them
MAX_KINDS = 64  # of spans in a run: each has its own track and sign
OVERVIEW_HEIGHT = 300.0


@dataclass(frozen=True)
class Scale:
    """What the boards of one figure share, so that they can be compared: the clock, points per unit of it, and points
    per position."""

    clock: Clock
    unit: float
    cell: float


def check_cells(runs: Sequence[Playback], view: str) -> None:
    """Raises UserError for boards with more cells than a picture can show, before one of them is drawn."""
    cells = sum((run.widest - run.start) * (run.length if view == "board" else 1) for run in runs)
    if cells > MAX_CELLS.get(view, cells):
        raise UserError(
            f"the picture would have {cells:,} cells; at most {MAX_CELLS[view]:,} are drawn. Choose fewer traces, "
            "shorter runs or the view curve."
        )
    kinds = max(len(span_kinds(run)) for run in runs)
    steps = [(run, step) for run in runs for step in run.trace.steps]
    below = max((sum(min(s.end, run.widest) - s.start for s in step.spans) for run, step in steps), default=0)
    if view in MAX_CELLS and (kinds > MAX_KINDS or below > MAX_BRACKETS):
        raise UserError(
            f"a run has spans of {kinds:,} kinds, and of up to {below:,} cells in a step; a picture shows at most "
            f"{MAX_KINDS} and {MAX_BRACKETS:,}. Choose the view curve."
        )


def shared_scale(runs: Sequence[Playback], clock: Clock, w: float) -> Scale:
    """The scale at which all runs fit: one unit of the clock is as high in each of them. Raises UserError for too many
    steps."""
    longest = max(run.length for run in runs)
    if longest > MAX_ROWS:
        raise UserError(
            f"a run has {longest} steps; a board over steps takes at most {MAX_ROWS}. Choose the view curve, or the "
            "view step with one step."
        )
    cell = min(11.0, (w - 26) / max(1, *(run.widest - run.start for run in runs)))
    row = min(max(cell, 4.5), 9.0, OVERVIEW_HEIGHT / max(1, longest))
    ends = max(run.end(clock) for run in runs)
    return Scale(clock, row * max(1, longest) / ends if ends else row, cell)


def overview(d: Drawing, run: Playback, t: int, x: float, y: float, w: float, scale: Scale) -> float:
    """Rows from top to bottom as the clock runs, positions from left to right; a token is marked in the row in which it
    was written."""
    count, left, top, axis = run.widest - run.start, x + 24, y + 9, run.axes[scale.clock]
    ink = look.surface("muted")
    for position in range(0, count, 8):
        d.text(left + (position + 0.5) * scale.cell, y + 6, str(run.start + position), TINY, ink, anchor="middle")
    fills: dict[str, list[tuple[float, float, float, float]]] = {}
    signs: list[tuple[float, float, float, str]] = []
    for row in range(1, t + 1):
        above, high = top + axis[row - 1] * scale.unit, (axis[row] - axis[row - 1]) * scale.unit
        gap = min(0.5, 0.12 * min(high, scale.cell))
        levels = run.levels(row)
        for cell in run.board(row):
            place = left + (cell.position - run.start) * scale.cell
            fills.setdefault(small_fill(cell, levels), []).append((place, above, scale.cell - gap, high - gap))
            if cell.state in MARKED and (room := min(high, scale.cell)) > 3.4:
                signs.append((place + (scale.cell - gap) / 2, above + (high - gap) / 2, room, cell.state))
    for fill in sorted(fills):
        d.cells(fills[fill], fill)
    for across, middle, room, state in signs:
        d.text(across, middle + 0.26 * room, look.glyph(state), 0.72 * room, look.state(state, "text"), anchor="middle")
    _bounds(d, run, t, left, top, scale)
    bottom = top + axis[t] * scale.unit
    _ticks(d, run, t, left, top, scale)
    d.line([(left, bottom), (left + count * scale.cell, bottom)], look.surface("text"), 0.8)
    return bottom - y + _written(d, run, t, left, bottom, x + w - left, scale)


def _bounds(d: Drawing, run: Playback, t: int, left: float, top: float, scale: Scale) -> None:
    axis = run.axes[scale.clock]
    for row, step in enumerate(run.trace.steps[:t]):
        above, below = top + axis[row] * scale.unit, top + axis[row + 1] * scale.unit
        for span in step.spans:
            if span.kind not in BOUNDS:
                continue
            for place in {max(span.start, run.start), min(span.end, run.widest)}:
                at = left + (place - run.start) * scale.cell - 0.2
                d.line([(at, above), (at, below)], look.span(span.kind), 0.9)


def _ticks(d: Drawing, run: Playback, t: int, left: float, top: float, scale: Scale) -> None:
    end = run.axes[scale.clock][t]
    d.line([(left - 3, top), (left - 3, top + end * scale.unit)], look.surface("line"), 0.6)
    for place in nice(0, end, max(2, int(end * scale.unit / 26))):
        if scale.clock != "seconds" and not float(place).is_integer():
            continue
        at = top + place * scale.unit
        d.line([(left - 5, at), (left - 3, at)], look.surface("line"), 0.6)
        d.text(left - 6.5, at + 2, f"{place:g}", TINY, look.surface("muted"), anchor="end")


def _written(d: Drawing, run: Playback, t: int, left: float, bottom: float, w: float, scale: Scale) -> float:
    """The tokens under their columns where they can be read, else the text; and the sums."""
    height = 3.0
    cells = run.board(t)
    size = min(5.6, 0.92 * scale.cell)
    if size >= 4.2:
        deep = 0.0
        for cell in cells:
            if cell.token is None or cell.state == "eos":
                continue
            at = left + (cell.position - run.start + 0.5) * scale.cell + 0.34 * size
            shown, face = fonts.legible(run.text_of(cell.token), "mono", spaces=False)
            ink = look.surface("text")
            deep = max(deep, d.text(at, bottom + 4, shown, size, ink, face, "end", 38, spaces=False, upright=True))
        height += deep + 4
    else:
        for line in fonts.wrap(run.text(t), "sans", SMALL, w, 2):
            height += 8
            d.text(left, bottom + height, line, SMALL, look.surface("text"))
        height += 3
    d.text(left, bottom + height + 7, totals(run, t), SMALL, look.surface("text"), room=w)
    return height + 12


def nice(low: float, high: float, count: int) -> list[float]:
    """Round places from low to high, about `count` of them."""
    if high <= low:
        return [low]
    rough = (high - low) / count
    power = (
        10.0 ** len(str(int(rough))) / 10
        if rough >= 1
        else 10.0 ** -next(n for n in range(1, 13) if rough * 10**n >= 1)
    )
    step = next(power * k for k in (1, 2, 2.5, 5, 10) if power * k >= rough * 0.999)
    first = -(-low // step)
    return [round((first + i) * step, 12) for i in range(int((high - first * step) / step + 1e-9) + 1)]
