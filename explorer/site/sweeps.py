"""What was measured and recorded, as figures and tables: quality against forwards, lossless methods by class of prompt,
parallel writing."""

from collections.abc import Sequence

from engines import parallelbench
from explorer.about import SWEEPS
from explorer.bench import classes, grid, quality
from explorer.export.drawing import Drawing, svg
from explorer.export.markup import Html, h, join, lead, page
from explorer.export.plot import Axes, Series, plot, plot_legend
from explorer.papers.measured import parallel_points
from explorer.site.docs import measured
from explorer.site.markdown import prose

WIDTH, HEIGHT = 504.0, 270.0
TICKS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)
# tasks of the figure, from free to coupled
SHOWN = ("copy", "sort", "remove any", "insert any", "replace any", "shuffle", "latin")
MOST_AT_ONCE = 6.5  # tokens per forward in the figure; the table has all

SPEED = """### What lossless drafting is worth, by class of prompt
All methods here write the control's text (in float32). What differs is the time: a verifying forward of n rows costs
more than one row, drafting costs too,
and both have to be earned by accepted tokens. Tokens per forward travel from machine to machine, speeds do not.
"""
PARALLEL = """### What parallel writing costs where tokens depend on each other
Tokens that are written in one forward are drawn independently. On the exact oracle, which knows all right answers of a
task, whatever is lost is lost by that
alone: positions in a random order, drawn from the true marginals, so many at a time. Copying loses nothing, shuffling
nearly everything.
"""


def _drawing(title: str, about: str, axes: Axes, series: Sequence[Series]) -> str:
    d = Drawing(WIDTH, 0, title, about)
    plot(d, axes, series, 4, 4, WIDTH - 8, HEIGHT)
    d.height = HEIGHT + 6 + plot_legend(d, series, 34, HEIGHT + 4, WIDTH - 40) + 4
    return svg(d)


def quality_figure(sweep: quality.Recorded) -> str:
    """Share answered exactly against forwards over the control's: the swept line in grey, every method as a dot with
    its 95 % interval, or as a curve for each value of its second swept parameter."""
    base = next(p for p in sweep.points if p.control)
    curve = sorted((p for p in sweep.points if p.on_curve or p.control), key=lambda p: p.forwards)
    labels = tuple(", ".join(f"{v:g}" for v in p.params.values()) if p.on_curve else p.method for p in curve)
    swept = " and ".join(dict.fromkeys(name for p in curve for name in p.params))
    points = tuple((p.forwards / base.forwards, p.share) for p in curve)
    series = [Series(f"sweep of the plain {swept}", points, 0, labels=labels, quiet=True)]
    for i, method_curve in enumerate(grid.curves(dict(enumerate(sweep.points)))):
        own = [point for _, point in method_curve.points]
        places = tuple((p.forwards / base.forwards, p.share) for p in own)
        joined = "line" if method_curve.along else ""
        series.append(Series(method_curve.label, places, i, joined, tuple(p.interval for p in own)))
    across = [x for line in series for x, _ in line.points]
    left, right = 0.85 * min(across), 1.15 * max(across)
    ticks = tuple(t for t in TICKS if left <= t <= right)
    name = "forwards, as a share of the control's (logarithmic)"
    axes = Axes(name, "answered exactly", right, 1.0, left, log=True, places=ticks, percent=True)
    return _drawing("Exact answers against forwards", f"{sweep.model.name}: its table has every point.", axes, series)


def cost_figure(bench: classes.Bench) -> str:
    """Seconds of a forward by its rows."""
    rows = sorted(bench.row_seconds)
    series = [Series("measured", tuple((float(n), 1000 * bench.row_seconds[n]) for n in rows), 0)]
    axes = Axes("rows of one forward", "milliseconds", float(rows[-1]), 1.1 * max(y for _, y in series[0].points))
    about = "; ".join(f"{n} rows {1000 * bench.row_seconds[n]:.1f} ms" for n in rows)
    return _drawing("One forward by its rows", about, axes, series)


def parallel_figure(points: Sequence[parallelbench.Point]) -> str:
    """Share answered exactly against tokens per forward, a line per task."""
    series = []
    few = [p for p in points if p.tokens_per_forward <= MOST_AT_ONCE]
    for i, task in enumerate(task for task in SHOWN if any(p.task == task for p in points)):
        series.append(Series(task, tuple((p.tokens_per_forward, p.share) for p in few if p.task == task), i))
    right = max(x for line in series for x, _ in line.points)
    axes = Axes("tokens per forward", "answered exactly", 1.03 * right, 1.0, 0.9, percent=True)
    return _drawing("Exact answers against tokens per forward", "Its table has every point.", axes, series)


def build() -> tuple[str, dict[str, str]]:
    """The page, and its figures by path."""
    figures: dict[str, str] = {}
    parts: list[Html] = []
    for sweep in quality.recorded():
        apart = grid.apart(sweep.points)
        path = f"figures/sweep-{_plain('-'.join(filter(None, [sweep.model.name, apart])))}.svg"
        figures[path] = quality_figure(sweep)
        about = (
            f"{sweep.model.name} (weights {sweep.model.sha256[:12]}), {sweep.prompts_per_task} held-out prompts "
            f"of each of {len(sweep.tasks)} tasks{f', one curve for each {apart}' if apart else ''}. Measured."
        )
        parts.append(join(prose(SWEEPS), _figure(path, about)))
    for number, bench in enumerate(classes.recorded()):
        path = f"figures/rows-{number}.svg"
        figures[path] = cost_figure(bench)
        about = f"Measured cost of a forward of {bench.models[0].name} by its rows; {bench.machine}."
        parts.append(join(prose(SPEED), _figure(path, about)))
    for part in parallelbench.recorded(quality.PARALLELBENCH):
        points = sorted(parallel_points(part), key=lambda point: point.tokens_per_forward)
        if not points or points[0].bound is None:
            continue
        path = f"figures/parallel-{_plain(part.model.name)}.svg"
        figures[path] = parallel_figure(points)
        about = f"{part.model.name}, {part.prompts} prompts per task. Measured."
        parts.append(join(prose(PARALLEL), _figure(path, about)))
    about = (
        "What ran, how often it was right and what it took. Sweeps are recorded with the program's own commands "
        "and can be made again on your machine."
    )
    none = None if figures else h("p", {}, "No sweep is installed.")
    main = join(h("h1", {}, "Measured"), lead(about), none, parts, measured())
    return page("Measured", "Recorded sweeps of decoding methods.", main, here="sweeps.html"), figures


def _figure(path: str, about: str) -> Html:
    return h("figure", {}, h("img", {"src": path, "alt": about}), h("figcaption", {}, about))


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c == "-" else "-" for c in name)
