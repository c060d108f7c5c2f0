"""Studies inside the *Sweeps* tab: choose one, set its inputs, run it; its tables, figures and receipts."""

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr
import msgspec

import engines
from engines import Study, StudyInfo, UserError
from explorer.page.catalogue import Form, param_fields
from explorer.page.curves import study_figure
from explorer.page.form import read_as
from explorer.page.parts import LIGHT, alerts, asked, dots, either, fresh, module, queued, say, status, table, until

HELP = """## Studies: laws, bounds and cost models
Some papers hold no decoding loop but a law of scaling, a bound or a cost model. Set its inputs and run it: every column
and every series says whether its numbers are *given*, *measured* here, *derived*, *modelled* or *published*, and the
receipts show each formula with the numbers put in. The same in a terminal: `decoding-explorer study`.
"""
SHOWN = 200  # rows of a table on the page
EVERY = 1.0  # seconds between two drawings of a study that is under way
UNDER_WAY = "under way; this is what there is by now."


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the form holds: the slug of a study, and values of its inputs by name."""

    study: str
    inputs: dict[str, Any] = {}

    def text(self) -> str:
        """As the component's value."""
        return json.dumps(msgspec.to_builtins(self), ensure_ascii=False)


class Stopped(UserError):
    """The person pressed Stop."""


class Studies:
    """Runs studies for the page, one at a time for each session, which can stop its own and keeps what it was looking
    at."""

    def __init__(self, public: bool) -> None:
        self.public = public
        self._stops: dict[str, threading.Event] = {}
        self._looks: dict[str, dict[str, str]] = {}  # session whose study runs -> table and figure that it looks at

    def offered(self) -> list[StudyInfo]:
        """The studies that may run here: for strangers only those that are arithmetic."""
        return [info for info in engines.list_studies() if not (self.public and info.runs_models)]

    def run(self, value: object, request: gr.Request) -> Iterator[list[Any]]:
        """Compute a study; the record, the status line, and what the results show, at first of what is there by then.
        value: of the form. Bad inputs are a sentence; what was measured before a stop stays."""
        session, info = str(request.session_hash), None
        stop = self._stops.setdefault(session, threading.Event())
        stop.clear()
        try:
            asked, info = self._asked(value)
            if unknown := sorted(set(asked.inputs) - {p.name for p in info.inputs}):
                raise UserError(
                    f"there is no input '{unknown[0][:60]}'; it has {', '.join(p.name for p in info.inputs) or 'none'}."
                )
            for study, done in computed(info.slug, asked.inputs, stop):
                yield self._shown(study, session, done)
        except UserError as error:
            message = f"{info.title}: {error}" if info else str(error)
            yield [gr.skip(), say(message, "error"), *[gr.skip()] * 6]
        finally:
            stop.set()  # a visitor who left wants nothing more
            self._stops.pop(session, None)
            self._looks.pop(session, None)

    def _asked(self, value: object) -> tuple[Asked, StudyInfo]:
        """What the form asks for, with the study's declaration. Raises UserError."""
        asked = read_as(Asked, value, "`study` and `inputs`")
        info = next((info for info in self.offered() if info.slug == asked.study), None)
        if info is None:
            raise UserError(f"study '{asked.study[:60]}' does not run on this page.")
        return asked, info

    def _shown(self, study: Study, session: str, done: str) -> list[Any]:
        """All results; the table and the figure are those that the session looked at, where there are such."""
        tables = [(listed.title, listed.name) for listed in study.tables]
        figures = [(listed.title, listed.name) for listed in study.figures]
        runs = [(name, place) for place, name, _ in played(study)]
        looks = self._looks.get(session, {})
        table, figure = (_kept(looks.get(kind), names) for kind, names in (("table", tables), ("figure", figures)))
        ends = done or f"done in {study.seconds:.1f} s on {study.machine}."
        return [
            study.to_json(),
            say(f"{study.title}: {ends}"),
            gr.update(choices=tables, value=table, visible=True),
            rows(study, table or ""),
            gr.update(choices=figures, value=figure, visible=bool(figures)),
            study_figure(study.figure(figure or "")) if figures else None,
            receipts(study),
            gr.update(choices=runs, value=None, visible=bool(runs)),
        ]

    def stop(self, request: gr.Request) -> str:
        """Stop the session's own study at its next part."""
        if event := self._stops.get(str(request.session_hash)):
            event.set()
            return say("stopping at the next part.")
        return say("no study runs.")

    def table(self, record: Any, name: Any, request: gr.Request) -> str:
        """Another table of the record that the page holds. Raises gr.Error: anyone can send one."""
        return self._look("table", record, name, request, rows)

    def figure(self, record: Any, name: Any, request: gr.Request) -> Any:
        """Another figure of it. Raises gr.Error."""
        return self._look("figure", record, name, request, lambda study, name: study_figure(study.figure(name)))

    @alerts()
    def _look(self, kind: str, record: Any, name: Any, request: gr.Request, draw: Callable[[Study, str], Any]) -> Any:
        study = _read(record, name)
        drawn = draw(study, name)
        if (session := str(request.session_hash)) in self._stops:  # what is drawn next keeps to it
            self._looks.setdefault(session, {})[kind] = name
        return drawn


