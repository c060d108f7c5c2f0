"""The layout of the page and which handler answers which control."""

from __future__ import annotations

from functools import partial
from typing import Any

import gradio as gr

from engines import broken_methods, tasks
from explorer.about import KEYS, NUMBERS, SWEEPS
from explorer.bench import quality
from explorer.importers import FORMATS
from explorer.page import bundles, curves, forks, learn, own, parallelbench, pictures, settings, shelf, speed, sweep_section, tables
from explorer.page.controls import Slot, build_slot
from explorer.page.feed import message
from explorer.page.handlers import Handlers
from explorer.page.limits import SLOTS
from explorer.page.parts import LIGHT, bus, downloader, jump, panel, picker, say, status, table, toolbar
from explorer.store import Card

TITLE = "Decoding Explorer"
FIRST_PROMPT = "sort: Mia, Leo, Ada"
EXAMPLES_PER_TASK = 2

NUMBERS_HELP = f"""{NUMBERS}
The formulas and conditions of all numbers of the traces you are looking at stand under *Explore → All numbers*.

{KEYS}**f** in a player opens *Fork from here*.

### Where things go
Everything runs where this server runs. The page loads nothing from elsewhere, nothing is counted or reported. At home each run is kept on this
machine and listed under *My runs*; a shared server keeps none. A trace that you open is read by your browser and checked by this server, which forgets
it when you close the page unless you keep it.
"""


def build(desk: Handlers) -> gr.Blocks:
    """The whole page."""
    with gr.Blocks(title=TITLE, fill_width=True, analytics_enabled=False, delete_cache=(600, 3600)) as demo:
        gr.Markdown(
            f"# {TITLE}\nWatch text being decoded: every position of every step, what the model would rather have said, and what it cost.", elem_id="title"
        )
        inbox, save_file = bus(_opening(desk)), downloader()
        with gr.Tabs(selected="explore") as tabs:
            with gr.Tab("Explore", id="explore"):
                outputs = _explore(desk, inbox, save_file)
            with gr.Tab("Gallery", id="gallery"):
                _gallery(desk, tabs, outputs)
            with gr.Tab("My runs", id="runs", elem_id="my-runs") as kept:
                shelf.section(kept, desk, tabs, outputs)
            with gr.Tab("Learn", id="learn", elem_id="learn") as lessons:
                learn.section(lessons, **LIGHT)
            with gr.Tab("Methods", id="methods", elem_id="methods"):
                table(tables.all_papers(), elem_id="papers")
                table(tables.methods(desk.catalogue.methods))
                own.section(desk)
                table(tables.models(desk.catalogue.models))
                table(tables.broken(broken_methods(), desk.gallery.broken))
            with gr.Tab("Sweeps", id="sweeps", elem_id="sweeps") as sweeps:
                _sweeps(sweeps, desk, tabs, outputs)
            with gr.Tab("About the numbers", id="about"):
                gr.Markdown(NUMBERS_HELP)
                gr.Markdown(_limits(desk, "### Limits of this page"), elem_id="limits")
        shelf.links(desk, outputs)
        demo.unload(desk.closed)
        gr.api(desk.decode, api_name="decode", concurrency_limit=1, concurrency_id="model")
    return demo


def _sweeps(tab: gr.Tab, desk: Handlers, tabs: gr.Tabs, outputs: list[Any]) -> None:
    """Recorded quality against forwards. The figures are drawn when their tab is opened, so that a page without them never loads plotly."""
    with gr.Tabs(selected="methods-swept"):
        with gr.Tab("Methods against a threshold", id="methods-swept"):
            gr.Markdown(SWEEPS)
            found = quality.recorded()
            if not found:
                gr.Markdown("No recorded sweep is installed here. Make one: `decoding-explorer sweep --model tiny-dlm`.")
            for one in found:
                figure = gr.Plot(show_label=False, min_width=320)
                table(tables.sweep(one))
                tab.select(partial(curves.sweep_figure, one.points, _title(one)), None, figure, **LIGHT)
        with gr.Tab("Run a sweep", id="sweep-live", elem_id="sweep-live"):
            sweep_section.section(desk, tabs, outputs)
        with gr.Tab("ParallelBench", id="parallelbench", elem_id="parallelbench") as bench:
            parallelbench.section(bench, desk, tabs, outputs)
        with gr.Tab("Speculation", id="speculation", elem_id="speculation") as speculation:
            speed.section(speculation)


