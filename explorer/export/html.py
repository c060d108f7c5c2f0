"""One self-contained HTML file: the player, its colours and the traces; it opens from disk, offline, under a strict
policy."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from engines import read_trace
from explorer.export.bundle import bundle, own_scripts, styles, views_of
from explorer.figures.verdict import Mark, judge
from explorer.own_files import own_text

if TYPE_CHECKING:
    from engines import Trace

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{css}
</style>
</head>
<body>
<main class="dx page">
<h1>{title}</h1>
<div id="toolbar"></div>
<div id="panels" class="panels"></div>
<footer>Recorded runs, played from this file. Times were measured when the runs were recorded;
  nothing is computed again.</footer>
</main>
{data}
<script>
{script}
</script>
</body>
</html>
"""

_PAGE_CSS = """
body { margin: 0; }
.page { min-height: 100vh; background: var(--page); padding: 16px max(16px, calc(50vw - 760px)); }
.page h1 { margin: 0 0 10px; font-size: 20px; line-height: 1.25; font-weight: 680; overflow-wrap: anywhere; }
#toolbar { position: sticky; top: 8px; z-index: 30; }
#toolbar .dx-toolbar { box-shadow: 0 4px 18px rgb(0 0 0 / .08); }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 520px), 1fr)); gap: 18px;
  margin-top: 18px; align-items: start; }
.page footer { margin-top: 22px; font-size: 12.5px; color: var(--muted); }
@media (max-width: 560px) { .page { padding: 18px 10px; } #toolbar { position: static; } }
"""

_START = """
const player = modules["player.js"], read = (id) => JSON.parse(document.getElementById(id).textContent);
const theme = read("theme"), panels = document.getElementById("panels");
const sources = [...document.querySelectorAll("script[data-trace]")], marks = read("marks");
modules["toolbar.js"].mountToolbar(document.getElementById("toolbar"), { theme, slim: sources.length === 1 });
window.handles = sources.map((source, slot) => {
  const place = panels.appendChild(document.createElement("div"));
  const handle = player.mount(place, { slot, theme });
  handle.load(source.textContent, { verdict: marks[slot] });
  return handle;
});
"""


def export_html(traces: Trace | Iterable[Trace], title: str = "Decoding Explorer") -> str:
    """The text of an HTML file that plays one trace, or several side by side on one clock."""
    several = cast("list[Trace]", [traces] if hasattr(traces, "to_json") else list(traces))
    if not several:
        raise ValueError("there is nothing to export: give at least one trace")
    return export_json([trace.to_json() for trace in several], title, [judge(trace) for trace in several])


def export_json(traces: list[str], title: str, marks: Sequence[Mark | None] | None = None) -> str:
    """The same for traces that are JSON already, such as the recorded ones of the gallery. marks: those of their
    answers, where a task's exact check knows them; None checks them here."""
    marks = [judge(read_trace(trace)) for trace in traces] if marks is None else marks
    data = [_embed("theme", own_text("theme.json")), _embed("marks", msgspec.json.encode(marks).decode())]
    data += [_embed(f"trace-{number}", trace, " data-trace") for number, trace in enumerate(traces)]
    css = styles() + _PAGE_CSS
    views = views_of(traces)
    own = [script + "</script>\n<script>\n" for script in own_scripts(views)]
    script = bundle(views) + ("</script>\n<script>\n" if own else "") + "".join(own) + _START
    return _PAGE.format(policy=POLICY, title=html.escape(title), css=css, data="\n".join(data), script=script)


def _embed(name: str, text: str, mark: str = "") -> str:
    safe = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}"{mark}>{safe}</script>'
