"""Lessons, glossary and the tour, in headless Chromium."""

from __future__ import annotations

import re

import msgspec
import pytest
from playwright.sync_api import expect

import engines
from explorer import ASSETS
from explorer.export.bundle import views
from explorer.page import learn
from explorer.page.learn import payload
from explorer.papers.lessons import lessons
from explorer.runs.gallery import Gallery


def test_the_payload_tells_every_lesson_and_no_claim():
    sent = payload()
    assert [one["method"] for one in sent["lessons"]] == [one.method for one in lessons()]
    assert all(set(stop) == {"step", "say"} for one in sent["lessons"] for stop in one["stops"])
    assert all(one["title"] and one["prompt"] and one["models"] for one in sent["lessons"])


def test_a_lesson_is_called_lossless_by_the_parameters_of_its_run(tmp_path, monkeypatch):
    """Medusa promises the greedy text by its defaults, and nothing when a likely token may stand."""
    lesson = next(one for one in lessons() if one.method == "medusa")
    info = engines.get_method("medusa").info
    for name, params in (("kept", {}), ("lost", {"acceptance": "typical", "temperature": 0.7})):
        trace = engines.run("medusa", "tiny-ar-l", "add: 4 + 5", params={"max_new_tokens": 4, **params})
        assert info.keeps(trace.header.params) == trace.header.lossless == (name == "kept")
        (tmp_path / f"{name}.json").write_text(trace.to_json(), "utf-8")
    told = [msgspec.structs.replace(lesson, method="medusa", trace=name) for name in ("kept", "lost")]
    monkeypatch.setattr(learn, "lessons", lambda: told)
    monkeypatch.setattr(learn, "gallery", lambda: Gallery(tmp_path))
    monkeypatch.setattr(learn.files, "address", lambda path: f"/{path.name}")
    assert info.lossless and [one["lossless"] for one in payload()["lessons"]] == [True, False]
    assert [one["dtypes"] for one in payload()["lessons"]] == [["float32"], ["float32"]]


def test_lessons_look_at_views_that_the_player_has():
    named = {lesson.view for lesson in lessons() if lesson.view}
    assert named and named <= {view.name for view in views()}


def test_each_lesson_looks_at_scores_that_its_run_has_at_every_stop_that_names_them():
    from explorer.page.learn import lane
    from explorer.runs.gallery import gallery

    looked = {}
    for lesson in lessons():
        if not (looked_at := lane(lesson)):
            continue
        looked[lesson.method] = looked_at
        steps = gallery().get(lesson.trace).steps
        assert any(one.name == looked_at for step in steps for one in step.scores), lesson.method
        for stop in lesson.stops:
            for claim in stop.check.lanes:
                recorded = {one.name for one in steps[(claim.step or stop.step) - 1].scores}
                assert claim.lane in recorded, (lesson.method, stop.step)
    assert "fused" in looked.values(), "the lesson on credit says: watch 'fused'"


def test_its_modules_set_text_only_and_stay_on_this_server():
    folder = ASSETS / "learn"
    for path in sorted(folder.glob("*")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?:", text
        ), path.name
        assert not re.search(r"#[0-9a-f]{3,8}\b(?=[;\s,)])|\bhsl\(", text), f"{path.name} holds a colour of its own"
    assert "cookie" not in "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.js"))


