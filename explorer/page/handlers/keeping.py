"""What a person takes along: files, composed here from the shown traces and written by the browser, kept runs, and the
lines that repeat a run."""

from collections.abc import Mapping
from typing import Any

import gradio as gr

from engines import Trace, UserError
from explorer.export.events import events_csv
from explorer.page.feed import message
from explorer.page.handlers.desk import Desk
from explorer.page.my_runs import script
from explorer.page.parts import fresh, refusals, say


class Keeping(Desk):
    """Saves and keeps what the players show."""

    def keep_shown(self, request: gr.Request) -> tuple[Any, Any]:
        """Keep the traces that the players show, such as one that was opened from a file. Returns (bus, status)."""
        ids, sentence = self.my_runs.keep_all(self.session(request).traces, request)
        return message(ids=ids) if ids else gr.skip(), say(sentence, "ok" if ids else "error")

    def as_python(self, request: gr.Request) -> str:
        """The lines that repeat what is shown."""
        return script(self.session(request).traces)

    def chosen(self, what: Any, request: gr.Request) -> dict[int, Trace]:
        """The traces of one player or of "all". Raises UserError where there is none."""
        session = self.session(request)
        slots = sorted(slot for slot in session.held if what == "all" or str(slot) == str(what))
        chosen = {slot: trace for slot in slots if (trace := session.trace(slot)) is not None}
        if not chosen:
            raise UserError("there is nothing to save in that player; run or open something first.")
        return chosen

    @refusals(1, 2)
    def save(self, what: Any, kind: str, request: gr.Request) -> tuple[Any, Any]:
        """Compose files from the shown traces: `kind` is json (one player), html or csv (one or all). Returns
        (download, status)."""
        saved = files(self.chosen(what, request), kind)
        return fresh(files=saved), say("Saved " + ", ".join(file["name"] for file in saved) + ".", "ok")

    def save_json(self, what: Any, request: gr.Request) -> tuple[Any, Any]:
        """One trace file per chosen player."""
        return self.save(what, "json", request)

    def save_html(self, what: Any, request: gr.Request) -> tuple[Any, Any]:
        """One page with the chosen players."""
        return self.save(what, "html", request)

    def save_events(self, what: Any, request: gr.Request) -> tuple[Any, Any]:
        """The events of the chosen players as one table."""
        return self.save(what, "csv", request)


def files(traces: Mapping[int, Trace], kind: str) -> list[dict[str, str]]:
    """[{name, type, text}] by player: `kind` is json (a file for each player), csv or html (one for all)."""
    if kind == "json":
        return [_file(_name(slot, trace, kind), "application/json", trace.to_json()) for slot, trace in traces.items()]
    if kind == "csv":
        text = events_csv([trace for _, trace in sorted(traces.items())])
        return [_file("decoding-events.csv", "text/csv", text)]
    from explorer.export.html import export_html

    text = export_html(list(traces.values()), " and ".join(trace.header.title for trace in traces.values()))
    return [_file(named(traces, "html"), "text/html", text)]


def named(traces: Mapping[int, Trace], ending: str) -> str:
    """The name of a file that holds one player or a comparison."""
    return _name(min(traces), traces[min(traces)], ending) if len(traces) == 1 else f"decoding-comparison.{ending}"


def _file(name: str, kind: str, text: str) -> dict[str, str]:
    return {"name": name, "type": kind, "text": text}


def _name(slot: int, trace: Trace, ending: str) -> str:
    method = "".join(c for c in trace.header.method if c.isalnum() or c in "-_")[:40] or "trace"
    return f"{method}-seed{trace.header.seed}-player{slot + 1}.{ending}"
