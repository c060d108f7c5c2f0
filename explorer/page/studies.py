"""Studies inside the *Sweeps* tab: choose one, set its inputs, run it; its tables, figures and receipts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import gradio as gr

import engines
from engines import Param, Study, StudyInfo, UserError
from explorer.page.parts import LIGHT, fresh, say, status, table
from explorer.page.study_figures import study_figure

HELP = """## Studies: laws, bounds and cost models
Some papers hold no decoding loop but a law of scaling, a bound or a cost model. Set its inputs and run it: every column
and every series says whether its numbers are *given*, *measured* here, *derived*, *modelled* or *published*, and the
receipts show each formula with the numbers put in. The same in a terminal: `decoding-explorer study`.
"""
SHOWN = 200  # rows of a table on the page


class Stopped(UserError):
    """The person pressed Stop."""


class Studies:
    """Runs studies for the page, one at a time for each session, which can stop its own."""

    def __init__(self, public: bool) -> None:
        self.public = public
        self._stops: dict[str, threading.Event] = {}

    def offered(self) -> list[StudyInfo]:
        """The studies that may run here: for strangers only those that are arithmetic."""
        return [info for info in engines.list_studies() if not (self.public and info.runs_models)]

    def run(self, slug: str, request: gr.Request, *values: Any) -> list[Any]:
        """Compute a study; the record, the status line, and what the results show. Bad inputs are a sentence."""
        info = next((info for info in self.offered() if info.slug == slug), None)
        stop = self._stops.setdefault(str(request.session_hash), threading.Event())
        stop.clear()

        def progress(done: int, total: int) -> None:
            if stop.is_set():
                raise Stopped("stopped; nothing is shown of what was computed.")

        try:
            if info is None:
                raise UserError(f"study '{str(slug)[:60]}' does not run on this page.")
            inputs = {p.name: value for p, value in zip(info.inputs, values, strict=False)}
            found = engines.study(slug, progress=progress, **inputs)
        except UserError as error:
            said = f"{info.title}: {error}" if info else str(error)
            return [gr.skip(), say(said, "error"), *[gr.skip()] * 5]
        finally:
            self._stops.pop(str(request.session_hash), None)
        tables = [(one.title, one.name) for one in found.tables]
        figures = [(one.title, one.name) for one in found.figures]
        return [
            found.to_json(),
            say(f"{found.title}: done in {found.seconds:.1f} s on {found.machine}."),
            gr.update(choices=tables, value=tables[0][1], visible=True),
            rows(found, tables[0][1]),
            gr.update(choices=figures, value=figures[0][1] if figures else None, visible=bool(figures)),
            study_figure(found.figure()) if figures else None,
            receipts(found),
        ]

    def stop(self, request: gr.Request) -> str:
        """Stop the session's own study at its next part."""
        if event := self._stops.get(str(request.session_hash)):
            event.set()
            return say("stopping at the next part.")
        return say("no study runs.")


def section(public: bool) -> None:
    """The whole section."""
    studies = Studies(public)
    gr.Markdown(HELP)
    infos = studies.offered()
    left_out = [info.title for info in engines.list_studies() if info not in infos]
    if left_out:
        gr.Markdown(f"Not on a public page, for they run models: {', '.join(left_out)}.")
    for one in engines.broken_studies():
        gr.Markdown(f"`{one.module}` does not load: {one.reason}")
    if not infos:
        return
    chosen = gr.Dropdown(
        [(info.title, info.slug) for info in infos], value=infos[0].slug, label="Study", elem_id="study"
    )
    forms = [_form(info, shown=info is infos[0]) for info in infos]
    with gr.Row():
        stop = gr.Button("Stop", variant="stop", elem_id="study-stop", min_width=80)
    line = status(say("choose a study, set its inputs, press Run."), elem_id="study-status")
    record = gr.State("")
    which_figure = gr.Dropdown([], label="Figure", visible=False, elem_id="study-figure")
    plot = gr.Plot(show_label=False, min_width=320, elem_id="study-plot")
    which_table = gr.Dropdown([], label="Table", visible=False, elem_id="study-table")
    cells = table("", elem_id="study-rows")
    told = table("", elem_id="study-receipts")

    outputs = [record, line, which_table, cells, which_figure, plot, told]
    for info, (_, fields, button) in zip(infos, forms, strict=True):
        button.click(
            _runner(studies, info.slug),
            fields,
            outputs,
            concurrency_limit=1,
            concurrency_id="study",
            trigger_mode="once",
            show_progress="minimal",
            show_progress_on=[line],
            api_visibility="private",
        )
    chosen.input(partial(_only, [info.slug for info in infos]), chosen, [box for box, _, _ in forms], **LIGHT)
    stop.click(studies.stop, None, line, **LIGHT)
    which_table.input(_table_of, [record, which_table], cells, **LIGHT)
    which_figure.input(_figure_of, [record, which_figure], plot, **LIGHT)


