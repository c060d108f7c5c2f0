"""Lessons, glossary and the tour, in headless Chromium."""

import re

import msgspec
from playwright.sync_api import expect

import engines
from explorer import ASSETS
from explorer.export.bundle import views
from explorer.page import learn
from explorer.page.learn import lane, payload
from explorer.papers.lessons import lessons
from explorer.runs.gallery import Gallery, gallery


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


def test_each_lesson_looks_at_scores_that_its_run_has():
    looked = {}
    assert {lesson.view for lesson in lessons() if lesson.view} <= {view.name for view in views()}
    for lesson in lessons():
        if not (looked_at := lane(lesson)):
            continue
        looked[lesson.method] = looked_at
        steps = gallery().get(lesson.trace).steps
        assert any(one.name == looked_at for step in steps for one in step.scores), lesson.method
    assert "fused" in looked.values(), "the lesson on credit says: watch 'fused'"
    sent = payload()["lessons"]
    assert [one["method"] for one in sent] == [one.method for one in lessons()]
    assert all(set(stop) == {"step", "say"} for one in sent for stop in one["stops"]), "and no claim"


def test_its_modules_set_text_only_and_stay_on_this_server():
    for path in (ASSETS / "client/learn").glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(inner|outer|Adjacent)HTML|document\.write|\beval\(|new Function|https?:|cookie", text)


def test_a_lesson_moves_its_own_player_shows_its_lane_and_is_ticked_off(visit):
    screen = visit(viewport={"width": 1280, "height": 900})
    screen.go(0, 1)
    expect(screen.page.locator(".learn")).to_have_count(0)  # nothing of it is there before it is opened
    screen.tab("Learn")
    learn = screen.page.locator("#lessons")
    panel, title = learn.locator(".dx-panel").first, learn.locator(".learn-text h2").first
    sent = payload()["lessons"]
    told = next(one for one in sent if one["lane"] not in ("", "confidence") and len(one["runs"]) == 1)
    option = learn.locator(".learn-list button", has_text=re.compile(f"^{told['title']}"))
    option.click()
    expect(title).to_have_text(told["title"])
    expect(panel).to_have_attribute("data-step", str(told["stops"][0]["step"]))
    lane = panel.locator("select").filter(has=screen.page.locator(f'option[value="{told["lane"]}"]')).first
    expect(lane).to_have_value(told["lane"])
    expect(option).to_have_text(f"{told['title']}1 of {len(told['stops'])}")
    panel.press("f")  # a player that the server does not know has no fork
    expect(learn.locator(".dx-forker:not([hidden]), .dx-fork")).to_have_count(0)
    for stop in told["stops"]:
        learn.get_by_role("button", name=f"Step {stop['step']}", exact=True).click()
        expect(panel).to_have_attribute("data-step", str(stop["step"]))
        expect(learn.locator(".learn-say")).to_have_text(f"Step {stop['step']}: {stop['say']}")
    expect(option).to_have_text(f"{told['title']}✓ seen")
    both = next(one for one in sent if len(one["runs"]) == 2)  # a lesson on a difference
    learn.locator(".learn-list button", has_text=re.compile(f"^{both['title']}")).click()
    expect(learn.locator(".learn-stage > section > h3")).to_have_text([run["caption"] for run in both["runs"]])
    step = both["stops"][1]["step"]
    learn.get_by_role("button", name=f"Step {step}", exact=True).click()
    for panel in learn.locator(".dx-panel").all():
        expect(panel).to_have_attribute("data-step", str(step))
    screen.at(0, 1)  # the players of Explore stay where they are
    screen.page.reload()
    screen.wait(0, "ready")
    screen.tab("Learn")
    expect(option).to_have_text(f"{told['title']}✓ seen")


WITHIN = """() => { const { left, right, top, bottom } = document.querySelector('.tour-box').getBoundingClientRect();
  return left >= 0 && right <= innerWidth && top >= 0 && bottom <= innerHeight; }"""
FOCUSED = "document.querySelector('.tour-box').contains(document.activeElement)"
NOTES = {  # and what is said of the cells that are framed
    "The board": r"(\d+)",
    "Guesses": r"(\d+)",
    "Yellow": r"(\d+) token",
    "Many at once": r"(\d+) token",
    "The end": "",
}


def test_the_tour_is_offered_once_and_goes_by_keyboard(visit):
    screen = visit(viewport={"width": 1400, "height": 840}, reduced_motion="reduce")
    page = screen.page
    offer, box = page.locator(".tour-offer"), page.get_by_role("dialog")
    offer.get_by_role("button", name="Start the tour").press("Enter")
    expect(box.get_by_role("button", name="Next")).to_be_focused()
    screen.at(0, 0)
    for name, many in NOTES.items():
        expect(box.locator("h2")).to_have_text(name)
        screen.until(WITHIN)
        screen.until(FOCUSED)
        said = re.findall(many, box.locator("#tour-text").inner_text()) if many else []
        if said:  # as many cells are framed as the note says
            screen.until("(said) => said.includes(String(document.querySelectorAll('.tour-marks i').length))", said)
        assert bool(said) == bool(many)
        page.keyboard.press("ArrowRight")
    expect(box).to_have_count(0)
    expect(screen.player(0)).to_be_focused()
    assert page.context.cookies() == []
    page.reload()
    screen.wait(0, "ready")
    expect(offer).to_have_count(0)
    page.get_by_role("button", name="Tour", exact=True).press("Enter")
    expect(box).to_be_visible()
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)
