"""ParallelBench inside the *Sweeps* tab: a task's points against tokens per forward with what is derived for them, and
every point a trace to play."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import gradio as gr

from engines import parallelbench
from engines.tasks import TASKS
from explorer.bench.quality import PARALLELBENCH
from explorer.page.curves import NEUTRAL, bars, blank, logarithmic
from explorer.page.curves import drawn as drawn_figure
from explorer.page.handlers import Handlers
from explorer.page.handlers.showing import Replay, listing, opens, row_number
from explorer.page.parts import LIGHT, fresh, table
from explorer.page.theme import colours

ADAPTIVE, ALL, GRID, ITEMS = parallelbench.ADAPTIVE, parallelbench.ALL, parallelbench.GRID, parallelbench.ITEMS
LEFT_TO_RIGHT, ORDERS, derived = parallelbench.LEFT_TO_RIGHT, parallelbench.ORDERS, parallelbench.derived
Part = parallelbench.Part
Point = parallelbench.Point
EVERY = "all orders"
FIRST = "shuffle"  # the task on view when the tab is opened
WRONG, RIGHT = "first wrong prompt", "first right prompt"
COLUMNS = ["#", "model", "setting", "exact", "95 %", "strict", "forwards", "tokens/forward", "C, nats", "derived"]
TICKS = (1, 2, 3, 4, 5, 6, 8, 10, 16, 20)
HELP = """## ParallelBench: what no setting can know
Tokens that are written in one forward are drawn independently of each other. *Copy* and *Shuffle* look alike to a
decoder, but only one of them forgives
that: where a task couples its tokens, even a model that knows every true marginal loses at least the conditional total
correlation C (arXiv:2510.04767).

**Dots are measured**, each a setting on the same held-out prompts with its 95 % interval (Wilson): filled for argmax,
open for sampling at temperature 1.
**The line is derived**, not measured: the chance that sampling from perfect marginals in random order is right, in
closed form or by listing all answers.
It speaks of the open dots of the oracle; argmax breaks ties always the same way and so fails earlier. The board is as
long as the answer.
Orders by margin and entropy run on a time grid, which does not write equally many tokens in every forward.

