"""The layout of the page and which handler answers which control."""

from functools import partial
from typing import Any

import gradio as gr

from engines import broken_methods, tasks
from explorer.about import SWEEPS
from explorer.bench import grid, quality
from explorer.importers import FORMATS
from explorer.lecture import Lecture, own
from explorer.links import SLOTS
from explorer.page import (
    address,
    advising,
    chooser,
    curves,
    diagnosing,
    docs,
    forks,
    form,
    gallery,
    learn,
    lecture,
    my_runs,
    parallelbench,
    pictures,
    prefetch,
    servers,
    speed,
    studies,
    sweep_section,
    tables,
)
from explorer.page.catalogue import updates
from explorer.page.feed import message
from explorer.page.handlers import Handlers
from explorer.page.parts import (
    LIGHT,
    ONE_AT_A_TIME,
    PLAYER,
    bus,
    hidden,
    module,
    running_state,
    say,
    status,
    table,
)

TITLE = "Decoding Explorer"
FIRST_PROMPT = "sort: Mia, Leo, Ada"
EXAMPLES_PER_TASK = 2
PICKER = (
    '<div class="picker"><label for="trace-file">Trace file (.json, .json.gz) or a record of another tool; it is '
    'read in your browser</label><input id="trace-file" type="file" '
    'accept=".json,.gz,.txt,.log,application/json,text/plain"><output></output></div>'
)
WELCOME = "Recorded runs are shown: ▶ or space plays and pauses them, Run decodes live."
EMPTY = "Type a prompt, choose methods, and press Run."
FILL = "(filled, ...now) => globalThis.dxFill?.(filled, now) ?? now.map((value, at) => filled[at] ?? value)"


def build(handlers: Handlers, chosen_lecture: Lecture | None = None, loads: prefetch.Ahead | None = None) -> gr.Blocks:
    """The whole page. chosen_lecture: what lecture mode shows, by itself what ships. loads: what loads the models that
    are chosen, before Run."""
    with gr.Blocks(title=TITLE, fill_width=True, analytics_enabled=False, delete_cache=(600, 3600)) as demo:
        gr.Markdown(
            f"# {TITLE}\nWatch text being decoded: every position of every step, what else the model considered, "
            "and what it cost.",
            elem_id="title",
        )
        module("page/switch.js", "page.mountSwitch(element)", elem_id="language", min_width=0)
        save_file = hidden("download", "mountDownload(props, watch)")  # saves what it is sent
        inbox, asked = bus(message(*my_runs.batches(handlers.opened))), docs.links()
        with gr.Tabs(selected="explore") as tabs:
            with gr.Tab("Explore", id="explore", elem_id="explore"):
                outputs, first_form = _explore(handlers, chosen_lecture or own(), inbox, save_file)
            with gr.Tab("Gallery", id="gallery", elem_id="gallery"):
                gallery.section(handlers, tabs, outputs)
            with gr.Tab("My runs", id="runs", elem_id="my-runs") as kept:
                my_runs.section(kept, handlers, tabs, outputs)
            with gr.Tab("Learn", id="learn", elem_id="learn") as lessons:
                learn.section(lessons)
            with gr.Tab("Methods", id="methods", elem_id="methods") as methods:
                chooser.section(methods, handlers, tabs, outputs)
                chooser.own_method(handlers)
                with gr.Accordion("Models", open=False, elem_id="models"):
                    table(tables.models(handlers.catalogue.models))
                table(tables.broken(broken_methods(), handlers.gallery.broken))
            with gr.Tab("Sweeps", id="sweeps", elem_id="sweeps") as sweeps:
                _sweeps(sweeps, handlers, tabs, outputs, first_form)
            with gr.Tab("Docs", id="docs", elem_id="docs") as texts:
                docs.section(texts, tabs, asked, _limits(handlers, "### Limits of this page"))
        my_runs.links(handlers, outputs)
        address.section(tabs, handlers.catalogue.methods, outputs[1])
        if loads:
            prefetch.section(loads)
        demo.unload(handlers.closed)
        gr.api(handlers.decode, api_name="decode", concurrency_limit=1, concurrency_id="model")
    return demo


def _sweeps(tab: gr.Tab, handlers: Handlers, tabs: gr.Tabs, outputs: list[Any], first_form: gr.HTML) -> None:
    """Recorded quality against forwards. The figures are drawn when their tab is opened, so that a page without them
    never loads plotly."""
    with gr.Tabs(selected="methods-swept"):
        with gr.Tab("Methods against a threshold", id="methods-swept"):
            gr.Markdown(SWEEPS)
            sweeps = quality.recorded()
            if not sweeps:
                gr.Markdown(
                    "No recorded sweep is installed here. Make one: `decoding-explorer sweep --model tiny-dlm`."
                )
            for sweep in sweeps:
                figure = gr.Plot(show_label=False, min_width=320)
                table(tables.sweep(sweep))
                tab.select(partial(curves.sweep_figure, sweep.points, *_title(sweep)), None, figure, **LIGHT)
        with gr.Tab("Run a sweep", id="sweep-live", elem_id="sweep-live"):
            sweep_section.section(handlers, tabs, outputs)
        with gr.Tab("ParallelBench", id="parallelbench", elem_id="parallelbench") as bench:
            parallelbench.section(bench, handlers, tabs, outputs)
        with gr.Tab("Studies", id="studies", elem_id="studies"):
            studies.section(handlers.limits.public, first_form, outputs[1], tabs)
        if handlers.catalogue.open:
            with gr.Tab("Why is it slow?", id="why-slow", elem_id="why-slow"):
                diagnosing.build(handlers)
        with gr.Tab("Speculation", id="speculation", elem_id="speculation") as speculation:
            speed.section(speculation)


