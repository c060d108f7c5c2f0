"""What a saved page says of its runs before they play: what ran on which prompt, what came of it, and what to watch.
All of it is recorded, or said by the scene, the recording or the method that the runs are of."""

from collections.abc import Sequence

import engines
from engines import Trace, UserError
from explorer import papers
from explorer.figures.calls import in_words, many, target_role
from explorer.figures.names import name_of
from explorer.figures.verdict import cut_at
from explorer.papers.schema import Recording
from explorer.runs.scenarios import Scenario, scenarios

LONGEST = 200  # characters of a prompt
ENDS = {"stopped": "stopped by hand", "budget": "ended by its budget", "failed": "failed"}


def caption(traces: Sequence[Trace]) -> list[str]:
    """Sentences of plain text: the prompt; a line for each run; what to watch, where anything is known of it."""
    prompts = list(dict.fromkeys(trace.header.prompt for trace in traces))
    runs = f"{len(traces)} runs" if len(traces) > 1 else "A run"
    sentences = (
        [f"{runs} on this prompt: “{_short(prompts[0])}”"] if len(prompts) == 1 else [f"{runs} on different prompts."]
    )
    sentences += [_of(trace, traces, len(prompts) > 1) for trace in traces]
    return sentences + _to_watch(traces)


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
    scene: Scenario | None = next(
        (scenario for scenario in scenarios({r.id for r in recorded}) if scenario.traces == shown), None
    )
    if scene:
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
