"""The layout of *Run a sweep* inside the *Sweeps* tab, and what its controls offer for the chosen model, methods and
parameter."""

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from engines import Param
from engines.tasks import TASKS
from explorer.page.handlers import Handlers
from explorer.page.handlers.showing import listing, opens
from explorer.page.parts import LIGHT, alerts, dots, either, queued, status, until
from explorer.page.sweeper import DEFAULTS, NO_SECOND, Sweeper

SEED = 7  # its place among the controls
FIRST_TASKS = ["sort", "insert any"]  # one right answer, and many
POINTS = ["#", "method", "parameters", "right", "95 %", "forwards", "tokens/forward", "curve there"]
PROMPTS = ["#", "task", "check", "prompt", "output", "forwards"]
HELP = """### Run a sweep
Choose methods and one of their parameters; every setting runs on the same held-out prompts, one after the other on the
model of this server, and every answer
is checked exactly. A second parameter makes one curve for each of its values. The grey line is the model's own control
with its plain threshold. Finished runs are kept by all
that decides them (method, parameters,
weights, prompt, seed, code), so a sweep that you cancel goes on where it was, and a changed one runs only what is new.

**Choose a dot or a row** for its prompts, the wrong ones first; **choose a prompt** to run it again with the same seed
and see it on the Explore tab
at the step that wrote its first wrong word.
"""


def section(handlers: Handlers, tabs: gr.Tabs, outputs: Sequence[Any]) -> None:
    """The whole section. outputs: bus, status and results of the players."""
    sweeper = Sweeper(handlers)
    gr.Markdown(HELP)
    models = [(f"{m.name} · {m.kind}", m.name) for m in handlers.catalogue.models if sweeper.methods(m.name)]
    first = next((name for _, name in models if sweeper.kind(name) == "masked"), models[0][1] if models else "")
    if not first:
        gr.Markdown("There is no model here that a method could run on.")
        return
    inputs = [*_what(sweeper, models, first), *_how_much(sweeper)]
    start, cancel = either("sweep-go", ("Start sweep", "sweep-start"), ("Cancel sweep", "sweep-cancel"))
    line = status(sweeper.planned(*(control.value for control in inputs)), elem_id="sweep-status")
    with gr.Row(elem_id="sweep-figures"):
        figures = [gr.Plot(show_label=False, min_width=320) for _ in range(2)]
    points = listing(POINTS, "sweep-points", "Points; choose one for its prompts")
    about = gr.Markdown("")
    cells = listing(PROMPTS, "sweep-cells", "Prompts of the chosen point")
    _connect(sweeper, inputs, start, cancel, [line, *figures, points, cells], about)
    clicked = dots("sweep-figures")
    clicked.submit(sweeper.dot, clicked, [cells, about], **LIGHT)
    opens(cells, sweeper.again, inputs[SEED], handlers, tabs, outputs)


def _what(sweeper: Sweeper, models: list[tuple[str, str]], first: str) -> list[Any]:
    """What is swept: model, methods, parameter, values; as `Sweeper.read` takes them."""
    offered = offer(sweeper, first)
    with gr.Row():
        model = gr.Dropdown(models, value=first, label="Model", elem_id="sweep-model", min_width=200)
        methods = gr.Dropdown(
            offered["methods"],
            value=offered["chosen"],
            multiselect=True,
            label="Methods",
            elem_id="sweep-methods",
            min_width=280,
            scale=2,
        )
        name = gr.Dropdown(
            offered["names"], value=offered["name"], label="Parameter", elem_id="sweep-param", min_width=180
        )
        text = gr.Textbox(
            offered["text"],
            label="Values",
            info="a list, or FROM:TO:COUNT",
            elem_id="sweep-values",
            min_width=180,
            max_length=2000,
        )
    with gr.Row():
        second = gr.Dropdown(
            offered["second"],
            value=NO_SECOND,
            label="Second parameter",
            info="one curve for each of its values, which you may change: a list, or FROM:TO:COUNT",
            allow_custom_value=True,
            elem_id="sweep-second",
        )
    return [model, methods, name, text, second]


def _how_much(sweeper: Sweeper) -> list[Any]:
    """On what and how much of it: tasks, prompts per task, seed, seconds, runs, and whether finished runs count."""
    with gr.Row():
        tasks = gr.Dropdown(
            [(task.title, slug) for slug, task in TASKS.items()],
            value=FIRST_TASKS,
            multiselect=True,
            label="Tasks",
            elem_id="sweep-tasks",
            min_width=280,
            scale=3,
        )
        prompts = gr.Number(4, label="Prompts per task", elem_id="sweep-prompts", min_width=110, precision=0)
        seed = gr.Number(0, label="Seed", elem_id="sweep-seed", min_width=80, precision=0)
        seconds = gr.Number(
            min(300, sweeper.limits.sweep_seconds), label="At most seconds", elem_id="sweep-seconds", min_width=110
        )
        runs = gr.Number(
            min(1000, sweeper.limits.sweep_runs),
            label="At most new runs",
            elem_id="sweep-runs",
            min_width=110,
            precision=0,
        )
        reuse = gr.Checkbox(True, label="Reuse finished runs", elem_id="sweep-reuse", min_width=190)
    return [tasks, prompts, seed, seconds, runs, reuse]


