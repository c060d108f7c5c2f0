"""The view of retrieved passages: the strip, three opinions of each token, who wrote it, and runs without retrieval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import engines
from engines.core.trace import Trace
from engines.tasks.documents import passage

Open = Callable[..., Any]
SHORT = {"chunk": 8, "keep": 24, "max_new_tokens": 16}


@pytest.fixture(scope="module")
def put_right() -> Trace:
    return engines.run("rapid", "tiny-ar-l", passage(1, 8).prompt, params=SHORT)


def test_the_strip_and_the_tokens_say_what_the_record_says(opened: Open, put_right: Trace) -> None:
    spans = put_right.steps[0].spans
    kept = [span for span in spans if span.kind == "retrieved"]
    for options in ({}, {"viewport": {"width": 390, "height": 800}}, {"color_scheme": "dark"}):
        page = opened([put_right], folded=True, **options).page
        view = page.locator('[data-view="Passages"]')
        page.evaluate("handles[0].seek(1)")
        strip, tokens = view.locator("svg.dx-tree").nth(0), view.locator("svg.dx-tree").nth(1)
        assert strip.locator("g[data-s=accepted]").count() == len(kept) > 0
        assert strip.locator("g[data-s=unreached]").count() == len(spans) - len(kept)
        assert "Uma has a yellow toy." in view.locator("ul").inner_text()
        said = view.locator(".dx-readout").first.inner_text()
        assert f"Retrieved: {len(kept)} of {len(spans)} passages" in said
        assert "2 tokens were accepted only because" in said
        under = [node.text_content() for node in tokens.locator("text.dx-small").all()]
        by = {"draft": "both", "retrieval": "view alone", "target": "the target"}
        assert under == [by[author] for author in put_right.steps[0].commits.authors]
        page.evaluate("handles[0].seek(0)")
        assert "In this step" not in view.locator(".dx-readout").first.inner_text()


def test_a_run_without_retrieval_does_not_show_it(opened: Open) -> None:
    trace = engines.run("prompt-lookup", "tiny-ar-l", "copy: Ada, Leo, Ada", params={"max_new_tokens": 12})
    page = opened([trace]).page
    page.evaluate("handles[0].seek(1)")
    assert not page.locator('[data-view="Passages"]').is_visible()
