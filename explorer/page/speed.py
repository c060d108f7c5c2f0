"""Speculation inside the *Sweeps* tab: recorded speeds of lossless methods by class of prompt, and what a forward of n
rows cost on that machine."""

from functools import partial
from statistics import median
from typing import Any

import gradio as gr

from explorer.bench import classes
from explorer.bench.classes import Bench
from explorer.page.curves import LINES, NEUTRAL, SYMBOLS, blank, drawn
from explorer.page.parts import LIGHT, fresh, table
from explorer.page.tables import labelled

HELP = """## What lossless drafting is worth, by class of prompt
A verifying forward of n rows costs more than one row, drafting costs too, and both have to be earned by accepted
tokens. Copy-heavy prompts are easy, chat is hard. Tokens per forward travel from machine to machine, speeds do not:
**measure yours** with `decoding-explorer bench --by-class --model smollm2`.
"""


def section(tab: gr.Tab) -> None:
    """The whole section; its figures are drawn when `tab` is opened."""
    gr.Markdown(HELP)
    benches = classes.recorded()
    if not benches:
        gr.Markdown(
            "No recorded benchmark is installed here. Make one: `decoding-explorer bench --by-class --model smollm2 "
            "--json FILE`."
        )
    for bench in benches:
        gr.Markdown(_introduced(bench))
        with gr.Row():
            figures = [gr.Plot(show_label=False, min_width=320) for _ in range(2)]
        table(_table(bench))
        tab.select(partial(_figures, bench), None, figures, **LIGHT)


def _introduced(bench: Bench) -> str:
    """What was measured, as a title, and what it says of the control's text: as it was counted, not as it is meant to
    be."""
    target = bench.models[0]
    count = f"{len(bench.labels())} methods on {target.name}, answers of up to {bench.max_new_tokens} tokens"
    same, tried = sum(score.same for score in bench.scores), sum(score.prompts for score in bench.scores)
    if same == tried:
        text = f"All {tried} answers are the control's text."
    else:
        text = (
            f"{same} of {tried} answers are the control's text. The methods claim it for float32; these runs were in "
            f"{target.dtype}, where a verifying forward of several rows may round another way and two tokens that are "
            "nearly equal may change places. The column *same text* counts them."
        )
    return f"### {count[:1].upper()}{count[1:]}\n{text}"


def _table(bench: Bench) -> str:
    lines = [line | {"method": labelled(line["method"])} for line in classes.rows(bench)]
    models = ", ".join(f"{model.name} ({model.dtype})" for model in bench.models)
    threads = " / ".join(dict.fromkeys(str(model.threads) for model in bench.models))
    prompts = sum(score.prompts for score in bench.scores if score.label == bench.scores[0].label)
    about = (
        f"Measured: {models}, {threads} threads; tokens per second over those of {labelled(bench.control)} on "
        f"{prompts} prompts, {bench.max_new_tokens} new tokens, medians, with the 95 % interval over the classes; "
        f"{bench.machine}. Methods whose intervals overlap are not told apart."
    )
    return fresh(caption=about, columns=list(lines[0]), rows=[list(line.values()) for line in lines])


def _figures(bench: Bench) -> tuple[Any, Any]:
    """Speed by class, a column of dots per class; and the measured cost of a forward by its rows."""
    speeds, costs = blank(), blank()
    for i, method in enumerate(bench.labels()):
        selected = [score for score in bench.scores if score.label == method]
        speeds.add_scatter(
            x=[score.group for score in selected],
            y=[score.speed for score in selected],
            mode="markers",
            name=f"{labelled(method)} ({median(score.speed for score in selected):.2f}×)",
            marker={"color": LINES[i % 4], "symbol": SYMBOLS[i // 4 % 4], "size": 10},
        )
    speeds.add_hline(
        y=1,
        line={"color": NEUTRAL, "dash": "dash"},
        annotation={"text": labelled(bench.control), "x": 0, "xanchor": "left"},
    )
    rows = sorted(bench.row_seconds)
    costs.add_scatter(
        x=rows,
        y=[1000 * bench.row_seconds[n] for n in rows],
        mode="lines+markers",
        name="measured",
        line={"color": LINES[0]},
    )
    left = drawn(speeds, "Tokens per second over the control's", "", "times", below="by class of prompt")
    right = drawn(costs, "One forward by its rows", "rows", "milliseconds")
    return left.update_layout(height=420, legend={"y": -0.35}), right.update_layout(height=420)
