"""Kept runs, links, imports and copied lines, as a visitor meets them; and what a shared server refuses."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from engines import Trace, UserError
from explorer.links import read_query
from explorer.page.my_runs import PAGE, MyRuns
from explorer.page.run_limits import Limits
from explorer.runs.gallery import Gallery
from explorer.runs.store import RunStore
from tests.page.conftest import HOSTILE, Screen, soon, visitor

RECORDS = Path(__file__).parents[1] / "explorer" / "records"
LIMITS = Limits(prompt_characters=1000, steps=50, seconds=60, public=False)


@pytest.fixture
def my_runs(recorded, tmp_path, monkeypatch) -> MyRuns:
    monkeypatch.setenv("EXPLORER_STORE", str(tmp_path / "runs"))
    return MyRuns.open(Gallery(recorded), LIMITS)


def copied(screen: Screen) -> str:
    """The link to what is shown, once it is in the clipboard."""
    button, said = screen.page.get_by_role("button", name="Copy link", exact=True), screen.page.locator("#share output")
    if not button.is_visible():
        screen.page.locator("#overflow button").first.click()
    screen.page.evaluate("navigator.clipboard.writeText('')")
    button.click()
    soon(screen.page, lambda: screen.page.evaluate("navigator.clipboard.readText()"))
    expect(said).to_have_text("Copied.")
    expect(screen.page.locator("#share textarea")).to_have_value(screen.page.evaluate("navigator.clipboard.readText()"))
    return screen.page.locator("#share textarea").input_value()


def follow(screen: Screen, query: str) -> None:
    screen.page.goto(f"{screen.address.rstrip('/')}/?{query}")


def test_a_run_is_kept_and_its_link_opens_it_after_a_restart(visit: Callable[..., Screen], shipped: str):
    """The other server has the same store, as this one has after a restart."""
    screen = visit()
    screen.run(1)
    screen.says("Done: 2 runs")
    screen.press("Model calls")
    screen.go(0, 3)
    text = screen.player(0).locator(".dx-board").inner_text()
    link = copied(screen)
    assert re.search(r"/\?run=[0-9a-f]{16},[0-9a-f]{16}&step=\d+(&of=2)?&clock=forwards$", link)
    again = visit(at=shipped)
    follow(again, link.split("?")[1])
    again.says("Opened from the link")
    again.at(0, 3)
    expect(again.page.locator('[data-unit="forwards"]')).to_have_attribute("aria-pressed", "true")
    expect(again.player(0).locator(".dx-board")).to_have_text(text, use_inner_text=True)
    expect(again.page.locator("#results .facts")).to_have_attribute("data-rows", "2")


def test_links_to_recorded_runs_and_to_none(visit, traces, recorded):
    name = min(path.stem for path in recorded.glob("[0-8]*.json"))
    screen = visit(folded=True)
    screen.wait(1, "ready")
    # What would ask has had its turn: it runs when it is mounted, the players are drawn after that.
    assert [url for url in screen.asked if re.search("/(queue|run|call)/", url)] == []
    follow(screen, f"gallery={name}&step=2&lane=entropy")
    screen.says("Opened from the link")
    expect(screen.player(0).locator("h2 > span")).to_have_text(traces[0].header.title)
    screen.at(0, 2)
    expect(screen.player(1)).to_be_hidden()
    expect(screen.page.locator("#panel-0 select").first).to_have_value("entropy")
    assert copied(screen).endswith(f"?gallery={name}&step=2&lane=entropy")
    screen.player(0).press("Home")
    screen.drawn()
    assert "step" not in copied(screen)
    follow(screen, f"gallery={name},none")
    screen.says("Opened from the link. There is no recorded trace 'none'.")
    follow(screen, "run=0123456789abcdef")
    screen.says("no run 0123456789abcdef here")


def test_my_runs_lists_pins_renames_deletes_and_opens(visit, traces):
    keep = RunStore(Path(os.environ["EXPLORER_STORE"]))
    other = Trace.from_json(traces[2].to_json())
    other.header.title, other.header.prompt = HOSTILE, HOSTILE
    name = keep.save(other)
    screen = visit()
    screen.tab("My runs")
    mine = screen.page.locator(f'#runs li[data-id="{name}"]')
    expect(mine).to_contain_text(HOSTILE[:40])
    mine.get_by_text("☆ Pin").click()
    expect(mine).to_have_attribute("data-pinned", "")
    mine.get_by_text("Rename").click()
    mine.locator("input").fill("my ${favourite} <run>")
    mine.locator("input").press("Enter")
    expect(mine.locator("strong")).to_have_text("my ${favourite} <run>")
    assert keep.card(name).pinned and keep.card(name).label == "my ${favourite} <run>"
    mine.get_by_text("Delete").click()
    expect(mine).to_have_count(0)
    screen.page.locator("#runs").get_by_text("Undo").click()
    expect(mine).to_have_attribute("data-pinned", "")
    mine.get_by_text("Add").click()
    screen.says("Added in player 3")
    screen.tab("My runs")
    mine.get_by_text("Open", exact=True).click()
    screen.says("From your runs")
    expect(screen.page).to_have_url(re.compile(f"run={name}$"))
    expect(screen.player(0).locator("h2 > span")).to_have_text(HOSTILE)
    screen.tab("My runs")
    mine.get_by_text("Delete").click()
    expect(mine).to_have_count(0)


def test_an_import_plays_and_says_what_is_not_recorded(visit):
    screen = visit()
    screen.tab("Save and open")
    screen.page.locator("#trace-file").set_input_files(RECORDS / "vllm-detailed.json")
    screen.says("Opened in player 3")
    player = screen.player(2)
    for figure in ("Tokens / call", "Model time"):
        expect(player.locator(".dx-figure", has_text=figure).locator("strong")).to_have_text("not recorded")
    player.press("End")
    expect(player).to_contain_text("blue because of")
    screen.press("Model calls")
    expect(player.locator(".dx-pill")).to_contain_text("no model calls recorded")
    screen.press("Copy link")
    expect(screen.page.locator("#share output")).to_contain_text("There is no link to player 3")
    screen.press("Keep in My runs")
    screen.says("Kept: 3 of 3")
    assert "?run=" in copied(screen)


def rows(my_runs: MyRuns, page: int = 0) -> dict:
    return json.loads(my_runs.listing(page))


def test_a_shared_server_lists_nothing_and_what_a_stranger_keeps_is_theirs(recorded, monkeypatch, tmp_path, traces):
    monkeypatch.delenv("EXPLORER_STORE")
    public = Limits(prompt_characters=10, steps=5, seconds=5, public=True)
    my_runs = MyRuns.open(Gallery(recorded), public)
    assert my_runs.keep is None and "keeps no runs" in rows(my_runs)["note"] and rows(my_runs)["rows"] == []
    assert my_runs.keep_all({0: traces[0]}, None)[0] == {}
    found, _, gone = my_runs.linked("?run=0123456789abcdef")
    assert not found and "keeps none" in gone[0]

    monkeypatch.setenv("EXPLORER_STORE", str(tmp_path))
    my_runs = MyRuns.open(Gallery(recorded), public)
    kept, said = my_runs.keep_all({0: traces[0]}, visitor(host="192.0.2.1"))
    assert my_runs.keep.card(kept[0]).owner == my_runs.keep.of("192.0.2.1").owner != ""
    assert "links" in said and "My runs" not in said
    for action in (
        {"act": "delete", "id": kept[0]},
        {"act": "pin", "id": kept[0], "on": True},
        {"act": "page", "page": 0},
    ):
        assert json.loads(my_runs.act(action))["rows"] == []
    assert my_runs.keep.get(kept[0]) == traces[0] and not my_runs.keep.card(kept[0]).pinned
    assert my_runs.linked(f"run={kept[0]}")[0][0][1] == traces[0]
    home = MyRuns.open(Gallery(recorded), LIMITS)
    kept, said = home.keep_all({0: traces[1]}, visitor())
    assert home.keep.card(kept[0]).owner == "" and "My runs" in said


def test_the_list_is_paged_newest_first(my_runs, traces, recorded, monkeypatch, tmp_path):
    for seed in range(PAGE + 3):
        one = Trace.from_json(traces[2].to_json())
        one.header.seed = seed
        my_runs.keep.save(one)
    first, second = rows(my_runs), rows(my_runs, 1)
    assert (len(first["rows"]), len(second["rows"]), first["pages"]) == (PAGE, 3, 2)
    when = [row["when"] for row in first["rows"] + second["rows"]]
    assert when == sorted(when, reverse=True) and rows(my_runs, 99)["page"] == 1
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EXPLORER_STORE", str(tmp_path / "file"))
    closed = MyRuns.open(Gallery(recorded), LIMITS)  # a folder that cannot be used is said and not fatal
    assert closed.keep is None and "cannot be kept" in rows(closed)["note"]


def test_whatever_the_list_is_asked_it_answers_with_itself(my_runs, traces):
    my_runs.keep.save(traces[0])
    rename = {"act": "rename", "id": "0" * 16, "label": "x" * 500}
    for action in ({}, {"act": "pin", "id": "../x"}, rename, {"act": "restore", "id": [1]}, {"act": ["open"]}):
        answer = json.loads(my_runs.act(action))
        assert len(answer["rows"]) == 1 and isinstance(answer["said"], str)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("run=a&step=-1", "step=-1"),
        ("run=a&of=2", "of=2"),
        ("run=a&clock=sun", "clock=sun"),
        ("run=a,b,c,d,e", "names 5 runs"),
        ("run=" + "a" * 3000, "longer than"),
        ("&".join(f"x{n}=1" for n in range(50)), "more than 20 parts"),
        (None, "longer than"),
    ],
)
def test_a_link_is_checked_like_any_input(query, sentence):
    assert read_query("?__theme=dark") is None and read_query("") is None
    with pytest.raises(UserError, match=re.escape(sentence)):
        read_query(query)
