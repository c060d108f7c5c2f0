"""A study's figure as a plotly figure: lines, steps, points and bars with their intervals, and where each series'
numbers come from. plotly is imported at first use."""

from __future__ import annotations

from typing import Any

from explorer.page.curves import DASHES, LINES, SYMBOLS, drawn


def study_figure(figure: Any) -> Any:
    """Draw the data of a figure of a study; nothing in it is read as markup."""
    import plotly.graph_objects as go

    made, looks = go.Figure(), dict[str, int]()  # name without what stands behind a colon -> number of its look
    dotted = {one.name for one in figure.series if one.style == "points"}
    for number, one in enumerate(figure.series):
        base = one.name.partition(": ")[0]
        i = looks.setdefault(base, len(looks))
        look = {"name": f"{inert(one.name)} ({one.provenance})", "x": one.x, **_interval(one)}
        if one.text:
            look |= {"text": [inert(text) for text in one.text], "hovertemplate": "%{text}<br>%{x:.4g}, %{y:.4g}"}
        if one.runs:
            look |= {"customdata": [f"{figure.name}.{number}.{k}" if run else None for k, run in enumerate(one.runs)]}
        if one.style == "spans":
            long = [None if y is None else y - base for y, base in zip(one.y, one.base, strict=True)]
            made.add_bar(**{**look, "x": long}, y=one.x, base=one.base, orientation="h", marker={"color": LINES[i % 4]})
            continue
        if one.style == "bars":
            bases = one.base or [0.0] * len(one.x)
            tall = [None if y is None else y - base for y, base in zip(one.y, bases, strict=True)]
            made.add_bar(y=tall, base=bases, marker={"color": LINES[i % 4]}, **look)
            continue
        made.add_scatter(
            y=one.y,
            mode=_mode(one, base in dotted),
            line={"color": LINES[i % 4], "dash": DASHES[i % 4], "shape": "hv" if one.style == "steps" else "linear"},
            marker={"color": LINES[i % 4], "symbol": SYMBOLS[i % 4], "size": 8},
            **look,
        )
    lying = any(one.style == "spans" for one in figure.series)
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


def _mode(one: Any, dotted: bool) -> str:
    """Points, and lines with places marked that have no points of their own."""
    if one.style == "points":
        return "markers"
    return "lines" if dotted or len(one.x) > 24 else "lines+markers"


def inert(text: str) -> str:
    """Plotly reads a little HTML in its texts; this has none."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _interval(one: Any) -> dict[str, Any]:
    if not one.low:
        return {}
    ends = [(y or 0.0, low, high) for y, low, high in zip(one.y, one.low, one.high, strict=True)]
    return {
        "error_y": {
            "array": [high - y for y, _, high in ends],
            "arrayminus": [y - low for y, low, _ in ends],
            "thickness": 1,
            "width": 2,
        }
    }
