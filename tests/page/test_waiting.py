"""From the click on Run to the last token a page is never silent: the earlier boards leave, the players say what is
read, loaded or waited for, and then how much is written and how fast."""

import re

from playwright.sync_api import expect

from engines.models.loading import sizing
from explorer.page import starting
from explorer.page.catalogue import Form
from explorer.page.run_limits import Limits
from tests.engines.conftest import GOLDEN
from tests.page.conftest import PROMPT, first_model

PILLS = """() => { window.told = []; window.gone = false;
const look = () => {
  const seen = (what) => document.querySelector(what).checkVisibility({ visibilityProperty: true });
  window.gone ||= !seen('#panel-0 .dx-board') && !seen('#toolbar .dx-place');
  for (const [slot, pill] of document.querySelectorAll('#players .dx-pill').entries()) {
    const text = `${slot} ${pill.textContent}`;
    if (!told.includes(text)) told.push(text);
  } };
new MutationObserver(look).observe(document.querySelector('#players'),
  { subtree: true, childList: true, characterData: true, attributes: true }); }"""


def test_the_earlier_boards_leave_at_once_and_the_players_count_what_is_written(visit, slowly):
    screen = visit()
    screen.page.evaluate(PILLS)
    screen.prompt(PROMPT)
    for slot, slug in enumerate(("greedy", "prompt-lookup")):
        screen.method(slot, slug)
        screen.model(slot, first_model("causal"))
    screen.press("Run")
    board = screen.player(0).locator(".dx-board")
    screen.until("gone")  # before anything of the new run is there
    screen.wait(1, "done")
    expect(board).to_be_visible()
    said = [one[2:] for one in screen.page.evaluate("told") if one.startswith("0 ")]
    said = said[said.index("reading the prompt") :]  # filling the form moves what is around it, too
    prompt = re.search(r"Prompt, (\d+) tokens", screen.player(0).inner_text())
    assert prompt and f"reading {prompt[1]} tokens" in said
    counts = [one for one in map(re.compile(r"(\d+) of (\d+) written(?:, ([\d.]+) tokens/s)?").fullmatch, said) if one]
    assert counts and counts[0][3] is None, "one token is no speed yet"
    assert len({one[2] for one in counts}) == 1 and all(float(one[3]) > 0 for one in counts[1:])
    screen.prompt(" ")
    screen.press("Run")  # is refused: the boards had left, and come back
    expect(screen.page.locator("#status .status").first).to_have_attribute("data-kind", "error")
    expect(board).to_be_visible()


def test_what_a_large_model_takes_is_told_while_it_is_loaded(monkeypatch):
    monkeypatch.setattr(sizing, "LARGE", 100_000)
    monkeypatch.setattr(starting, "lent", lambda: False)
    limits = Limits(1000, 100, 60, public=False)
    mixture = str(GOLDEN / "diffusion2026" / "llada2" / "checkpoint")
    assert starting.needs(Form("llada2", mixture, {}), limits) == f"{mixture} · 0.302 MB"
    assert starting.needs(Form("greedy", "tiny-ar-l", {}), limits) == ""
    assert starting.needs(Form("greedy", "nobody/here/at/all", {}), limits) == ""