def _title(sweep: quality.Recorded) -> tuple[str, str]:
    below = f"{sweep.points[0].tried} held-out prompts"
    if apart := grid.apart(sweep.points):
        return f"{sweep.model.name}: one curve for each {apart}", below
    return f"{sweep.model.name}: exact answers against forwards", below


def _explore(
    handlers: Handlers, chosen_lecture: Lecture, inbox: gr.HTML, save_file: gr.HTML
) -> tuple[list[Any], gr.HTML]:
    """The main tab. Returns the outputs that a gallery card feeds too: bus, status, results; and the first slot."""
    opening = next(iter(handlers.opening.values()), None)
    module("learn/tour.js", "page.mountTour(element)", elem_id="tour")  # on a first visit it also offers itself
    with gr.Row(elem_id="explore-main"):
        with gr.Column(scale=1, min_width=340, elem_id="controls"):
            prompt = gr.Textbox(
                opening.header.prompt if opening else FIRST_PROMPT,
                label="Prompt",
                lines=2,
                max_lines=8,
                elem_id="prompt",
            )
            form.elsewhere(prompt)
            form.palette(prompt)
            form.upload(prompt, handlers.limits.public)
            with gr.Row(elem_id="go"):
                start = gr.Button("Run", variant="primary", elem_id="run", min_width=80)
                stop = gr.Button("Stop", variant="stop", elem_id="stop", min_width=80)
            line = status(say(WELCOME if handlers.opening else EMPTY))
            chips, advise = gallery.chips(handlers)
            offered = handlers.catalogue.offered()  # once for all forms
            module("page/form.js", "page.catalogue(props)", value=offered, visible="hidden", elem_id="catalogue")
            slots = [
                form.slot(i, handlers.catalogue.form(plan))
                for i, plan in enumerate(handlers.catalogue.defaults(list(handlers.opening.values())))
            ]
            count = gr.Radio([str(n + 1) for n in range(SLOTS)], value="2", label="Runs side by side", elem_id="count")
            with gr.Accordion("Examples, seed, link, Python", open=False, elem_id="overflow"):
                example = gr.Dropdown(
                    _examples(),
                    value=None,
                    label="Task examples",
                    info="Their answers can be checked exactly.",
                    elem_id="example",
                )
                seed = gr.Number(opening.header.seed if opening else 0, label="Seed", elem_id="seed")
                my_runs.sharing(handlers)
            if handlers.limits.public:
                gr.Markdown(_limits(handlers, "**This page is public.**"), elem_id="public")
        with gr.Column(scale=4, min_width=320, elem_id="stage"):
            scene = gallery.stage(handlers)
            # hidden until there is a verdict
            advice = module("page/advice.js", "page.mountAdvice(element, props, watch)", elem_id="advice")
            module("page/toolbar.js", "page.mountBar(element)", elem_id="toolbar")
            with gr.Column(elem_id="players"):
                for slot in range(SLOTS):
                    name = f"panel-{slot}"
                    module(PLAYER, "page.mountPanel(element, props)", slot=slot, elem_classes=["panel"], elem_id=name)
            shown, changed, asking = _results(handlers, inbox, line, save_file, prompt)
            outputs = [inbox, line, shown]
    gallery.connect_scenes(handlers, chips, scene, outputs)
    hidden("opening", "opening()")  # lets the recorded runs of a page that was just opened play by themselves
    hidden("firstuse", "mountFirstUse()")  # a page that nobody has used shows little, until it is used
    hidden("phone", "mountPhone()")  # on a narrow screen one player at a time, and the controls as a sheet
    example.input(None, [example, prompt], prompt, js="(chosen, now) => chosen || now", api_visibility="private")
    count.change(None, count, None, js=form.SHOW)
    advised = advising.connect(handlers, FIRST_PROMPT, advise, advice, [prompt, slots[0]], outputs)
    controls = [prompt, seed, count, *slots]
    _connect_run(handlers, start, stop, prompt, controls, outputs, asking, advised)
    _fill_controls(handlers, changed, controls)
    lecture.section(handlers, chosen_lecture, outputs, controls)
    return outputs, slots[0]


