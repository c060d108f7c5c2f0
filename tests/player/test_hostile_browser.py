"""Generated hostile traces in a real player: each is shown or refused with a sentence, and nothing in them becomes
markup or script."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page

from engines import TraceError, read_trace
from explorer import ASSETS
from explorer.export.bundle import bundle
from explorer.runs.gallery import gallery
from tests.page.hostile import MARKUP, ODD
from tests.page.mutations import broken_traces

PLAY = """(text) => {
  const { player, host } = window.stage;
  let thrown = "";
  try {
    player.load(text);
    const n = player.debug().steps;
    for (const t of [0, 1, Math.floor(n / 2), n]) player.seek(t);
  } catch (error) { thrown = String(error && error.stack || error); }
  const alien = host.querySelectorAll("img, script, style, iframe, object, embed, link, [onerror], [onload], "
    + "[onmouseover], a[href^='javascript']");
  const found = [...alien].map((one) => one.outerHTML.slice(0, 200));
  return { thrown, state: player.root.dataset.state, message: player.debug().message, alien: found,
    hit: window.hit ?? null };
}"""


@cache
def bodies() -> list[dict[str, Any]]:
    """The smallest recorded trace of each family."""
    chosen: dict[str, dict[str, Any]] = {}
    for card in sorted(gallery().cards, key=lambda card: card.steps):
        chosen.setdefault(card.family, json.loads(gallery().get(card.id).to_json()))
    return list(chosen.values())


def spoken(body: dict[str, Any], texts: list[str]) -> str:
    """The same run with other words in it, everywhere where a trace holds words."""
    word = lambda i: texts[i % len(texts)]  # noqa: E731
    body = json.loads(json.dumps(body))
    for i, piece in enumerate(body["pieces"]):
        piece["text"] = word(i)
    for i, name in enumerate(("title", "prompt", "departures", "family", "machine", "method")):
        body["header"][name] = word(i)
    for i, step in enumerate(body["steps"]):
        step["note"] = word(i)
        for span in step.get("spans", []):
            span["label"] = word(i)
    body["end"] |= {"text": word(0), "message": word(1)}
    return json.dumps(body)


@pytest.fixture(scope="module")
def stage(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    theme = (ASSETS / "theme.json").read_text("utf-8")
    page.evaluate(
        f"""() => {{ {bundle()}
        const host = document.createElement("div");
        document.body.append(host);
        window.stage = {{ host, player: dxModules.use("player/player.js").mount(host, {{ theme: {theme} }}) }}; }}"""
    )
    yield page
    assert wrong == []
    page.close()


def check(page: Page, text: str) -> dict[str, Any]:
    found = page.evaluate(PLAY, text)
    assert found["thrown"] == "" and found["alien"] == [] and found["hit"] is None, found
    assert found["state"] != "error" or 3 < len(found["message"]) < 600, found
    assert page.evaluate("({}).polluted ?? [].polluted ?? null") is None
    return found


FUZZ = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
Call = Callable[..., Any]


@settings(FUZZ, max_examples=60)
@given(text=st.deferred(lambda: broken_traces(bodies())))
def test_what_passes_the_check_can_be_played(stage: Page, text: str) -> None:
    try:
        read_trace(text)
    except TraceError:  # the server lets no such trace through
        stage.evaluate("(text) => { try { window.stage.player.load(text); } catch {} }", text)
        assert stage.evaluate("window.hit ?? null") is None
    else:
        check(stage, text)


@settings(FUZZ, max_examples=40)
@given(
    body=st.deferred(lambda: st.sampled_from(bodies())),
    texts=st.lists(st.one_of(st.sampled_from([*MARKUP, *ODD]), st.text(max_size=20)), min_size=1, max_size=6),
)
def test_hostile_words_stay_words(stage: Page, body: dict[str, Any], texts: list[str]) -> None:
    assert check(stage, spoken(body, texts))["state"] != "error"