def _connect(
    sweeper: Sweeper, inputs: list[Any], start: gr.Button, cancel: gr.Button, shown: list[Any], about: gr.Markdown
) -> None:
    model, methods, name, text, second, *_ = inputs
    line, _, _, points, cells = shown

    def model_changed(chosen: Any) -> list[Any]:
        offered = offer(sweeper, _listed(sweeper, chosen))
        return [
            gr.update(choices=offered["methods"], value=offered["chosen"]),
            gr.update(choices=offered["names"], value=offered["name"]),
            offered["text"],
            gr.update(choices=offered["second"], value=NO_SECOND),
        ]

    def methods_changed(chosen: Any, slugs: Any, now: Any, then: Any) -> list[Any]:
        offered = offer(sweeper, _listed(sweeper, chosen), slugs if isinstance(slugs, list) else [])
        stays, both = now in offered["names"], str(then).partition("=")[0].strip() in offered["names"]
        return [
            gr.update(choices=offered["names"], value=now if stays else offered["name"]),
            gr.skip() if stays else offered["text"],
            gr.update(choices=offered["second"], value=then if both else NO_SECOND),
        ]

    def name_changed(chosen: Any, slugs: Any, now: Any) -> Any:
        return offer(sweeper, _listed(sweeper, chosen), slugs if isinstance(slugs, list) else [], str(now))["text"]

    both = [name, text, second]
    model.input(model_changed, model, [methods, *both], **LIGHT).then(sweeper.planned, inputs, line, **LIGHT)
    methods.input(methods_changed, [model, methods, name, second], both, **LIGHT).then(
        sweeper.planned, inputs, line, **LIGHT
    )
    name.input(name_changed, [model, methods, name], text, **LIGHT).then(sweeper.planned, inputs, line, **LIGHT)
    gr.on([control.input for control in inputs[3:]], sweeper.planned, inputs, line, **LIGHT)
    running = start.click(sweeper.run, inputs, shown, **queued("sweep") | {"show_progress": "hidden"})
    until("sweep-go", [running, cancel.click(sweeper.stop, None, shown, cancels=[running], **LIGHT)], cancel)
    points.select(sweeper.prompts, None, [cells, about], **LIGHT)


def offer(sweeper: Sweeper, model: str, slugs: Sequence[str] | None = None, name: str | None = None) -> dict[str, Any]:
    """What the controls offer for a model: its methods and those chosen at first, parameters of the chosen ones, values
    for one of them, and for a second one each with its values.

    slugs: the chosen methods, where some are; name: the chosen parameter.
    """
    infos = sweeper.methods(model)
    curve = next((info.curve for info in infos if info.curve), None)
    usual = (
        [i for i in infos if i.file]
        or [i for i in infos if i.baseline and curve and curve[0] in {p.name for p in i.params}]
        or infos
    )
    chosen = [info for info in infos if info.slug in slugs] if slugs is not None else usual[:1]
    declared = {p.name: p for info in chosen for p in info.params if p.kind not in ("text", "code")}
    if name is None:
        name = (
            curve[0]
            if curve and curve[0] in declared
            else next((p.name for p in declared.values() if p.kind == "float"), DEFAULTS)
        )
    return {
        "methods": [(info.title, info.slug) for info in infos],
        "chosen": [info.slug for info in chosen],
        "names": [DEFAULTS, *declared],
        "name": name,
        "text": _values(declared, name, curve),
        "second": [NO_SECOND, *(f"{param}={_values(declared, param, curve)}" for param in declared)],
    }


def _values(declared: Mapping[str, Param], name: str, curve: tuple[str, Sequence[float]] | None) -> str:
    """Values of a parameter to begin with, empty for none: where the curve has points too, else over its range."""
    p = declared.get(name)
    if p and curve and name == curve[0]:
        return ",".join(f"{value:g}" for value in sorted(curve[1])[::2])
    if p is None:
        return ""
    return f"{p.low:g}:{p.high:g}:4" if p.kind in ("int", "float") else ",".join(p.choices) or "true,false"


@alerts()
def _listed(sweeper: Sweeper, model: Any) -> str:
    sweeper.kind(model)
    return str(model)