**Choose a row below to run its prompt again** with the same seed: a wrong answer opens on the Explore tab at the step
that wrote its first wrong word.
"""
CHOSEN = (
    "The oracle view: forwards of the best single argmax setting against those of the cheapest right setting chosen "
    "for every prompt in hindsight, over "
    "the prompts that the best single setting answers. Measured; the choice is a limit and no method."
)


def section(tab: gr.Tab, handlers: Handlers, tabs: gr.Tabs, outputs: Sequence[Any]) -> None:
    """The whole section; its figures are drawn when `tab` is opened. outputs: bus, status and results of the
    players."""
    gr.Markdown(HELP)
    parts = parallelbench.recorded(PARALLELBENCH)
    if not parts:
        gr.Markdown(
            "No recorded benchmark is installed here. Make one: `decoding-explorer parallelbench --model oracle "
            "--json FILE`."
        )
        return
    points = [point for part in parts for point in part.points]
    with gr.Row():
        task = gr.Dropdown(
            [(TASKS[t].title, t) for t in GRID], value=FIRST, label="Task", elem_id="pb-task", min_width=240
        )
        order = gr.Dropdown(
            [EVERY, *ORDERS, LEFT_TO_RIGHT, ADAPTIVE], value=EVERY, label="Order", elem_id="pb-order", min_width=180
        )
        which = gr.Radio(
            [WRONG, RIGHT],
            value=WRONG,
            label="A chosen row plays its",
            info="or its first one, where there is none",
            elem_id="pb-which",
        )
    with gr.Row():
        figures = [gr.Plot(show_label=False, min_width=320) for _ in range(2)]
    frame = listing(COLUMNS, "pb-points", "Measured points; choose one to play it")
    view = table("")
    gr.Markdown(_sources(parts))

    draw = partial(drawn, parts, points)
    for event in (tab.select, task.input, order.input):
        event(draw, [task, order], [*figures, frame, view], **LIGHT)

    def again(row: Any, which: Any, request: gr.Request) -> Replay:
        point = point_of(row, points)
        index = prompt_of(point, which)
        return Replay(
            partial(parallelbench.trace_of, point, index),
            f"{point.setting.label}, {point.model}, prompt {index + 1} of {point.tried}",
        )

    opens(frame, again, which, handlers, tabs, outputs)


def _sources(parts: Sequence[Part]) -> str:
    return "\n\n".join(
        f"Recorded with `decoding-explorer parallelbench`: {part.model.name} (sha256 {part.model.sha256[:12]}), "
        f"{part.prompts} prompts per task."
        for part in parts
    )


def drawn(parts: Sequence[Part], points: Sequence[Point], task: Any, order: Any) -> tuple[Any, Any, Any, str]:
    """Both figures, the rows of the list and the oracle view of one task. Raises gr.Error for one that is not
    offered."""
    orders = (EVERY, *ORDERS, LEFT_TO_RIGHT, ADAPTIVE)
    if not (isinstance(task, str) and isinstance(order, str) and task in GRID and order in orders):
        raise gr.Error("choose a task and an order of the lists.", print_exception=False)
    numbered = {i: p for i, p in enumerate(points) if p.task == task and order in (EVERY, p.setting.order)}
    selected = list(numbered.values())
    every = [p for p in points if p.task == task]
    return (
        accuracy_figure(task, selected, every),
        bound_figure(task, selected, every),
        rows(numbered),
        chosen(parts, task),
    )


def rows(points: Mapping[int, Point]) -> list[list[Any]]:
    """The list: one row per point, its number first."""
    return [
        [
            i,
            p.model,
            p.setting.label,
            f"{p.right}/{p.tried}",
            "{:.0%}-{:.0%}".format(*p.interval),
            f"{p.strict}/{p.tried}",
            f"{p.forwards:.2f}",
            f"{p.tokens_per_forward:.2f}",
            "-" if p.bound is None else f"{p.bound:.3f}",
            "-" if p.chance is None else f"{p.chance:.1%}",
        ]
        for i, p in points.items()
    ]


def chosen(parts: Sequence[Part], task: str) -> str:
    """The oracle view of a task and of all tasks together, a row per model."""
    views = [(part.model.name, speedup) for part in parts for speedup in part.speedups if speedup.task in (task, ALL)]
    lines = [
        [
            name,
            TASKS[speedup.task].title if speedup.task in TASKS else speedup.task,
            speedup.best,
            f"{speedup.share:.0%}",
            f"{speedup.forwards:.2f}",
            f"{speedup.chosen:.2f}",
            f"{speedup.factor:.2f}×",
            f"{speedup.solved:.0%}",
        ]
        for name, speedup in views
    ]
    columns = [
        "Model",
        "Task",
        "Best single setting",
        "Exact",
        "Forwards",
        "Chosen per prompt",
        "Fewer by",
        "Some setting is right",
    ]
    return fresh(caption=CHOSEN, columns=columns, rows=lines, empty="No setting answers a prompt of this task.")


# --- the figures


def looks(points: Sequence[Point]) -> dict[str, tuple[str, str]]:
    """Model -> (colour, symbol): those with a bound, which list all answers, are diamonds."""
    states = colours()["states"]
    exact, network = states["rejected"]["light"]["line"], states["accepted"]["light"]["fill"]
    known = {p.model: p.bound is not None for p in points}
    return {model: (exact, "diamond") if is_exact else (network, "circle") for model, is_exact in known.items()}


def accuracy_figure(task: str, points: Sequence[Point], every: Sequence[Point]) -> Any:
    """Exact answers against tokens per forward: dots with intervals for each model and way to draw, and the derived
    line. every: of all orders."""
    figure = blank()
    if line := curve(task, every):
        _derived(figure, *line)
    for model, sampled, group in _groups(points):
        error = {**bars(group), "thickness": 1, "width": 2}
        _dots(figure, model, sampled, group, [p.share for p in group], looks(points), error_y=error)
    return _laid_out(figure, points, f"{TASKS[task].title}: exact answers", "answered exactly", [-0.02, 1.04])


def bound_figure(task: str, points: Sequence[Point], every: Sequence[Point]) -> Any:
    """C of the sets that were committed against tokens per forward, for models that list all answers, and its closed
    form in random order.

    every: the task's points of all orders.
    """
    figure = blank()
    if forms := derived(task, board(every)):
        _derived(figure, "closed form", [d.per_forward for d in forms], [d.bound for d in forms])
    bounded = [p for p in points if p.bound is not None]
    for model, sampled, group in _groups(bounded):
        _dots(figure, model, sampled, group, [p.bound for p in group], looks(points))
    title = (
        "What writing at once costs at least"
        if bounded
        else "What writing at once costs: the answers of this task are not listed"
    )
    return _laid_out(
        figure,
        points,
        title,
        "C, nats (derived from the sets written at once)",
        [-0.1, 1.08 * max([p.bound or 0 for p in bounded] + [1.0])],
    )


def curve(task: str, every: Sequence[Point]) -> tuple[str, list[float], list[float]] | None:
    """(how, tokens per forward, chance) of the derived line: the closed form, else the mean over the sets that sampled
    runs drew; None without either."""
    if forms := derived(task, board(every)):
        return "closed form", [d.per_forward for d in forms], [d.chance for d in forms]
    listed = sorted((p.tokens_per_forward, p.chance) for p in every if p.chance is not None)
    return ("all answers listed", [x for x, _ in listed], [y for _, y in listed]) if listed else None


def board(points: Sequence[Point]) -> int:
    """Positions of a task's board: what its largest setting writes in one forward."""
    return max((p.setting.per_forward or 1 for p in points), default=ITEMS)