def _form(info: StudyInfo, shown: bool) -> tuple[gr.Column, list[Any], gr.Button]:
    """A study's inputs, drawn from its declaration, and its button."""
    with gr.Column(visible=shown) as box:
        gr.Markdown(f"**{info.title}** ({info.paper}). {info.summary}\n\nDeparts from the paper: {info.departures}")
        with gr.Row():
            fields = [field(info.slug, p) for p in info.inputs]
        button = gr.Button("Run study", variant="primary", elem_id=f"study-run-{info.slug}")
    return box, fields, button


def field(slug: str, p: Param) -> Any:
    """The control of a declared input."""
    look: dict[str, Any] = {
        "value": p.default,
        "label": f"{p.name} ({p.symbol})" if p.symbol else p.name,
        "info": p.sees,
        "elem_id": f"study-{slug}-{p.name}",
        "interactive": True,
        "min_width": 180,
    }
    if p.kind == "bool":
        return gr.Checkbox(**look)
    if p.kind == "choice":
        return gr.Dropdown(list(p.choices), **look)
    if p.kind == "text":
        return gr.Textbox(max_length=p.longest or 2000, **look)
    return gr.Number(minimum=p.low, maximum=p.high, step=p.step, precision=0 if p.kind == "int" else None, **look)


def _runner(studies: Studies, slug: str) -> Any:
    def run(request: gr.Request, *values: Any) -> list[Any]:
        return studies.run(slug, request, *values)

    return run


def _only(slugs: Sequence[str], chosen: Any) -> Any:
    shown = [gr.update(visible=slug == chosen) for slug in slugs]
    return shown if len(shown) > 1 else shown[0]


def _read(record: Any, name: Any) -> Study:
    """The record that the page holds. Raises gr.Error: anyone can send one."""
    try:
        if not record or not isinstance(name, str):
            raise UserError("run a study first.")
        return engines.read_study(record)
    except UserError as error:
        raise gr.Error(str(error), print_exception=False) from None


def _table_of(record: Any, name: Any) -> str:
    found = _read(record, name)
    try:
        return rows(found, name)
    except UserError as error:
        raise gr.Error(str(error), print_exception=False) from None


def _figure_of(record: Any, name: Any) -> Any:
    found = _read(record, name)
    try:
        return study_figure(found.figure(name))
    except UserError as error:
        raise gr.Error(str(error), print_exception=False) from None


def rows(study: Study, name: str) -> str:
    """A table of the study as the page's table; of a long one the first rows."""
    found = study.table(name)
    shown = [
        [
            "-"
            if cell is None
            else f"{cell:.{column.digits}f}"
            if isinstance(cell, float) and column.digits is not None
            else f"{cell:.6g}"
            if isinstance(cell, float)
            else str(cell)
            for cell, column in zip(row, found.columns, strict=True)
        ]
        for row in found.rows[:SHOWN]
    ]
    more = f" The first {SHOWN} of {len(found.rows)} rows." if len(found.rows) > SHOWN else ""
    return fresh(caption=f"{found.note}{more}".strip(), columns=[c.head for c in found.columns], rows=shown, empty="-")


def receipts(study: Study) -> str:
    """Receipts and notes."""
    lines = [[one.name, one.sentence, one.provenance] for one in study.receipts]
    lines += [["note", note, ""] for note in study.notes]
    given = ", ".join(f"{name}={value}" for name, value in study.inputs.items())
    return fresh(
        caption=f"Receipts and notes. Inputs: {given}",
        columns=["What", "Formula, numbers, result", "Origin"],
        rows=lines,
        empty="This study has no receipts.",
    )
