"""The pictures of a run: its token board, its board over all steps, the draft tree of a step. Each draws into a width
and returns the height it took.

States are told by fill, border and sign; colours are the theme's light ones. Sizes are points (1/72 inch).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engines import Step
from explorer.export import fonts, look
from explorer.export.drawing import Drawing
from explorer.export.playback import Cell, Playback
from explorer.figures.calls import in_words, many, target_role
from explorer.figures.hindsight import top_guesses
from explorer.figures.history import moved

SMALL, TINY = 6.2, 5.4
BOUNDS = ("block", "window")  # spans whose ends are drawn into the board over steps
# states whose sign stands in a small cell
MARKED = ("new", "accepted", "correction", "bonus", "forced", "remasked", "changed", "renoised", "settled")
TRACK = 3.2


def names(runs: Sequence[Playback]) -> list[str]:
    """The methods' names; where one comes twice, with the parameters or the seed that tell its runs apart."""
    settings = [(run.header.title, {**run.header.params, "seed": run.header.seed}) for run in runs]
    titles = []
    for title, mine in settings:
        same = [other for name, other in settings if name == title]
        differ = [name for name, value in mine.items() if any(other.get(name) != value for other in same)]
        apart = ", ".join(f"{name}={mine[name]}" for name in differ)
        titles.append(f"{title} ({apart})" if apart else title)
    return titles


def heading(d: Drawing, run: Playback, name: str, x: float, y: float, w: float) -> float:
    """The method's name, the model and the prompt."""
    d.text(x, y + 8, name, 8.4, look.surface("text"), "bold", room=w)
    subtitle = f"{run.models} · {run.header.prompt}"
    d.text(x, y + 17, subtitle, SMALL, look.surface("muted"), room=w)
    return 22.0


def totals(run: Playback, t: int) -> str:
    """What the run has cost and gained after t steps."""
    trace, lost = run.trace, set(run.trace.header.missing)
    parts = [many(run.tokens(t), "token")]
    if "forwards" not in lost:
        parts[0] += f" in {in_words(trace.steps[:t], target_role(trace))}"
    if "model_seconds" not in lost:
        parts.append(f"{run.axes['seconds'][t]:.3f} s (measured{' here, network included' * trace.header.arrivals})")
    return ", ".join(parts)


# --- the token board of one step


@dataclass(frozen=True)
class Grid:
    """Columns and sizes of a token board: `under` is the room for brackets below each row of cells."""

    columns: int
    rows: int
    w: float
    h: float
    gutter: float
    under: float
    size: float

    @property
    def height(self) -> float:
        """Of the whole board."""
        return self.rows * (self.h + self.under)


def span_kinds(run: Playback) -> list[str]:
    """The kinds of span of a run in the order of their first use; each has its own track below the cells."""
    return list(dict.fromkeys(span.kind for step in run.trace.steps for span in step.spans))