def test_a_lesson_moves_its_own_player(visit):
    screen = visit()
    screen.player(0).press("ArrowRight")
    assert screen.step(0) == 1
    assert screen.page.locator(".learn").count() == 0, "nothing of it is there before it is opened"
    screen.tab("Learn")
    learn = screen.page.locator("#lessons")
    panel = learn.locator(".dx-panel").first
    expect(panel).to_have_attribute("data-state", "ready")
    told = lessons()[2]
    learn.locator(".learn-list button").nth(2).click()
    expect(learn.locator(".learn-text h2").first).to_have_text(payload()["lessons"][2]["title"])
    expect(panel).to_have_attribute("data-state", "ready")
    expect(panel).to_have_attribute("data-step", str(told.stops[0].step))
    for stop in (told.stops[1], told.stops[0]):
        learn.get_by_role("button", name=f"Step {stop.step}", exact=True).click()
        expect(panel).to_have_attribute("data-step", str(stop.step))
        expect(learn.locator(".learn-say")).to_have_text(f"Step {stop.step}: {stop.say}")
        expect(learn.get_by_role("button", name=f"Step {stop.step}", exact=True)).to_have_attribute(
            "aria-pressed", "true"
        )
    board = panel.locator("[data-view=Tokens]")
    assert board.bounding_box()["y"] < 1000, "the board is in sight"
    answer = learn.locator(".learn-answer p")
    expect(answer).to_be_hidden()
    learn.locator(".learn-answer summary").press("Enter")
    expect(answer).to_have_text(told.answer)
    learn.locator(".learn-words button").first.click()
    expect(learn.locator(".learn-meaning")).to_contain_text(told.terms[0])
    learn.get_by_role("button", name="in the glossary").click()
    expect(learn.locator(".learn-terms dt").first).to_have_text(told.terms[0])
    expect(learn.get_by_label("Search the glossary")).to_be_focused()
    learn.locator(".learn-list button").first.click()
    expect(learn.locator(".learn-text h2").first).to_have_text(payload()["lessons"][0]["title"])
    learn.get_by_role("button", name=re.compile("^Next: ")).click()
    expect(learn.locator(".learn-text h2").first).to_have_text(payload()["lessons"][1]["title"])
    assert screen.step(0) == 1, "the players of Explore stay where they are"


def test_a_lesson_opens_at_its_first_stop_with_its_lane_and_is_ticked_off(visit):
    screen = visit(viewport={"width": 1280, "height": 900})
    told = next(one for one in payload()["lessons"] if one["lane"] not in ("", "confidence") and len(one["runs"]) == 1)
    screen.tab("Learn")
    learn = screen.page.locator("#lessons")
    panel = learn.locator(".dx-panel").first
    option = learn.locator(".learn-list button", has_text=re.compile(f"^{told['title']}"))
    option.click()
    expect(panel).to_have_attribute("data-step", str(told["stops"][0]["step"]))
    lane = panel.locator("select").filter(has=screen.page.locator(f'option[value="{told["lane"]}"]')).first
    expect(lane).to_have_value(told["lane"])
    expect(option).to_have_text(f"{told['title']}1 of {len(told['stops'])}")
    for stop in told["stops"]:
        learn.get_by_role("button", name=f"Step {stop['step']}", exact=True).click()
    expect(option).to_have_text(f"{told['title']}✓ seen")
    middles = """[...document.querySelectorAll("#lessons .dx-toolbar > *")].filter((node) => node.offsetHeight)
        .map((node) => node.getBoundingClientRect()).map((r) => r.top + r.height / 2)"""
    tops = screen.page.evaluate(middles)
    assert max(tops) - min(tops) < 12, f"the toolbar is one row: {tops}"
    screen.page.reload()
    screen.wait(0, "ready")
    screen.tab("Learn")
    expect(option).to_have_text(f"{told['title']}✓ seen")


def test_a_lesson_on_a_difference_shows_both_runs_on_one_clock(visit):
    screen = visit()
    told = next(one for one in payload()["lessons"] if one["method"] == "dparallel")
    assert [run["id"] for run in told["runs"]] == ["38-dparallel-trained", "24-dparallel-sort"]
    screen.tab("Learn")
    learn = screen.page.locator("#lessons")
    panels = learn.locator(".dx-panel")
    expect(panels).to_have_count(1)
    learn.locator(".learn-list button", has_text=re.compile(f"^{told['title']}")).click()
    expect(panels).to_have_count(2)
    for stop in told["stops"][1:]:
        learn.get_by_role("button", name=f"Step {stop['step']}", exact=True).click()
        for panel in panels.all():
            expect(panel).to_have_attribute("data-step", str(stop["step"]))
    expect(learn.locator(".learn-stage > section > h3")).to_have_text([run["caption"] for run in told["runs"]])
    learn.locator(".learn-list button").first.click()
    expect(panels.nth(1)).to_be_hidden()
    expect(learn.locator(".learn-stage > section > h3").first).to_be_hidden()


