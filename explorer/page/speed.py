"""Speculation inside the *Sweeps* tab: recorded speeds of lossless methods by class of prompt, and what a forward of n
rows cost on that machine."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

import gradio as gr

from explorer.bench import classes
from explorer.bench.classes import Bench
from explorer.page.curves import LINES, NEUTRAL, SYMBOLS, drawn
from explorer.page.parts import LIGHT, fresh, table

HELP = """## What lossless drafting is worth, by class of prompt
All methods here write the control's text (in float32; in bf16 near-ties may part, the table counts the same texts).
What differs is the time: a verifying
forward of n rows costs more than one row, drafting costs too, and both have to be earned by accepted tokens. Copy-heavy
prompts are easy, chat is hard.
Tokens per forward travel from machine to machine, speeds do not: **measure yours** with `decoding-explorer bench
--by-class --model smollm2`.
"""


def section(tab: gr.Tab) -> None:
    """The whole section; its figures are drawn when `tab` is opened."""
    gr.Markdown(HELP)
    found = classes.recorded()
    if not found:
        gr.Markdown(
            "No recorded benchmark is installed here. Make one: `decoding-explorer bench --by-class --model smollm2 "
            "--json FILE`."
        )
    for one in found:
        with gr.Row():
            figures = [gr.Plot(show_label=False, min_width=320) for _ in range(2)]
        table(_table(one))
        tab.select(partial(_figures, one), None, figures, **LIGHT)


def _table(found: Bench) -> str:
    lines = classes.rows(found)
    models = " with ".join(f"{model.name} ({model.dtype}, {model.threads} threads)" for model in found.models)
    prompts = sum(score.prompts for score in found.scores if score.label == found.scores[0].label)
    about = (
        f"{models}; tokens per second over {found.control}'s on {prompts} prompts, {found.max_new_tokens} new "
        f"tokens, medians, with the 95 % interval over the classes; {found.machine}. Methods whose intervals overlap "
        "are not told apart."
    )
    return fresh(caption=f"Measured: {about}", columns=list(lines[0]), rows=[list(line.values()) for line in lines])


def _figures(found: Bench) -> tuple[Any, Any]:
    """Speed by class, a column of dots per class; and the measured cost of a forward by its rows."""
    import plotly.graph_objects as go

    speeds, costs = go.Figure(), go.Figure()
    for i, method in enumerate(found.labels()):
        selected = [score for score in found.scores if score.label == method]
        speeds.add_scatter(
            x=[score.group for score in selected],
            y=[score.speed for score in selected],
            mode="markers",
            name=f"{method} ({median(score.speed for score in selected):.2f}×)",
            marker={"color": LINES[i % 4], "symbol": SYMBOLS[i // 4 % 4], "size": 10},
        )
    speeds.add_hline(
        y=1, line={"color": NEUTRAL, "dash": "dash"}, annotation={"text": found.control, "x": 0, "xanchor": "left"}
    )
    rows = sorted(found.row_seconds)
    costs.add_scatter(
        x=rows,
        y=[1000 * found.row_seconds[n] for n in rows],
        mode="lines+markers",
        name="measured",
        line={"color": LINES[0]},
    )
    left = drawn(speeds, "Tokens per second over the control's, by class of prompt", "", "times")
    right = drawn(costs, "One forward by its rows", "rows", "milliseconds")
    return left.update_layout(height=420, legend={"y": -0.35}), right.update_layout(height=420)