def _title(found: quality.Recorded) -> str:
    return f"{found.model.name}: exact answers against forwards, {found.points[0].tried} held-out prompts"


def _opening(desk: Handlers) -> str:
    return message(*shelf.batches(desk.opened))


def _explore(desk: Handlers, inbox: gr.HTML, save_file: gr.HTML) -> list[Any]:
    """The main tab. Returns the outputs that a gallery card feeds too: bus, status, results."""
    opening = next(iter(desk.opening.values()), None)
    learn.tour()
    with gr.Row(elem_id="desk"):
        with gr.Column(scale=1, min_width=340, elem_id="controls"):
            prompt = gr.Textbox(opening.header.prompt if opening else FIRST_PROMPT, label="Prompt", lines=2, max_lines=8, elem_id="prompt")
            example = gr.Dropdown(_examples(), value=None, label="Task examples", info="Their answers can be checked exactly.", elem_id="example")
            with gr.Row():
                start = gr.Button("Run", variant="primary", elem_id="run", min_width=80)
                stop = gr.Button("Stop", variant="stop", elem_id="stop", min_width=80)
            line = status(say(_welcome(desk)))
            jump()
            shelf.sharing(desk)
            with gr.Row():
                count = gr.Radio([str(n + 1) for n in range(SLOTS)], value="2", label="Slots", scale=5, min_width=200, elem_id="count")
                seed = gr.Number(opening.header.seed if opening else 0, label="Seed", scale=2, min_width=70, elem_id="seed")
            slots = [build_slot(desk.catalogue, i, plan, shown=i < 2) for i, plan in enumerate(desk.catalogue.defaults(list(desk.opening.values())))]
            if desk.limits.public:
                gr.Markdown(_limits(desk, "**This page is public.**"), elem_id="public")
        with gr.Column(scale=4, min_width=320, elem_id="stage"):
            toolbar()
            with gr.Column(elem_id="players"):
                for slot in range(SLOTS):
                    panel(slot)
            outputs = [inbox, line, _results(desk, inbox, line, save_file)]
    example.input(lambda chosen: chosen or gr.skip(), example, prompt, **LIGHT)
    count.input(lambda chosen: [gr.update(visible=i < int(chosen)) for i in range(len(slots))], count, [slot.box for slot in slots], **LIGHT)
    _wire_run(desk, start, stop, prompt, [prompt, seed, count], slots, outputs)
    return outputs


def _wire_run(desk: Handlers, start: gr.Button, stop: gr.Button, prompt: gr.Textbox, inputs: list[Any], slots: list[Slot], outputs: list[Any]) -> None:
    pressed, settled = bundles.gather([start.click, prompt.submit], [*inputs, *(one for slot in slots for one in slot.inputs), *(slot.about for slot in slots)])
    running = pressed.then(
        desk.pressed,
        settled,
        outputs,
        show_progress="minimal",
        show_progress_on=[outputs[1]],  # the place in the queue shows on the status line
        concurrency_limit=1,
        concurrency_id="model",
        trigger_mode="once",
        api_visibility="private",
    )
    settings.wire(desk, outputs[2], inputs, slots)
    stop.click(desk.stop, None, outputs, cancels=[running, forks.wire(desk, outputs)], **LIGHT)


def _results(desk: Handlers, inbox: gr.HTML, line: gr.HTML, save_file: gr.HTML) -> gr.HTML:
    """The tabs below the players. Returns the results table."""
    with gr.Tabs(selected="results"):
        with gr.Tab("Results", id="results"):
            shown = table(tables.results(desk.opening), elem_id="results")
        with gr.Tab("All numbers", id="numbers") as numbers_tab:
            numbers = table(tables.numbers({}), elem_id="numbers")
        with gr.Tab("Curves", id="curves") as curves_tab, gr.Row():
            figures = [gr.Plot(show_label=False, min_width=320) for _ in range(2)]
        with gr.Tab("Save and open", id="files"):
            _files(desk, [inbox, line, shown], save_file)
    numbers_tab.select(desk.numbers, None, numbers, **LIGHT)
    curves_tab.select(desk.curves, None, figures, **LIGHT)
    shown.change(desk.numbers, None, numbers, **LIGHT)
    shown.change(desk.redraw, figures[0], figures, **LIGHT)
    return shown


