"""The summary curves: static plotly figures from traces, readable on a light and on a dark page. plotly is imported at first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engines import Trace
from explorer.bench.quality import Point, wilson
from explorer.metrics import confidence_by_step, growth

NEUTRAL, GRID = "#808891", "rgba(128,136,145,0.28)"
LINES = ("#0072b2", "#d55e00", "#009e73", "#b37aa5")  # told apart by colour-blind eyes; dash and marker differ too
DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up")
MARKERS = ("circle", "square", "diamond", "x")


def tokens_figure(traces: Mapping[int, Trace]) -> Any:
    """Tokens gained against forwards spent; the slope is tokens per forward."""
    return _figure(traces, growth, "Tokens over forwards (slope: tokens per forward)", "forwards", "tokens")


def confidence_figure(traces: Mapping[int, Trace]) -> Any:
    """Mean probability of the tokens written in each step, against forwards."""
    return _figure(traces, confidence_by_step, "Mean probability of the tokens written", "forwards", "probability", top=1.02)


def _figure(traces: Mapping[int, Trace], points: Callable[[Trace], list[tuple[int, float]]], title: str, x: str, y: str, top: float | None = None) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    for slot, trace in sorted(traces.items()):
        data = points(trace)
        name = f"{slot + 1} · {trace.header.title}".replace("<", "&lt;")
        line = {"color": LINES[slot % 4], "dash": DASHES[slot % 4], "width": 2}
        marker = {"symbol": MARKERS[slot % 4], "size": 6}
        figure.add_scatter(x=[p[0] for p in data], y=[p[1] for p in data], mode="lines+markers", name=name, line=line, marker=marker)
    return _drawn(figure, title, x, y, top)


def sweep_figure(points: Sequence[Point], title: str) -> Any:
    """Share answered exactly against forwards over the control's: the model's own sweep as a line, every other method as a dot with its 95 % interval."""
    import plotly.graph_objects as go

    base = next(p for p in points if p.control)
    figure = go.Figure()
    curve = sorted((p for p in points if p.on_curve or p.control), key=lambda p: p.forwards)
    said = [" ".join(f"{k}={v}" for k, v in p.params.items()) or p.method for p in curve]
    figure.add_scatter(
        x=[p.forwards / base.forwards for p in curve],
        y=[p.share for p in curve],
        text=said,
        mode="lines+markers+text",
        textposition="bottom right",
        textfont={"size": 10},
        name="the model's own threshold sweep",
        line={"color": NEUTRAL, "width": 2},
        marker={"size": 5},
    )
    for i, point in enumerate(p for p in points if not (p.on_curve or p.control)):
        low, high = wilson(round(point.share * point.tried), point.tried)
        figure.add_scatter(
            x=[point.forwards / base.forwards],
            y=[point.share],
            error_y={"array": [high - point.share], "arrayminus": [point.share - low], "thickness": 1, "width": 3},
            mode="markers",
            name=point.method,
            marker={"color": LINES[i % 4], "symbol": SYMBOLS[i // 4 % 4], "size": 10},
        )
    return _drawn(figure, title, "forwards, as a share of one token per forward", "answered exactly", 1.02)


def _drawn(figure: Any, title: str, x: str, y: str, top: float | None) -> Any:
    axis = {"gridcolor": GRID, "zerolinecolor": GRID, "linecolor": NEUTRAL, "rangemode": "tozero"}
    figure.update_layout(
        title={"text": title, "x": 0.02, "font": {"size": 14}},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": NEUTRAL, "size": 12},
        margin={"l": 56, "r": 16, "t": 48, "b": 48},
        height=340,
        showlegend=True,
        legend={"orientation": "h", "y": -0.22},
        xaxis={**axis, "title": {"text": x}},
        yaxis={**axis, "title": {"text": y}, **({"range": [0, top]} if top else {})},
    )
    return figure
