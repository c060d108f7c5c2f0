"""*Why is it slow?*: at home it looks at a drafter and its lever derives; visitors have none; what is wrong is a
sentence."""

import json
import threading
from types import SimpleNamespace

import pytest
from playwright.sync_api import expect

from engines import UserError
from explorer.figures.diagnosed import lengths
from explorer.page.diagnosing import Diagnosing, findings
from tests.engines.conftest import GOLDEN
from tests.explorer.figures.test_drafting import FOUND

DRAFTERS = GOLDEN / "drafters"


def asking(public=False):
    limits = SimpleNamespace(check_prompt=lambda text: text)
    return Diagnosing(SimpleNamespace(catalogue=SimpleNamespace(open=not public), limits=limits))


def test_what_cannot_be_looked_at_is_said_and_a_visitor_loads_no_drafter():
    for given, words in (
        (("", "d", "x", 48), "no target is given"),
        (("t", " ", "x", 48), "no drafter is given"),
        (("t", "d", " \n ", 48), "0 prompts are given; give 1 to 50"),
        (("t", "d", "x", 2), "2 tokens are asked for; give 3 to 256"),
        (("t", "d", "x", None), "None tokens are asked for"),
    ):
        with pytest.raises(UserError, match=words):
            asking().read(*given)
    with pytest.raises(UserError, match="a public page loads no drafters"):
        asking(public=True).read("t", "d", "x", 48)


def test_a_sweep_that_goes_on_is_not_ended_by_it():
    session = SimpleNamespace(sweeping=SimpleNamespace(finished=threading.Event()))
    asked = Diagnosing(SimpleNamespace(session=lambda request: session))
    ((panel, line),) = asked.ask(None, "t", "d", "x", 48)
    assert "A sweep is going on" in json.loads(line)["text"] and panel != ""


def test_what_the_page_draws_holds_the_seconds_that_the_lever_derives_from():
    found = json.loads(findings(FOUND))
    assert found["rows"] == {"1": 0.01, "2": 0.011, "3": 0.012} and found["drafts"] == {"1": 0.001, "2": 0.002}
    assert [one["title"] for one in found["tables"]][-1] == "What a round costs here"
    assert found["report"].startswith("<!doctype html>") and json.loads(found["json"])["accepted"] == 0.9


def test_at_home_a_drafter_is_looked_at_and_one_that_is_not_there_is_refused(visit):
    screen = visit()
    page = screen.page
    screen.tab("Sweeps")
    screen.tab("Why is it slow?")
    drafter, panel = page.get_by_label("Drafter: hub id or folder"), page.locator(".why")
    page.get_by_label("Target: name, hub id or folder").fill("tiny-ar-m")
    drafter.fill("nobody here")
    page.get_by_label("Prompts, one a line").fill("13 59 30 58 48 5 57")
    page.get_by_label("Tokens behind each prompt").fill("12")
    page.locator("#why-start").click()
    expect(page.locator("#why-status .status")).to_contain_text("No drafter 'nobody here'", timeout=60_000)
    expect(page.locator("#why-start")).to_be_visible()
    expect(panel).to_have_count(0)
    page.get_by_label("Target: name, hub id or folder").fill(str(DRAFTERS / "mtp" / "verifier"))
    drafter.fill(str(DRAFTERS / "mtp" / "drafter"))
    page.locator("#why-start").click()
    expect(panel.locator("h2")).to_contain_text("drafter (mtp-layer) on verifier", timeout=60_000)
    with page.expect_download() as saved:
        panel.get_by_role("button", name="Save as JSON").click()
    cost = json.loads(saved.value.path().read_text("utf-8"))["cost"]
    rows, drafts = ({int(n): seconds for n, seconds in cost[name].items()} for name in ("rows", "drafts"))
    found = SimpleNamespace(cost=SimpleNamespace(rows=rows, drafts=drafts))
    panel.get_by_role("slider").fill("100")
    worth = max(one.speed for one in lengths(found, 1.0))
    expect(panel.locator("output")).to_contain_text(f"100 % of the drafts accepted: at best {worth:.2f}×")
