"""Files that a person saves: composed here from the shown traces, written by the browser."""

from __future__ import annotations

from collections.abc import Mapping

from engines import Trace
from explorer.export.events import events_csv


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