def test_a_stop_chosen_while_the_run_still_loads_is_where_the_lesson_opens(visit):
    screen = visit()
    told = next(one for one in payload()["lessons"] if one["method"] == "dparallel")
    held = []
    files = re.compile("|".join(re.escape(run["id"]) for run in told["runs"]))
    screen.page.route(files, lambda route: held.append(route))
    screen.tab("Learn")
    learn = screen.page.locator("#lessons")
    learn.locator(".learn-list button", has_text=re.compile(f"^{told['title']}")).click()
    stop = told["stops"][-1]
    learn.get_by_role("button", name=f"Step {stop['step']}", exact=True).click()
    expect(learn.locator(".dx-panel")).to_have_count(2)
    while len(held) < 2:
        screen.page.wait_for_timeout(20)
    for route in held:
        route.continue_()
    for panel in learn.locator(".dx-panel").all():
        expect(panel).to_have_attribute("data-step", str(stop["step"]))
    expect(learn.locator(".learn-say")).to_contain_text(stop["say"])


def test_who_declines_the_tour_is_not_asked_again(visit):
    screen = visit()
    offer = screen.page.locator(".tour-offer")
    offer.get_by_role("button", name="Not now").press("Enter")
    expect(offer).to_have_count(0)
    expect(screen.player(0)).to_be_focused()
    screen.page.keyboard.press("Space")
    expect(screen.player(0)).not_to_have_attribute("data-step", "0")
    screen.page.reload()
    screen.wait(0, "ready")
    expect(screen.page.get_by_role("button", name="Tour", exact=True)).to_be_visible()
    expect(offer).to_have_count(0)


def test_escape_ends_the_tour_at_the_player_and_another_tab_closes_it(visit):
    screen = visit(reduced_motion="reduce")
    box, start = screen.page.get_by_role("dialog"), screen.page.get_by_role("button", name="Tour", exact=True)
    start.press("Enter")
    expect(box).to_be_visible()
    screen.page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    expect(screen.player(0)).to_be_focused()
    screen.page.keyboard.press("Space")
    expect(screen.player(0)).not_to_have_attribute("data-step", "0")
    start.press("Enter")
    expect(box).to_be_visible()
    screen.page.get_by_role("tab", name="Learn", exact=True).dispatch_event("click")
    expect(box).to_have_count(0)


FRAMES = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))"""


@pytest.mark.parametrize("width", [1400, 390])
def test_the_tour_is_offered_once_and_goes_by_keyboard(visit, width):
    screen = visit(viewport={"width": width, "height": 840}, reduced_motion="reduce")
    page = screen.page
    offer, box = page.locator(".tour-offer"), page.get_by_role("dialog")
    offer.get_by_role("button", name="Start the tour").press("Enter")
    expect(box.locator("h2")).to_have_text("The board")
    expect(box.get_by_role("button", name="Next")).to_be_focused()
    assert screen.step(0) == 0
    seen = {}
    while box.count():
        name = box.locator("h2").inner_text()
        page.evaluate(FRAMES)  # a player that was put aside lays its board first
        seen[name] = (box.locator("#tour-text").inner_text(), page.locator(".tour-marks i").count())
        assert page.evaluate("document.querySelector('.tour-box').contains(document.activeElement)")
        inside = page.evaluate("(({left, right, top, bottom}) => left >= 0 && right <= innerWidth && top >= 0 && "
                               "bottom <= innerHeight)"
                               "(document.querySelector('.tour-box').getBoundingClientRect())")  # fmt: skip
        assert inside, f"the note on {name} leaves the screen"
        page.keyboard.press("ArrowRight")
    assert list(seen) == ["The board", "Guesses", "Yellow", "Many at once", "The end"]
    for text, marked in (seen["The board"], seen["Guesses"]):
        assert str(marked) in re.findall(r"\d+", text), "as many cells are framed as the note says"
    for name in ("Yellow", "Many at once"):
        text, marked = seen[name]
        assert marked == int(re.search(r"(\d+) token", text)[1]), "as many cells are framed as the note says"
    expect(screen.player(0)).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.context.cookies() == []
    page.reload()
    screen.wait(0, "ready")
    expect(page.get_by_role("button", name="Tour", exact=True)).to_be_visible()
    expect(offer).to_have_count(0)