def computed(slug: str, inputs: dict[str, Any], stop: threading.Event) -> Iterator[tuple[Study, str]]:
    """(record, what to say beside it) of what a study has found by now, at most every second, and at the end the whole
    with "". Stopped it ends with what there is. Raises UserError as the study, and Stopped where nothing is there."""
    news: queue.SimpleQueue[tuple[Study, str] | BaseException] = queue.SimpleQueue()
    latest: list[Callable[[], Study]] = []
    parts, drawn = [0, 0], [-EVERY]

    def progress(done: int, total: int) -> None:
        parts[:] = done, total
        if stop.is_set():
            raise Stopped("stopped; nothing is shown of what was computed.")

    def partial(make: Callable[[], Study]) -> None:
        latest[:] = [make]
        if time.monotonic() - drawn[0] >= EVERY and not stop.is_set():
            news.put((make(), UNDER_WAY))
            drawn[0] = time.monotonic()

    def work() -> None:
        try:
            news.put((engines.study(slug, progress=progress, partial=partial, **inputs), ""))
        except Stopped as error:
            news.put((latest[0](), f"stopped after {parts[0]} of {parts[1]} parts.") if latest else error)
        except BaseException as error:  # the page's own thread says it
            news.put(error)

    threading.Thread(target=work, daemon=True).start()
    while True:
        update = news.get()
        if isinstance(update, BaseException):
            raise update
        yield update
        if update[1] != UNDER_WAY:
            return


def played(study: Study) -> list[tuple[str, str, Any]]:
    """(place, name, run) of points that say what plays them, each run once."""
    runs: dict[str, tuple[str, str, Any]] = {}
    for run in every_run(study):
        runs.setdefault(str(run[2]), run)
    return list(runs.values())


def every_run(study: Study) -> Iterator[tuple[str, str, Any]]:
    """(place, name, run) of every such point. A place is the name of a figure with the numbers of a series and of a
    point, as its dot has it."""
    for figure in study.figures:
        for j, series in enumerate(figure.series):
            for k, run in enumerate(series.runs):
                if run is not None:
                    name = f"{series.name}, {figure.x.title} = {series.x[k]:,g}"
                    yield f"{figure.name}.{j}.{k}", name, run


def _kept(name: str | None, names: list[tuple[str, str]]) -> str | None:
    """The name where it is one of these (title, name), else the first one's."""
    return name if name in [listed for _, listed in names] else names[0][1] if names else None


