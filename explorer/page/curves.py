"""Plotly figures, readable on a light and on a dark page: the summary curves of traces, sweeps, and the figures of
studies with their intervals and where each series' numbers come from. plotly is imported at first use."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from engines import Trace
from explorer.bench import grid
from explorer.bench.quality import Point
from explorer.figures.clock import confidence_by_step, growth
from explorer.figures.names import name_of
from explorer.page.tables import labelled

NEUTRAL, GRID = "#808891", "rgba(128,136,145,0.28)"
LINES = ("#0072b2", "#d55e00", "#009e73", "#b37aa5")  # told apart by colour-blind eyes; dash and marker differ too
DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up")
MARKERS = ("circle", "square", "diamond", "x")
RISE = 0.03  # of the share, from one point to the next, beside which there is room for a label


def blank() -> Any:
    """A figure without anything."""
    import plotly.graph_objects as go

    return go.Figure()


def logarithmic(figure: Any, ticks: Sequence[float], low: float, high: float) -> None:
    """Let its horizontal axis be one, with those of the ticks that are near the data; most methods are close together
    at a small share."""
    near = [tick for tick in ticks if low <= tick <= high]
    figure.update_xaxes(type="log", tickvals=near, ticktext=[f"{tick:g}" for tick in near])


SUMMARIES = (  # points, title, what is upwards, its end
    (growth, "Tokens over forwards (slope: tokens per forward)", "tokens written", None),
    (confidence_by_step, "Mean probability of the tokens written", "mean probability", 1.02),
)


def summary_figures(traces: Mapping[int, Trace]) -> tuple[Any, ...]:
    """Against forwards: tokens gained, whose slope is tokens per forward, and the mean probability of those written."""
    return tuple(_summary(traces, *summary) for summary in SUMMARIES)


def _summary(
    traces: Mapping[int, Trace], points: Callable[[Trace], list[Any]], title: str, y: str, top: float | None
) -> Any:
    figure = blank()
    for slot, trace in sorted(traces.items()):
        data = points(trace)
        name = f"{slot + 1} · {name_of(trace, traces.values())}".replace("<", "&lt;")
        line = {"color": LINES[slot % 4], "dash": DASHES[slot % 4], "width": 2}
        marker = {"symbol": MARKERS[slot % 4], "size": 6}
        x, heights = [p[0] for p in data], [p[1] for p in data]
        figure.add_scatter(x=x, y=heights, mode="lines+markers", name=name, line=line, marker=marker)
    return drawn(figure, title, "forwards spent", y, top)


def sweep_figure(points: Sequence[Point], title: str, below: str = "") -> Any:
    """Share answered exactly against forwards over the control's: the model's own sweep as a line, every other method
    as a dot with its 95 % interval, or as a curve for each value of the second parameter where it was swept."""
    import plotly.graph_objects as go

    base = next(p for p in points if p.control)
    figure = go.Figure()
    curve = sorted((p for p in points if p.on_curve or p.control), key=lambda p: p.forwards)
    labels = [", ".join(map(str, p.params.values())) if p.on_curve else labelled(p.method) for p in curve]
    swept = " and ".join(dict.fromkeys(name for p in curve for name in p.params))
    figure.add_scatter(
        x=[p.forwards / base.forwards for p in curve],
        y=[p.share for p in curve],
        text=labels,
        mode="lines+markers+text",
        textposition=_beside(curve),
        textfont={"size": 10},
        name=f"sweep of the plain {swept}",
        line={"color": NEUTRAL, "width": 2},
        marker={"size": 5},
    )
    for i, method_curve in enumerate(grid.curves(dict(enumerate(points)))):
        own = [point for _, point in method_curve.points]
        figure.add_scatter(
            x=[p.forwards / base.forwards for p in own],
            y=[p.share for p in own],
            error_y={**bars(own), "thickness": 1, "width": 3},
            text=method_curve.values,
            mode="lines+markers" if method_curve.along else "markers",
            name=labelled(method_curve.label).replace("<", "&lt;"),
            line={"color": LINES[i % 4], "dash": DASHES[i % 4], "width": 1.5},
            marker={"color": LINES[i % 4], "symbol": SYMBOLS[i // 4 % 4], "size": 8 if method_curve.along else 10},
        )
    bottom = max(
        0.0, int(10 * min(p.interval[0] for p in points) - 0.5) / 10
    )  # most points are close together at the top
    finished = drawn(
        figure,
        title,
        "forwards / the control's (logarithmic)",
        f"exact answers (axis from {bottom:g})",
        1.06,
        below,
    )
    finished.update_yaxes(range=[bottom, 1.06], tickvals=[t / 10 for t in range(int(10 * bottom), 11)])
    spent = [p.forwards / base.forwards for p in points]
    ticks = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2)
    logarithmic(finished, ticks, 0.8 * min(spent), 1.2 * max(spent))
    entries = len(figure.data)  # a phone's legend has a line for each
    return finished.update_layout(height=460 + 12 * max(0, entries - 6))


def live_figure(points: Mapping[int, Point], title: str, by_tokens: bool) -> Any:
    """Share answered exactly against tokens per forward (or against forwards): the model's own curve behind, every
    other method with its 95 % intervals, as a curve along the swept parameter, one for each value of the second.

    points: setting number -> point; the number is each dot's `customdata`.
    """
    figure = blank()
    behind = [(number, point) for number, point in points.items() if point.on_curve or point.control]
    behind.sort(key=lambda pair: pair[1].tokens_per_forward)
    groups = [
        ("", behind),
        *((curve.label if curve.along else curve.method, curve.points) for curve in grid.curves(points)),
    ]
    for i, (method, numbered) in enumerate(groups):
        selected = [point for _, point in numbered]
        colour = LINES[(i - 1) % 4] if method else NEUTRAL
        figure.add_scatter(
            x=[p.tokens_per_forward if by_tokens else p.forwards for p in selected],
            y=[p.share for p in selected],
            error_y={**bars(selected), "thickness": 1, "width": 3, "color": colour},
            customdata=[number for number, _ in numbered],
            text=[f"{p.label}<br>{round(p.share * p.tried)} of {p.tried} right" for p in selected],
            hovertemplate="%{text}<br>%{x:.2f}<extra></extra>",
            mode="lines+markers",
            name=(f"{method}" if method else "the model's own control and curve").replace("<", "&lt;"),
            line={"color": colour, "width": 1.5 if method else 2, "dash": DASHES[1 + i % 3] if method else "solid"},
            marker={
                "color": colour,
                "symbol": SYMBOLS[(i - 1) // 4 % 4] if method else "circle",
                "size": 9 if method else 6,
            },
        )
    finished = drawn(
        figure,
        title,
        "tokens per forward" if by_tokens else "forwards per prompt, mean (logarithmic)",
        "answered exactly",
        1.04,
    )
    if not by_tokens:  # the control is far to the right of all others
        ticks = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
        logarithmic(finished, ticks, 0, 1.2 * max(p.forwards for p in points.values()))
    return finished.update_layout(height=420)


def bars(points: Sequence[Any]) -> dict[str, list[float]]:
    """The 95 % intervals of the shares of points as plotly's error bars."""
    return {
        "array": [p.interval[1] - p.share for p in points],
        "arrayminus": [p.share - p.interval[0] for p in points],
    }