def _fill_controls(handlers: Handlers, changed: Any, controls: list[Any]) -> None:
    """Whenever the results change: what was opened since then goes into the controls, so that Run repeats what is
    seen; but not what the person has changed while the settings were under way. changed: what else that event
    does, after which it is this one's turn. controls: prompt, seed, number of slots, and the forms of the slots."""

    def take(request: gr.Request) -> list[Any]:
        session = handlers.session(request)
        asked, session.asked = session.asked, ""
        return updates(handlers.catalogue, session.take_opened(), len(session.held), session.named, asked)

    values = gr.JSON(visible="hidden")
    taken = changed.then(take, None, values, **LIGHT)
    taken.then(None, [values, *controls], controls, js=FILL, api_visibility="private")


def _connect_run(
    handlers: Handlers,
    start: gr.Button,
    stop: gr.Button,
    prompt: gr.Textbox,
    controls: list[Any],
    outputs: list[Any],
    asking: Any,
    advised: Any,
) -> None:
    """asking: the event of a server that answers, None where none is asked. advised: that of what helps, which Stop
    lets end by itself."""
    running = gr.on(
        [start.click, prompt.submit],
        handlers.run,
        controls,
        outputs,
        preprocess=False,  # what is wrong is said on the status line, in a sentence of ours
        show_progress_on=[outputs[1]],  # the place in the queue shows on the status line
        **ONE_AT_A_TIME,
    )
    cancelled = [running, forks.connect(handlers, outputs), *([asking] if asking else [])]
    stopped = stop.click(handlers.stop, None, outputs, cancels=cancelled, **LIGHT)
    running_state([running, stopped, advised], stop)


def _results(
    handlers: Handlers, inbox: gr.HTML, line: gr.HTML, save_file: gr.HTML, prompt: gr.Textbox
) -> tuple[gr.HTML, Any, Any]:
    """The tabs below the players. Returns the results table, what follows when it changes, and the event of a server
    that answers."""
    with gr.Tabs(selected="results"):
        with gr.Tab("Results", id="results"):
            shown = table(tables.results(handlers.opening), elem_id="results")
        with gr.Tab("All numbers", id="numbers") as numbers_tab:
            numbers = table(tables.numbers({}), elem_id="numbers")
        with gr.Tab("Curves", id="curves") as curves_tab, gr.Row():
            figures = [gr.Plot(show_label=False, min_width=320) for _ in range(2)]
        with gr.Tab("Save and open", id="files"):
            _files(handlers, [inbox, line, shown], save_file)
            asking = servers.section(handlers, prompt, [inbox, line, shown])
    numbers_tab.select(handlers.numbers, None, numbers, **LIGHT)
    curves_tab.select(handlers.curves, None, figures, **LIGHT)
    # one after the other: of several functions of one change Gradio asks each again for the other's sake, without end
    changed = shown.change(handlers.numbers, None, numbers, **LIGHT)
    changed = changed.then(handlers.redraw, figures[0], figures, **LIGHT)
    return shown, changed, asking


def _files(handlers: Handlers, outputs: list[Any], save_file: gr.HTML) -> None:
    with gr.Row():
        with gr.Column(min_width=280):
            gr.Markdown("## Save\nA trace file holds everything a player shows; a page plays offline in any browser.")
            choices = [("all players", "all"), *((f"player {slot + 1}", str(slot)) for slot in range(SLOTS))]
            what = gr.Dropdown(choices, value="all", label="What", elem_id="save-what")
            with gr.Row():
                for label, save in (
                    ("Save trace (JSON)", handlers.save_json),
                    ("Save page (HTML)", handlers.save_html),
                    ("Save events (CSV)", handlers.save_events),
                ):
                    gr.Button(label, min_width=120).click(save, what, [save_file, outputs[1]], **LIGHT)
                keep = gr.Button("Keep in My runs", min_width=120)
        with gr.Column(min_width=280):
            gr.Markdown(
                "## Open a trace\nIt is checked before anything is shown, and joins the players that are there. "
                f"Records of {FORMATS} are read too."
            )
            call, limit = "page.mountPicker(element, props, trigger)", handlers.limits.trace_characters
            chosen = module("page/picker.js", call, template=PICKER, limit=limit, elem_id="picker")
            text = gr.Textbox(
                label="… or paste its JSON",
                lines=3,
                max_lines=6,
                max_length=handlers.limits.trace_characters,
                elem_id="paste",
            )
            open_text = gr.Button("Open pasted trace")
    pictures.section(handlers, what, [save_file, outputs[1]])
    keep.click(handlers.keep_shown, None, outputs[:2], **LIGHT)
    open_text.click(handlers.take_in, text, outputs, **LIGHT)
    chosen.submit(handlers.take_in, chosen, outputs, **LIGHT)


def _examples() -> list[tuple[str, str]]:
    examples = []
    for task in tasks.TASKS.values():
        made = task.generate("held-out")
        examples += [
            (f"{task.title}: {example.prompt}", example.prompt)
            for example in (next(made) for _ in range(EXAMPLES_PER_TASK))
        ]
    return examples


def _limits(handlers: Handlers, head: str) -> str:
    return "\n".join([head, "", *(f"- {sentence}" for sentence in handlers.limits.sentences())])