def section(public: bool, first_form: gr.HTML, form_status: gr.HTML, tabs: gr.Tabs) -> None:
    """The whole section. first_form: what a point fills which can be played; form_status: the line beside it."""
    studies = Studies(public)
    gr.Markdown(HELP)
    infos = studies.offered()
    left_out = [info.title for info in engines.list_studies() if info not in infos]
    if left_out:
        gr.Markdown(f"Not on a public page, for they run models: {', '.join(left_out)}.")
    for broken in engines.broken_studies():
        gr.Markdown(f"`{broken.module}` does not load: {broken.reason}")
    if not infos:
        return
    names = ("slug", "title", "paper", "summary", "departures")
    offered = [
        {name: getattr(info, name) for name in names} | {"params": [param_fields(p) for p in info.inputs]}
        for info in infos
    ]
    form = module(
        "page/study.js",
        "page.mountStudies(element, props)",
        value=Asked(infos[0].slug).text(),
        offered=json.dumps(offered, ensure_ascii=False),
        elem_id="study-form",
    )
    start, stop = either("study-go", ("Run study", "study-run"), ("Stop", "study-stop"))
    line = status(say("choose a study, set its inputs, press Run."), elem_id="study-status")
    record = gr.State("")
    which_figure = gr.Dropdown([], label="Figure", visible=False, elem_id="study-figure")
    plot = gr.Plot(show_label=False, min_width=320, elem_id="study-plot")
    which_table = gr.Dropdown([], label="Table", visible=False, elem_id="study-table")
    which_run = gr.Dropdown(
        [],
        label="Play a point",
        info="Puts a run with what the point measured into the first slot; a click on the point does it too.",
        visible=False,
        elem_id="study-play",
    )
    cells = table("", elem_id="study-rows")
    receipt_table = table("", elem_id="study-receipts")

    outputs = [record, line, which_table, cells, which_figure, plot, receipt_table, which_run]
    running = start.click(studies.run, form, outputs, show_progress_on=[line], **queued("study"))
    stop.click(studies.stop, None, line, **LIGHT)
    until("study-go", [running], stop)
    which_table.input(studies.table, [record, which_table], cells, **LIGHT)
    which_figure.input(studies.figure, [record, which_figure], plot, **LIGHT)
    clicked = dots("study-plot")
    for event, asks in ((which_run.input, which_run), (clicked.submit, clicked)):
        event(play, [record, asks], [first_form, form_status, line, tabs], **LIGHT)


@alerts()
def _read(record: Any, name: Any) -> Study:
    """The record that the page holds. Raises gr.Error: anyone can send one."""
    if not record or not isinstance(name, str):
        raise UserError("run a study first.")
    return engines.read_study(record)


def play(record: Any, wish: Any) -> tuple[Any, Any, Any, Any]:
    """The first slot's form with the run of a point, the status lines there and here, and the Explore tab. wish: a
    place, or the click of a dot."""
    place = asked_for(wish)
    chosen = next((run for at, _, run in every_run(_read(record, place)) if at == place), None)
    if chosen is None:
        refused = say("this point is not a run; choose one of those under Play a point.", "error")
        return gr.skip(), gr.skip(), refused, gr.skip()
    form = Form(chosen.method, chosen.model, chosen.params).text()
    words = f"Slot 1 holds {chosen.method} on {chosen.model}; press Run."
    return form, say(words, go="controls"), gr.skip(), gr.Tabs(selected="explore")


def asked_for(value: Any) -> str:
    """The place that a choice or a clicked dot names; "" for none."""
    dot = asked(value).get("dot", value)
    return dot if isinstance(dot, str) else ""


def rows(study: Study, name: str) -> str:
    """A table of the study as the page's table; of a long one the first rows."""
    study_table = study.table(name)
    shown = [
        [
            "-"
            if cell is None
            else f"{cell:.{column.digits}f}"
            if isinstance(cell, float) and column.digits is not None
            else f"{cell:.6g}"
            if isinstance(cell, float)
            else str(cell)
            for cell, column in zip(row, study_table.columns, strict=True)
        ]
        for row in study_table.rows[:SHOWN]
    ]
    more = f" The first {SHOWN} of {len(study_table.rows)} rows." if len(study_table.rows) > SHOWN else ""
    return fresh(
        caption=f"{study_table.note}{more}".strip(),
        columns=[c.head for c in study_table.columns],
        rows=shown,
        empty="-",
    )


def receipts(study: Study) -> str:
    """Receipts and notes."""
    lines = [[receipt.name, receipt.sentence, receipt.provenance] for receipt in study.receipts]
    lines += [["note", note, ""] for note in study.notes]
    given = ", ".join(f"{name}={value}" for name, value in study.inputs.items())
    return fresh(
        caption=f"Receipts and notes. Inputs: {given}",
        columns=["What", "Formula, numbers, result", "Origin"],
        rows=lines,
        empty="This study has no receipts.",
    )
