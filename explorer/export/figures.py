"""Figures of traces, fit for a paper: SVG text or a PNG, from one layout.

figure(trace, view="board")                          # the board over all steps
figure([a, b], view="board", clock="seconds")        # two runs on one scale
figure(trace, view="step", step=7, format="png")     # the tokens after a step
figure(trace, view="tree", step=3)                   # what was drafted and accepted in it
figure([a, b, c], view="curve", clock="forwards")    # tokens over cost
figure([a, b], view="work")                          # when draft and target computed, in measured seconds
"""

from collections.abc import Iterable, Sequence

from engines import Trace, UserError
from explorer.export import fonts, look, raster
from explorer.export.drawing import Drawing, svg
from explorer.export.overview import check_cells, nice, overview, shared_scale
from explorer.export.playback import CLOCKS, Playback, check_clock
from explorer.export.plot import Axes, Series, plot, plot_legend
from explorer.export.trees import tree_board, tree_words
from explorer.export.views import SMALL, TINY, grid, heading, legend, names, token_board, totals
from explorer.figures.calls import many
from explorer.figures.clock import Clock
from explorer.figures.history import growth
from explorer.figures.work import Work, work

VIEWS = {
    "board": "Token board over steps",
    "step": "Token board",
    "tree": "Draft tree",
    "curve": "Tokens over cost",
    "work": "Work over time",
}
PAGE = 7.0  # inches: the whole width of a page; one column is about 3.3
MAX_RUNS = 8
MAX_HEIGHT = 2000.0  # points
MARGIN, GAP = 4.0, 16.0
AXIS = {
    "steps": "steps",
    "forwards": "model calls",
    "seconds": "seconds of model and method (measured)",
    "work": "work in rows × layers (measured)",
}

BAR, ROW, LEFT = 9.0, 12.0, 46.0
AT_ONCE = "at once"
FOOT = (
    "Seconds of model and method, on one scale: solid where a measured call ran; recording, sending and drawing "
    "are left out. Upright line: the run ends."
)


def figure(
    traces: Trace | Iterable[Trace],
    *,
    view: str = "board",
    step: int | None = None,
    clock: str = "",
    format: str = "svg",
    width: float = PAGE,
    dpi: int = 300,
) -> str | bytes:
    """A figure of one trace or several. Raises UserError where it cannot be drawn.

    view: board (all steps), step (tokens after one), tree (draft tree of one), curve (tokens over the clock), work
    (when each model computed, always in seconds). step: its number as `replay` shows it; the last one that fits the
    view if not given. clock: steps, forwards or seconds. width: inches, 3.3 is a column and 7 a page. dpi: of a PNG.
    """
    several = [traces] if isinstance(traces, Trace) else list(traces)
    if format not in ("svg", "png"):
        raise UserError(f"format={str(format)[:20]} is not allowed; choose svg or png.")
    drawing = layout(several, view=view, step=step, clock=clock, width=width)
    return svg(drawing) if format == "svg" else raster.png(drawing, _checked_dpi(dpi))


def layout(
    traces: Sequence[Trace], *, view: str = "board", step: int | None = None, clock: str = "", width: float = PAGE
) -> Drawing:
    """The figure as a drawing, for either writer. Raises UserError."""
    if view not in VIEWS:
        raise UserError(f"view={str(view)[:20]} is not allowed; choose {', '.join(VIEWS)}.")
    unit = checked_clock(clock or {"curve": "forwards", "work": "seconds"}.get(view, "steps"))
    if view == "work" and unit != "seconds":
        raise UserError(f"view=work has measured times only, no clock={unit}; choose seconds.")
    if not 1 <= len(traces) <= MAX_RUNS:
        raise UserError(f"{len(traces)} traces do not make a figure; give 1 to {MAX_RUNS}.")
    if not isinstance(width, (int, float)) or not 2 <= width <= 20:
        raise UserError(f"width={str(width)[:20]} is not allowed; give 2 to 20 inches (3.3 is a column, 7 a page).")
    runs = [Playback(trace) for trace in traces]
    if any(not run.length for run in runs):
        raise UserError("a trace has no steps; there is nothing to draw.")
    if clock:
        check_clock(runs, unit)
    check_cells(runs, view)
    title = f"{VIEWS[view]}: {' and '.join(run.header.title for run in runs)}"
    drawing = Drawing(72 * width, 0, title)
    if view == "curve":
        _curve(drawing, runs, unit)
    elif view == "work":
        drawing.height = MARGIN + _timeline(drawing, runs, MARGIN, MARGIN, drawing.width - 2 * MARGIN)
    else:
        _panels(drawing, runs, view, step, unit)
    if drawing.height > MAX_HEIGHT:
        raise UserError(
            f"the figure would be {drawing.height / 72:.0f} inches high; choose a greater width, fewer traces or the "
            "view board or curve."
        )
    return drawing


