"""What a saved page says of its runs: what is recorded, and what the scene, the recording or the method says."""

from __future__ import annotations

import html

import engines
from explorer.export.caption import caption
from explorer.export.html import export_html
from explorer.runs.gallery import Gallery
from explorer.runs.scenarios import scenarios

PROMPT = "sort: Mia, Leo, Ada"


def test_runs_of_a_scene_are_told_with_its_sentence():
    gallery = Gallery()
    scene = scenarios({card.id for card in gallery.cards})[0]
    traces = [gallery.get(name) for name in scene.traces]
    told = caption(traces)
    assert told[0] == f"2 runs on this prompt: “{traces[0].header.prompt}”"
    assert told[-1] == f"What to watch: {scene.watch}" and len(told) == 4
    for trace, line in zip(traces, told[1:], strict=False):
        calls = sum(step.forwards["model"] for step in trace.steps)
        assert line.startswith(trace.header.title) and trace.header.models[0].name in line
        assert f"{trace.totals.tokens} tokens in {calls} model calls" in line


def test_another_run_is_told_by_its_method_and_says_where_it_was_cut():
    trace = engines.run("greedy", "tiny-ar-l", PROMPT, params={"max_new_tokens": 3})
    told = caption([trace])
    assert told[0] == f"A run on this prompt: “{PROMPT}”"
    assert told[1].endswith("tiny-ar-l: 3 tokens in 3 model calls, cut at its limit of 3 tokens.")
    assert told[2] == f"What to watch in {trace.header.title}: {engines.get_method('greedy').info.summary}"
    assert all(f"<p>{html.escape(line)}</p>" in export_html(trace) for line in told)


def test_a_prompt_is_never_markup():
    trace = engines.run("greedy", "tiny-ar-l", "sort: <img src=x onerror=alert(1)> {0}", params={"max_new_tokens": 2})
    assert "<img src=x" not in export_html(trace)
