"""Studies inside the *Sweeps* tab: choose one, set its inputs, run it; its tables, figures and receipts."""

from __future__ import annotations

import json
import threading
from typing import Any

import gradio as gr
import msgspec

import engines
from engines import Study, StudyInfo, UserError
from explorer.page.catalogue import told
from explorer.page.form import read_as
from explorer.page.parts import LIGHT, fresh, module, say, status, table
from explorer.page.study_figures import study_figure

HELP = """## Studies: laws, bounds and cost models
Some papers hold no decoding loop but a law of scaling, a bound or a cost model. Set its inputs and run it: every column
and every series says whether its numbers are *given*, *measured* here, *derived*, *modelled* or *published*, and the
receipts show each formula with the numbers put in. The same in a terminal: `decoding-explorer study`.
"""
SHOWN = 200  # rows of a table on the page


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
    """Runs studies for the page, one at a time for each session, which can stop its own."""

    def __init__(self, public: bool) -> None:
        self.public = public
        self._stops: dict[str, threading.Event] = {}

    def offered(self) -> list[StudyInfo]:
        """The studies that may run here: for strangers only those that are arithmetic."""
        return [info for info in engines.list_studies() if not (self.public and info.runs_models)]

    def run(self, value: object, request: gr.Request) -> list[Any]:
        """Compute a study; the record, the status line, and what the results show. value: of the form. Bad inputs are
        a sentence."""
        info: StudyInfo | None = None
        stop = self._stops.setdefault(str(request.session_hash), threading.Event())
        stop.clear()

        def progress(done: int, total: int) -> None:
            if stop.is_set():
                raise Stopped("stopped; nothing is shown of what was computed.")

        try:
            asked = read_as(Asked, value, "`study` and `inputs`")
            info = next((info for info in self.offered() if info.slug == asked.study), None)
            if info is None:
                raise UserError(f"study '{asked.study[:60]}' does not run on this page.")
            if unknown := sorted(set(asked.inputs) - {p.name for p in info.inputs}):
                raise UserError(
                    f"there is no input '{unknown[0][:60]}'; it has {', '.join(p.name for p in info.inputs) or 'none'}."
                )
            found = engines.study(info.slug, progress=progress, **asked.inputs)
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
    form = module(
        "page/study.js",
        "page.mountStudies(element, props)",
        value=Asked(infos[0].slug).text(),
        offered=json.dumps([_told(info) for info in infos], ensure_ascii=False),
        elem_id="study-form",
        themed=False,
    )
    with gr.Row():
        start = gr.Button("Run study", variant="primary", elem_id="study-run", min_width=120)
        stop = gr.Button("Stop", variant="stop", elem_id="study-stop", min_width=80)
    line = status(say("choose a study, set its inputs, press Run."), elem_id="study-status")
    record = gr.State("")
    which_figure = gr.Dropdown([], label="Figure", visible=False, elem_id="study-figure")
    plot = gr.Plot(show_label=False, min_width=320, elem_id="study-plot")
    which_table = gr.Dropdown([], label="Table", visible=False, elem_id="study-table")
    cells = table("", elem_id="study-rows")
    told = table("", elem_id="study-receipts")

    outputs = [record, line, which_table, cells, which_figure, plot, told]
    start.click(
        studies.run,
        form,
        outputs,
        concurrency_limit=1,
        concurrency_id="study",
        trigger_mode="once",
        show_progress="minimal",
        show_progress_on=[line],
        api_visibility="private",
    )
    stop.click(studies.stop, None, line, **LIGHT)
    which_table.input(_table_of, [record, which_table], cells, **LIGHT)
    which_figure.input(_figure_of, [record, which_figure], plot, **LIGHT)


def _told(info: StudyInfo) -> dict[str, Any]:
    """A study as `assets/page/study.js` draws it."""
    names = ("slug", "title", "paper", "summary", "departures")
    return {name: getattr(info, name) for name in names} | {"params": [told(p) for p in info.inputs]}


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