def _beside(curve: Sequence[Point]) -> list[str]:
    """Where the labels of a curve stand: left of a point from which it rises, elsewhere above and below in turn, so
    that near ones stay apart; that of the first point below it, that of the last inwards."""
    places = list[str]()
    for point, following in pairwise(curve):
        rises = following.share > point.share + RISE
        places.append("middle left" if rises else "bottom right" if places[-1:] == ["top left"] else "top left")
    return ["bottom center", *places[1:], "top left"][-len(curve) :]


def drawn(figure: Any, title: str, x: str, y: str, top: float | None = None, below: str = "") -> Any:
    """The common look of all figures: a title, axes from 0 (a figure that moves one says so), colours for a light and a
    dark page; top: the vertical end; below: a second line of the title, since a phone has room for 48 characters."""
    axis = {"gridcolor": GRID, "zerolinecolor": GRID, "linecolor": NEUTRAL, "rangemode": "tozero"}
    figure.update_layout(
        title={"text": title, "x": 0.02, "font": {"size": 14}, "subtitle": {"text": below, "font": {"size": 12}}},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": NEUTRAL, "size": 12},
        margin={"l": 56, "r": 16, "t": 60 if below else 48, "b": 48},
        height=340,
        showlegend=True,
        legend={"orientation": "h", "y": -0.22},
        xaxis={**axis, "title": {"text": x}},
        yaxis={**axis, "title": {"text": y}, **({"range": [0, top]} if top else {})},
    )
    return figure


