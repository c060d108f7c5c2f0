"""One self-contained HTML file: the player, its colours and the traces; it opens from disk, offline, under a strict
policy."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

import engines
from engines import UserError
from explorer import papers
from explorer.export.bundle import bundle, own_scripts, scenes_script, scenes_styles, styles, views_of
from explorer.figures.calls import in_words, many, target_role
from explorer.figures.handed import shown
from explorer.figures.names import name_of
from explorer.figures.verdict import cut_at
from explorer.own_files import own_text
from explorer.papers.schema import Recording
from explorer.runs.scenarios import scenarios

if TYPE_CHECKING:
    from engines import Trace
    from explorer.lecture import Scene
    from explorer.runs.gallery import Gallery

LONGEST = 200  # characters of a prompt
ENDS = {"stopped": "stopped by hand", "budget": "ended by its budget", "failed": "failed"}
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
{told}
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
.page .told { max-width: 110ch; margin: 0 0 12px; font-size: 14px; line-height: 1.45; overflow-wrap: anywhere; }
.page .told p { margin: 0 0 4px; }
#toolbar { position: sticky; top: 8px; z-index: 30; }
#toolbar .dx-toolbar { box-shadow: 0 4px 18px rgb(0 0 0 / .08); }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 520px), 1fr)); gap: 18px;
  margin-top: 18px; align-items: start; }
.page footer { margin-top: 22px; font-size: 12.5px; color: var(--muted); }
@media (max-width: 560px) { .page { padding: 18px 10px; } #toolbar { position: static; } }
"""

_LECTURE_CSS = """
#scene { position: static; margin-bottom: 12px; }
.lecture, .lecture-door { font-family: system-ui, sans-serif; }
.panels > :has([data-state="empty"]) { display: none; }
:root[data-lecture] .page { max-width: none; padding: 12px clamp(8px, 1.6vw, 28px) 64px; }
:root[data-lecture] .page > :is(h1, footer, .lecture-door) { display: none; }
"""

_START = """
const [player, bar] = ["player", "toolbar"].map((name) => dxModules.use(`player/${name}.js`));
const read = (id) => JSON.parse(document.getElementById(id).textContent), theme = read("theme");
const panels = document.getElementById("panels"), sources = [...document.querySelectorAll("script[data-trace]")];
bar.mountToolbar(document.getElementById("toolbar"), { theme, slim: sources.length === 1 });
window.handles = sources.map((source, slot) => {
  const place = panels.appendChild(document.createElement("div"));
  const handle = player.mount(place, { slot, theme });
  handle.load(source.textContent);
  return handle;
});
"""


_LECTURE = """
const read = (id) => JSON.parse(document.getElementById(id).textContent), theme = read("theme"), told = read("lecture");
const panels = document.getElementById("panels"), bar = document.getElementById("toolbar");
dxModules.use("player/toolbar.js").mountToolbar(bar, { theme, slim: true });
window.handles = dxModules.use("page/offline.js").offline({
  known: [told.scenes[0].voice], scenes: told.scenes, first: told.scenes[0].voice.traces, before: bar, panels,
  mount: (slot) =>
    dxModules.use("player/player.js").mount(panels.appendChild(document.createElement("div")), { slot, theme }),
  source: async (id) => document.getElementById(`trace-${id}`).textContent,
}).players;
"""


def export_lecture(scenes: Sequence[Scene], recorded: Gallery) -> str:
    """The text of an HTML file that holds a lecture with its runs and opens without a network; with `?lecture` behind
    its address the scenes stand alone. Scenes without a recorded run are left out. Raises UserError where none is
    left."""
    known = {card.id for card in recorded.cards}
    kept = [scene for scene in scenes if scene.voice and scene.voice.needs <= known]
    if not kept:
        raise UserError("the lecture has no scene whose runs are recorded, so there is nothing to save.")
    needed = sorted({name for scene in kept if scene.voice for name in scene.voice.needs})
    traces = {name: recorded.get(name) for name in needed}
    lecture = msgspec.json.encode({"scenes": kept}).decode()
    every = [*traces.values()]
    texts = {name: shown(trace, every[i + 1 :]) for i, (name, trace) in enumerate(traces.items())}
    scenes_css, script = scenes_styles() + _PAGE_CSS + _LECTURE_CSS, scenes_script() + _LECTURE
    return _composed("Lecture", "", [_embed("lecture", lecture)], texts, scenes_css, script)


