"""The summary curves: static plotly figures from traces, readable on a light and on a dark page. plotly is imported at first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engines import Trace
from explorer.metrics import confidence_by_step, growth

NEUTRAL, GRID = "#808891", "rgba(128,136,145,0.28)"
LINES = ("#0072b2", "#d55e00", "#009e73", "#b37aa5")  # told apart by colour-blind eyes; dash and marker differ too
DASHES = ("solid", "dash", "dot", "dashdot")
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