def _derived(figure: Any, name: str, x: list[float], y: list[float]) -> None:
    dashed = {"color": NEUTRAL, "width": 2, "dash": "dash"}
    figure.add_scatter(x=x, y=y, mode="lines", name=f"derived, {name}", line=dashed, hoverinfo="skip")


def _groups(points: Sequence[Point]) -> Iterator[tuple[str, bool, list[Point]]]:
    for model in dict.fromkeys(p.model for p in points):
        for sampled in (False, True):
            if group := [p for p in points if p.model == model and p.setting.sampled == sampled]:
                yield model, sampled, group


def _dots(
    figure: Any,
    model: str,
    sampled: bool,
    group: list[Point],
    y: list[Any],
    looks: Mapping[str, tuple[str, str]],
    **more: Any,
) -> None:
    colour, symbol = looks[model]
    figure.add_scatter(
        x=[p.tokens_per_forward for p in group],
        y=y,
        text=[f"{p.setting.label}<br>{p.right} of {p.tried} right" for p in group],
        hovertemplate="%{text}<br>%{x:.2f} tokens per forward<extra>" + model + "</extra>",
        mode="markers",
        name=f"{model}, sampled" if sampled else f"{model}, taken by argmax",
        marker={
            "color": colour,
            "symbol": f"{symbol}-open" if sampled else symbol,
            "size": 13 if sampled else 9,
            "line": {"width": 2, "color": colour},
        },
        **more,
    )


def _laid_out(figure: Any, points: Sequence[Point], title: str, y: str, span: list[float]) -> Any:
    most = max((p.tokens_per_forward for p in points), default=ITEMS)
    laid_out = drawn_figure(figure, title, "tokens per forward (logarithmic)", y)
    logarithmic(laid_out, TICKS, 0, 1.1 * most)
    laid_out.update_yaxes(range=span)
    return laid_out.update_layout(height=420)


# --- playing a point


def point_of(row: Any, points: Sequence[Point]) -> Point:
    """The point of a row of the list, by its number. Raises UserError for what is no row: anyone can send one."""
    return points[row_number(row, len(points), "point of the benchmark")]


def prompt_of(point: Point, which: Any) -> int:
    """The first prompt that was answered wrong (or right), else the very first."""
    return point.first(wrong=which != RIGHT) or 0