def _files(desk: Handlers, outputs: list[Any], save_file: gr.HTML) -> None:
    with gr.Row():
        with gr.Column(min_width=280):
            gr.Markdown("## Save\nA trace file holds everything a player shows; a page plays offline in any browser.")
            choices = [("all players", "all"), *((f"player {slot + 1}", str(slot)) for slot in range(SLOTS))]
            what = gr.Dropdown(choices, value="all", label="What", elem_id="save-what")
            with gr.Row():
                as_json = gr.Button("Save trace (JSON)", min_width=120)
                as_html = gr.Button("Save page (HTML)", min_width=120)
                as_csv = gr.Button("Save events (CSV)", min_width=120)
                keep = gr.Button("Keep in My runs", min_width=120)
        with gr.Column(min_width=280):
            gr.Markdown(f"## Open a trace\nIt is checked before anything is shown, and joins the players that are there. Records of {FORMATS} are read too.")
            chosen = picker(desk.limits.trace_characters)
            text = gr.Textbox(label="… or paste its JSON", lines=3, max_lines=6, max_length=desk.limits.trace_characters, elem_id="paste")
            open_text = gr.Button("Open pasted trace")
    pictures.section(desk, what, [save_file, outputs[1]])
    as_json.click(desk.save_json, what, [save_file, outputs[1]], **LIGHT)
    as_html.click(desk.save_html, what, [save_file, outputs[1]], **LIGHT)
    as_csv.click(desk.save_events, what, [save_file, outputs[1]], **LIGHT)
    keep.click(desk.keep_shown, None, outputs[:2], **LIGHT)
    open_text.click(desk.take_in, text, outputs, **LIGHT)
    chosen.submit(desk.take_in, chosen, outputs, **LIGHT)


def _gallery(desk: Handlers, tabs: gr.Tabs, outputs: list[Any]) -> None:
    gr.Markdown("Recorded runs of real models. They play at once and need no model.")
    if not desk.gallery.cards:
        gr.Markdown("No recorded run is installed here: the folder `assets/traces` holds none. Press Run on the Explore tab to make one.")
    for prompt, together in _pairs(desk.gallery.cards).items():
        compare = gr.Button(f"Compare on “{prompt[:60]}”: {', '.join(card.title for card in together)}", size="sm", elem_classes=["compare"])
        compare.click(_player(desk, [card.id for card in together]), None, [*outputs, tabs], **LIGHT)
    with gr.Column(elem_id="cards"):
        for card in desk.gallery.cards:
            with gr.Column(elem_classes=["card"], min_width=240):
                table(_card(card), elem_classes=["card-facts"])
                play = gr.Button(f"Play: {card.caption or card.title}", elem_id=f"play-{card.id}", size="sm")
            play.click(_player(desk, [card.id]), None, [*outputs, tabs], **LIGHT)


def _pairs(cards: list[Card]) -> dict[str, list[Card]]:
    """Cards by prompt, where several methods ran on one; at most as many as there are players."""
    by_prompt: dict[str, list[Card]] = {}
    for card in cards:
        by_prompt.setdefault(card.prompt, []).append(card)
    return {prompt: group[:SLOTS] for prompt, group in by_prompt.items() if len({card.method for card in group}) > 1}


def _player(desk: Handlers, names: list[str]) -> Any:
    def play(request: gr.Request) -> tuple[Any, ...]:
        return (*desk.play(names, request), gr.Tabs(selected="explore"))

    return play


def _card(card: Card) -> str:
    rows: list[list[Any]] = [["Method", card.title], ["Model", " + ".join(card.models)], ["Prompt", card.prompt[:160]]]
    rows.append(["Output", {"text": card.text[:160], "fold": True}])
    rows.append(["Cost", f"{card.tokens:,} tokens in {card.forwards:,} forwards"])
    return tables.card(card.caption or card.title, rows + ([["Watch", card.watch]] if card.watch else []))


def _examples() -> list[tuple[str, str]]:
    found = []
    for task in tasks.TASKS.values():
        made = task.generate("held-out")
        found += [(f"{task.title}: {one.prompt}", one.prompt) for one in (next(made) for _ in range(EXAMPLES_PER_TASK))]
    return found


def _limits(desk: Handlers, head: str) -> str:
    return "\n".join([head, "", *(f"- {sentence}" for sentence in desk.limits.sentences())])


def _welcome(desk: Handlers) -> str:
    if desk.opening:
        return "Recorded runs are loaded: press ▶ or space to play them, or press Run to decode live."
    return "Type a prompt, choose methods, and press Run."