def export_html(traces: Trace | Iterable[Trace], title: str = "Decoding Explorer") -> str:
    """The text of an HTML file that plays one trace, or several side by side on one clock."""
    several = cast("list[Trace]", [traces] if hasattr(traces, "to_json") else list(traces))
    if not several:
        raise ValueError("there is nothing to export: give at least one trace")
    texts = {str(i): shown(trace, several[i + 1 :]) for i, trace in enumerate(several)}
    return _composed(title, _paragraphs(caption(several)), [], texts, _PAGE_CSS, _START)


def _composed(title: str, markup: str, data: list[str], traces: Mapping[str, str], css: str, last: str) -> str:
    """markup: what stands above the players; css: behind the player's own; last: the script that begins."""
    views = views_of(traces.values())
    parts = [_embed("theme", own_text("theme.json")), *data]
    parts += [_embed(f"trace-{name}", trace, " data-trace") for name, trace in traces.items()]
    script = "</script>\n<script>\n".join([bundle(views), *own_scripts(views), last])
    texts = {"title": html.escape(title), "told": markup, "css": styles() + css, "data": "\n".join(parts)}
    return _PAGE.format(policy=POLICY, script=script, **texts)


def _paragraphs(sentences: Sequence[str]) -> str:
    """Sentences as a block of their own; nothing in them is markup."""
    lines = "\n".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)
    return f'<section class="told" aria-label="What is shown">\n{lines}\n</section>' if sentences else ""


def _embed(name: str, text: str, mark: str = "") -> str:
    safe = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}"{mark}>{safe}</script>'


# --- what a page says of its runs before they play; all of it is recorded, or said by the scene, the recording or the
# method that the runs are of


def caption(traces: Sequence[Trace]) -> list[str]:
    """Sentences of plain text: the prompt; a line for each run; what to watch, where anything is known of it."""
    prompts = list(dict.fromkeys(trace.header.prompt for trace in traces))
    runs = f"{len(traces)} runs" if len(traces) > 1 else "A run"
    asked = f"{runs} on this prompt: “{_short(prompts[0])}”" if len(prompts) == 1 else f"{runs} on different prompts."
    return [asked, *(_of(trace, traces, len(prompts) > 1) for trace in traces), *_to_watch(traces)]


def _of(trace: Trace, traces: Sequence[Trace], prompt: bool) -> str:
    models = " with ".join(model.name for model in trace.header.models)
    parts = [f"{many(trace.totals.tokens, 'token')}"] if "tokens" not in trace.header.missing else []
    if "forwards" not in trace.header.missing:
        parts.append(f"in {in_words(trace.steps, target_role(trace))}")
    cut = cut_at(trace)
    end = f"cut at its limit of {cut} tokens" if cut is not None else ENDS.get(trace.end.reason, "")
    what = ", ".join(filter(None, [" ".join(parts), end]))
    where = f" on {models}" if models else ""
    asked = f", asked “{_short(trace.header.prompt)}”" if prompt else ""
    return f"{name_of(trace, traces)}{where}{asked}: {what or 'nothing of its cost was recorded'}."


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST else f"{flat[:LONGEST]}…"


def _to_watch(traces: Sequence[Trace]) -> list[str]:
    """Of the scene that shows these runs, else of each recording, else what the method is."""
    recorded = papers.read().recordings()
    known = [next((recording for recording in recorded if _is_of(trace, recording)), None) for trace in traces]
    shown = tuple(recording.id for recording in known if recording)
    if scene := next((scene for scene in scenarios({r.id for r in recorded}) if scene.traces == shown), None):
        return [f"What to watch: {scene.watch}"]
    texts = [recording.watch if recording else _summary(trace) for trace, recording in zip(traces, known, strict=True)]
    named = [(trace.header.title, text) for trace, text in zip(traces, texts, strict=True) if text]
    return list(dict.fromkeys(f"What to watch in {title}: {text}" for title, text in named))


def _is_of(trace: Trace, entry: Recording) -> bool:
    """Whether a run was made by the recipe of a recording, with nothing changed on the way."""
    header = trace.header
    made = (header.method, header.prompt, header.seed, [model.name for model in header.models[:1]])
    if made != (entry.method, entry.prompt, entry.seed, [entry.model]) or header.edits or header.origin:
        return False
    usual = {param.name: param.default for param in engines.get_method(entry.method).info.params}
    return {**usual, **entry.params} == dict(header.params)


def _summary(trace: Trace) -> str:
    if trace.header.imported_from:
        return ""
    try:
        return engines.get_method(trace.header.method).info.summary
    except UserError:
        return ""