def grid(run: Playback, w: float, size: float, tracks: int) -> Grid:
    """The board of the positions after the prompt in a width, in letters of `size`, with room for so many tracks of
    brackets."""
    lengths = sorted(min(len(p.text), 11) for p in run.trace.pieces if p.kind == "text")
    typical = max(2.4, lengths[int(len(lengths) * 0.85)] if lengths else 5)
    cell, gutter = typical * 0.602 * size + 0.8 * size, 2.6 * size
    columns = max(1, int((w - gutter) // cell))
    columns -= columns % (8 if columns >= 24 else 4 if columns >= 8 else 2 if columns >= 6 else 1)
    count = max(1, run.widest - run.start)
    columns = min(columns, count)
    rows, wide = -(-count // columns), min((w - gutter) / columns, 1.5 * cell)
    return Grid(columns, rows, wide, 2.05 * size, gutter, 2.2 + TRACK * tracks, size)


def token_board(
    d: Drawing, run: Playback, t: int, x: float, y: float, w: float, size: float, kinds: Sequence[str]
) -> float:
    """Every position after the prompt with its token, its state, and its score's heat while it is open; brackets for
    spans of `kinds` below."""
    g = grid(run, w, size, len(kinds))
    levels, guesses, ends = run.levels(t), _guesses(run, t), set(run.header.eos_ids)
    for cell in run.board(t):
        row, column = divmod(cell.position - run.start, g.columns)
        left, top = x + g.gutter + column * g.w, y + row * (g.h + g.under)
        if column == 0 and g.rows > 1:
            down, ink = top + g.h * 0.5 + size * 0.3, look.surface("muted")
            d.text(x + g.gutter - 4, down, str(cell.position), 0.72 * size, ink, anchor="end")
        guess = guesses.get(cell.position) if cell.state == "masked" else None
        place = (left + 0.8, top, g.w - 1.6, g.h)
        if (guess if cell.token is None else cell.token) in ends:
            _end(d, cell, *place, size)
        else:
            _token(d, run, cell, *place, size, levels.get(cell.position), guess)
    if t:
        _brackets(d, run, run.trace.steps[t - 1], g, kinds, x, y)
    return g.height


def _guesses(run: Playback, t: int) -> dict[int, int]:
    """The model's best guess at each position of which step t recorded candidates."""
    if not t:
        return {}
    step = run.trace.steps[t - 1]
    return {p: token for at, token in top_guesses(step).items() if (p := moved(step, at)) is not None}


def _end(d: Drawing, cell: Cell, x: float, y: float, w: float, h: float, size: float) -> None:
    """An end mark, written or guessed: fainter than any word."""
    line = look.state(cell.state, "line") if cell.state in ("masked", *MARKED) else ""
    d.box(x, y, w, h, look.surface("panel"), line, 0.5, 0.22 * size, look.border(cell.state))
    d.text(x + w / 2, y + h / 2 + 0.26 * size, "end", 0.62 * size, look.surface("muted"), "sans", "middle", w - 1.6)


def _token(
    d: Drawing,
    run: Playback,
    cell: Cell,
    x: float,
    y: float,
    w: float,
    h: float,
    size: float,
    level: float | None,
    guess: int | None,
) -> None:
    """guess: the token that an open cell shows in smaller letters."""
    open_ = cell.state == "masked"
    fill, ink = look.state(cell.state, "fill"), look.state(cell.state, "text")
    if open_ and level is not None:
        fill, ink = look.heat(level)
    thick = 1.2 if cell.state in MARKED else 0.5
    line = look.state(cell.state, "line") if look.bordered(cell.state) else ""
    d.box(x, y, w, h, fill, line, thick, 0.22 * size, look.border(cell.state))
    if cell.state in ("correction", "bonus"):
        d.box(x + 1.7, y + 1.7, w - 3.4, h - 3.4, "", look.state(cell.state, "line"), 0.4, 0.15 * size)
    token = guess if cell.token is None else cell.token
    text = look.glyph(cell.state) if token is None else run.text_of(token)
    face = "mono" if token is not None and run.kind_of(token) == "text" else "sans"
    shown, face = fonts.legible(text, face, spaces=False)
    fitted = size if cell.token is not None else 0.8 * size
    if fonts.width(shown, face, fitted) > w - 2:
        fitted = max(0.74 * fitted, 4.0)
    d.text(x + w / 2, y + h / 2 + 0.35 * fitted, shown, fitted, ink, face, "middle", w - 1.6, spaces=False)
    if cell.state in MARKED and cell.token is not None and w > 2.2 * size:
        d.text(x + w - 1.6, y + 0.56 * size, look.glyph(cell.state), 0.46 * size, ink, anchor="end")


def _brackets(d: Drawing, run: Playback, step: Step, g: Grid, kinds: Sequence[str], x: float, y: float) -> None:
    every = {kind: number for number, kind in enumerate(span_kinds(run))}
    tracks = {kind: number for number, kind in enumerate(kinds)}
    for span in step.spans:
        track, dash = tracks[span.kind], look.DASHES[every[span.kind] % len(look.DASHES)]
        start, end = max(span.start, run.start) - run.start, min(span.end, run.widest) - run.start
        for row in range(start // g.columns, -(-end // g.columns)) if end > start else ():
            a, b = max(start, row * g.columns), min(end, (row + 1) * g.columns)
            left = x + g.gutter + (a - row * g.columns) * g.w + 0.8
            right = x + g.gutter + (b - row * g.columns) * g.w - 0.8
            below = y + row * (g.h + g.under) + g.h + 2.4 + track * TRACK
            begins = [(left, below - 1.8)] if a == start else []
            ends = [(right, below - 1.8)] if b == end else []
            d.line([*begins, (left, below), (right, below), *ends], look.span(span.kind), 0.9, dash)


# --- what the signs mean


def legend(
    d: Drawing, runs: Sequence[Playback], drawn: Sequence[int], x: float, y: float, w: float, view: str
) -> float:
    """Signs and colours in use, as many in a row as fit; returns the height. drawn: how many steps of each run are done
    in the picture, of which the view board shows all and the others the last."""
    states = set(TREE_STATES if view == "tree" else ())
    for run, t in zip(runs, drawn, strict=True) if view != "tree" else ():
        states.update(cell.state for row in range(0 if view == "board" else t, t + 1) for cell in run.board(row))
    entries = [("state", name, each["label"]) for name, each in look.theme()["states"].items() if name in states]
    if view != "tree":
        if any(run.lane for run in runs):
            run = next(run for run in runs if run.lane)
            low, high = run.ranges[str(run.lane)]
            heat = ("heat", "", f"masked, {run.lane} {low:.3g} to {high:.3g}")
            entries = [heat if entry[1] == "masked" else entry for entry in entries]
        kinds = dict.fromkeys(kind for run in runs for kind in span_kinds(run) if view == "step" or kind in BOUNDS)
        entries += [("span", kind, kind) for kind in kinds]
    across, down = x, y + 7
    for kind, name, label in entries:
        sign = 30.0 if kind == "heat" else 10.0
        wide = sign + 3 + fonts.width(label, "sans", SMALL)
        if across > x and across + wide > x + w:
            across, down = x, down + 10
        _sign(d, runs, kind, name, across, down, view)
        d.text(across + sign + 3, down, label, SMALL, look.surface("text"))
        across += wide + 9
    return down - y + 5


def _sign(d: Drawing, runs: Sequence[Playback], kind: str, name: str, x: float, y: float, view: str) -> None:
    if kind == "heat":
        for i in range(12):
            d.box(x + i * 2.5, y - 5.5, 2.5, 6, look.heat(i / 11)[0])
        return
    if kind == "span":
        tracks = span_kinds(next(run for run in runs if name in span_kinds(run)))
        dash = look.DASHES[tracks.index(name) % len(look.DASHES)] if view == "step" else ()
        d.line([(x, y - 2.2), (x + 10, y - 2.2)], look.span(name), 1, dash)
        return
    fill = small_fill(Cell(0, None, name, 0), {}) if view == "board" else look.state(name, "fill")
    line = look.state(name, "line") if look.bordered(name) and view != "board" else ""
    d.box(x, y - 6, 9.5, 7, fill, line, 0.6, 1.2, look.border(name))
    if view != "board" or name in MARKED:
        d.text(x + 4.75, y - 0.4, look.glyph(name), 5.6, look.state(name, "text"), anchor="middle")


TREE_STATES = ("accepted", "rejected", "unreached", "correction", "bonus")


def small_fill(cell: Cell, levels: dict[int, float]) -> str:
    """The colour of a cell that is too small for a border: written tokens stand out of the heat of the open ones."""
    if cell.state == "masked":
        level = levels.get(cell.position)
        return look.state("unreached", "fill") if level is None else look.heat(level)[0]
    if cell.state == "old":
        return look.mix(look.state("old", "fill"), look.state("old", "line"), 0.45)
    if cell.state == "eos":
        return look.mix(look.state("eos", "fill"), look.state("masked", "line"), 0.4)
    return look.state(cell.state, "fill")