def study_figure(figure: Any) -> Any:
    """Draw the data of a figure of a study; nothing in it is read as markup."""
    made, looks = blank(), dict[str, int]()  # name without what stands behind a colon -> number of its look
    dotted = {series.name for series in figure.series if series.style == "points"}
    for number, series in enumerate(figure.series):
        base = series.name.partition(": ")[0]
        i = looks.setdefault(base, len(looks))
        look = {"name": f"{inert(series.name)} ({series.provenance})", "x": series.x, **_interval(series)}
        if series.text:
            look |= {"text": [inert(text) for text in series.text], "hovertemplate": "%{text}<br>%{x:.4g}, %{y:.4g}"}
        if series.runs:
            look |= {
                "customdata": [f"{figure.name}.{number}.{k}" if run else None for k, run in enumerate(series.runs)]
            }
        if series.style == "spans":
            long = [None if y is None else y - base for y, base in zip(series.y, series.base, strict=True)]
            made.add_bar(
                **{**look, "x": long}, y=series.x, base=series.base, orientation="h", marker={"color": LINES[i % 4]}
            )
            continue
        if series.style == "bars":
            bases = series.base or [0.0] * len(series.x)
            tall = [None if y is None else y - base for y, base in zip(series.y, bases, strict=True)]
            made.add_bar(y=tall, base=bases, marker={"color": LINES[i % 4]}, **look)
            continue
        made.add_scatter(
            y=series.y,
            mode=_mode(series, base in dotted),
            line={"color": LINES[i % 4], "dash": DASHES[i % 4], "shape": "hv" if series.style == "steps" else "linear"},
            marker={"color": LINES[i % 4], "symbol": SYMBOLS[i % 4], "size": 8},
            **look,
        )
    lying = any(series.style == "spans" for series in figure.series)
    across, upward = (figure.y, figure.x) if lying else (figure.x, figure.y)
    finished = drawn(made, inert(figure.title), inert(across.head), inert(upward.head))
    for axis, update in ((across, finished.update_xaxes), (upward, finished.update_yaxes)):
        if axis.log:
            update(type="log", rangemode="normal")
        if axis.labels:
            update(tickvals=list(range(len(axis.labels))), ticktext=[inert(name) for name in axis.labels])
    if lying:
        finished.update_yaxes(range=[len(figure.x.labels) - 0.5, -0.5])  # the first row above
    return finished.update_layout(height=420, barmode="overlay")


def _mode(series: Any, dotted: bool) -> str:
    """Points, and lines with places marked that have no points of their own."""
    if series.style == "points":
        return "markers"
    return "lines" if dotted or len(series.x) > 24 else "lines+markers"


def inert(text: str) -> str:
    """Plotly reads a little HTML in its texts; this has none."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _interval(series: Any) -> dict[str, Any]:
    if not series.low:
        return {}
    ends = [(y or 0.0, low, high) for y, low, high in zip(series.y, series.low, series.high, strict=True)]
    return {
        "error_y": {
            "array": [high - y for y, _, high in ends],
            "arrayminus": [y - low for y, low, _ in ends],
            "thickness": 1,
            "width": 2,
        }
    }