def checked_clock(clock: str) -> Clock:
    """A clock by its name. Raises UserError."""
    for known in CLOCKS:
        if clock == known:
            return known
    raise UserError(f"clock={str(clock)[:20]} is not allowed; choose {', '.join(CLOCKS)}.")


def _checked_dpi(dpi: int) -> int:
    if isinstance(dpi, bool) or not isinstance(dpi, int) or not 50 <= dpi <= 1200:
        raise UserError(f"dpi={str(dpi)[:20]} is not allowed; give a whole number from 50 to 1200.")
    return dpi


def cursor_of(run: Playback, view: str, step: int | None) -> int:
    """How many steps are done in the picture of `step`. Raises UserError for a step that is not there, or has no tree
    in the view tree."""
    trees = {i: sum(trace_step.tree.accepted) for i, trace_step in enumerate(run.trace.steps) if trace_step.tree}
    if view == "tree" and not trees:
        raise UserError(f"{run.header.title} has no draft trees; choose the view board, step or curve.")
    if step is None:
        return run.length if view != "tree" else 1 + max(trees, key=lambda i: (trees[i], -i))
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < run.length:
        raise UserError(f"step {str(step)[:20]} is not in the trace; it has steps 0 to {run.length - 1}.")
    if view == "tree" and step not in trees:
        near = min(trees, key=lambda i: abs(i - step))
        raise UserError(f"step {step} has no draft tree; the nearest one that has is {near}.")
    return step + 1


def columns_for(runs: Sequence[Playback], view: str, width: float) -> int:
    """How many panels stand side by side."""
    if len(runs) == 1 or width < 320:
        return 1
    if view == "board":
        return 2 if (width / 2 - 40) / max(run.widest - run.start for run in runs) >= 3.2 else 1
    return 2


def _panels(d: Drawing, runs: Sequence[Playback], view: str, step: int | None, clock: Clock) -> None:
    columns = columns_for(runs, view, d.width)
    w = (d.width - 2 * MARGIN - GAP * (columns - 1)) / columns
    scale = shared_scale(runs, clock, w) if view == "board" else None
    y, tallest, sentences, called = MARGIN, 0.0, [], names(runs)
    drawn = [cursor_of(run, view, None if view == "board" else step) for run in runs]
    for i, run in enumerate(runs):
        if i and i % columns == 0:
            y, tallest = y + tallest + 12, 0.0
        x, t = MARGIN + (i % columns) * (w + GAP), drawn[i]
        top = y + heading(d, run, called[i], x, y, w)
        if scale:
            top += overview(d, run, t, x, top, w, scale)
        else:
            top += _one_step(d, run, view, t, x, top, w)
        sentences.append(f"{run.header.title}: {totals(run, t)}; prompt: {run.header.prompt}; text: {run.text(t)}")
        tallest = max(tallest, top - y)
    y += tallest + 8
    d.line([(MARGIN, y - 3), (d.width - MARGIN, y - 3)], look.surface("line"), 0.5)
    if scale:
        words = f"Rows: {clock}, from top to bottom, on one scale. Columns: positions."
        d.text(MARGIN, y + 7, words, SMALL, look.surface("muted"))
        y += 11
    d.height = y + legend(d, runs, drawn, MARGIN, y, d.width - 2 * MARGIN, view) + MARGIN
    d.about = " ".join(sentences)


def _one_step(d: Drawing, run: Playback, view: str, t: int, x: float, y: float, w: float) -> float:
    start = y
    about = totals(run, t) if view == "step" else tree_words(run, t)
    d.text(x, y + 5, f"after {t} of {many(run.length, 'step')}: {about}", SMALL, look.surface("text"), room=w)
    y += 11
    if view == "step":
        kinds = list(dict.fromkeys(span.kind for span in run.trace.steps[t - 1].spans))
        y += token_board(d, run, t, x, y, w, 7.0 if grid(run, w, 7.0, len(kinds)).height < 380 else 5.6, kinds)
    else:
        y += tree_board(d, run, t, x, y, w)
    for line in fonts.wrap(run.trace.steps[t - 1].note, "sans", SMALL, w, 2):
        y += 9
        d.text(x, y, line, SMALL, look.surface("muted"))
    return y - start + 4


def _counted(n: float, clock: Clock) -> str:
    """What a run takes on a clock: "1 step", "12 model calls", "3.5 work"."""
    unit = {"steps": "step", "forwards": "model call"}.get(clock)
    return many(round(n), unit) if unit else f"{n:g} {clock}"


def _curve(d: Drawing, runs: Sequence[Playback], clock: Clock) -> None:
    series, called = [], names(runs)
    for i, run in enumerate(runs):
        *before, _ = growth(run.trace)
        gained = [*before, run.tokens(run.length)]  # the end may hold what no step wrote
        points = tuple((at, float(tokens)) for at, tokens in zip(run.axes[clock], gained, strict=True))
        cost = f"{run.end('seconds'):.3f} s" if clock == "seconds" else _counted(run.end(clock), clock)
        name = f"{called[i]}: {many(run.tokens(run.length), 'token')}, {cost}"
        series.append(Series(name, points, i, "steps", markers=run.length <= 40))
    served = clock == "seconds" and any(run.trace.header.arrivals for run in runs)
    axes = Axes(
        f"{AXIS[clock]}, and of waiting for a server" if served else AXIS[clock],
        "tokens",
        max(run.end(clock) for run in runs) or 1.0,
        max(1.0, *(y for curve in series for _, y in curve.points)),
    )
    height, w = min(0.62 * d.width, 230.0), d.width - 2 * MARGIN
    prompts = dict.fromkeys(run.header.prompt for run in runs)
    top = MARGIN
    if len(prompts) == 1:
        d.text(MARGIN, top + 7, f"prompt: {runs[0].header.prompt}", SMALL, look.surface("muted"), room=w)
        top += 12
    plot(d, axes, series, MARGIN, top, w, height)
    d.height = top + height + 2 + plot_legend(d, series, MARGIN + 30, top + height, w - 34) + MARGIN
    d.about = " ".join(f"{run.header.title} ({run.models}): {totals(run, run.length)}." for run in runs)


# --- when the models of several runs computed: a row for each model, one for the time in which two of them did


def _timeline(d: Drawing, runs: Sequence[Playback], x: float, y: float, w: float) -> float:
    """Draw the rows of all runs and return the height. Raises UserError where no run recorded the calls of its
    models."""
    all_work = [work(run.trace) for run in runs]
    if not any(done.rows for done in all_work):
        raise UserError(
            "no trace holds measured calls of several models; choose runs that draft and verify, or the view board, "
            "step or curve."
        )
    top, end = y, max(done.seconds for done in all_work) or 1.0
    unit, sentences = (w - LEFT - 4) / end, []
    for run, name, done in zip(runs, names(runs), all_work, strict=True):
        y += heading(d, run, name, x, y, w)
        y += _work_rows(d, done, x, y, unit)
        line = f"{_busy(done)}; {many(run.tokens(run.length), 'token')}"
        d.text(x + LEFT, y + 7, line, SMALL, look.surface("text"), room=w - LEFT)
        sentences.append(f"{run.header.title}: {line}.")
        y += 16
    d.line([(x + LEFT, y), (x + LEFT + end * unit, y)], look.surface("line"), 0.6)
    for place in nice(0, end, max(2, int(w / 60))):
        at = x + LEFT + place * unit
        d.line([(at, y), (at, y + 3)], look.surface("line"), 0.6)
        d.text(at, y + 9, f"{place:g} s", TINY, look.surface("muted"), anchor="middle" if place else "start")
    d.text(x, y + 20, FOOT, SMALL, look.surface("muted"), room=w)
    d.about = " ".join(sentences)
    return y + 26 - top


def _busy(done: Work) -> str:
    """How long each model computed, how long two did at once, and where the run ended."""
    if not done.rows:
        return f"calls not recorded; ends at {done.seconds:.3f} s"
    busy = ", ".join(f"{role} {done.busy(role):.3f} s" for role in done.rows)
    at_once = len(done.rows) > 1 and done.any
    both = f", at once {done.shared:.3f} s ({100 * done.shared / done.any:.0f} %)" if at_once else ""
    return f"{busy}{both}; ends at {done.seconds:.3f} s"


def _work_rows(d: Drawing, done: Work, x: float, y: float, unit: float) -> float:
    rows = [*done.rows.items(), *([(AT_ONCE, done.at_once)] if len(done.rows) > 1 else [])]
    left, top = x + LEFT, y
    for i, (role, spells) in enumerate(rows):
        d.text(left - 4, y + 0.75 * BAR, role, SMALL, look.surface("text"), anchor="end", room=LEFT - 6)
        d.box(left, y, done.seconds * unit, BAR, look.mix(look.surface("line"), "#ffffff", 0.6))
        colour = look.surface("text") if role == AT_ONCE else look.series(i)[0]
        d.cells([(left + start * unit, y, max(0.3, (end - start) * unit), BAR) for start, end in spells], colour)
        y += ROW
    d.line([(left + done.seconds * unit, top - 1), (left + done.seconds * unit, y - 1)], look.surface("text"), 0.9)
    return y - top
