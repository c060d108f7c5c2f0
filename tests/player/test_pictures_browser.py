"""What holds for every picture: on each step, in panels of every width, light and dark, for drafts of any depth, in odd
words, and for runs with little to see; a slider that was moved goes back to what was recorded."""

from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.export.bundle import CLIENT, views
from tests.player.pictures import FURTHER, HOLDS, MAIN, Panel, Picture, Stage, decoded, with_odd_words

GATE = [Panel(390, dark=True), Panel(1280)]
OTHERS = [Panel(820), Panel(1200, dark=True)]
SLIDING = [
    view.name
    for view in views()
    if view.name in MAIN and "new Sliding(" in (CLIENT / "views" / f"{view.file}.js").read_text("utf-8")
]
# What is not asked of these: that words stay in the drawing, and odd ones in a narrow or a wide panel.
OVER = {"Judged", "Siblings", "EarlyExit", "Word", "Phases", "Starfield", "little to filter", "a short answer"}
ODD_OVER = {"Boundary", "Lines", "Frontier", "Seen", "Pipeline"}


def in_the_gate(first: list[Panel], others: list[Panel]) -> pytest.MarkDecorator:
    """The first panels, and the others at night."""
    more = pytest.param(others, marks=pytest.mark.pages)
    return pytest.mark.parametrize("panels", [first, more], ids=["gate", "others"])


def held(stage: Stage, picture: Picture, panels: list[Panel], *unasked: str) -> dict[str, Any]:
    """What the last panel told, after each step was drawn in each panel. unasked: how complaints begin that do not
    count."""
    for panel in panels:
        stage.panel(*panel)
        told = stage.page.evaluate(HOLDS, picture.name)
        assert [one for one in told["wrong"] if not one[1].startswith(("-", *unasked))] == [], panel
        assert all(told["said"]), panel
    return told


@in_the_gate(GATE, OTHERS)
@pytest.mark.parametrize("name", MAIN)
def test_a_picture_holds_on_every_step(stage: Stage, name: str, panels: list[Panel]) -> None:
    picture = stage.show(decoded(name), name, panels[0])
    told = held(stage, picture, panels, *["outside: "] * (name in ("Judged", "EarlyExit")))
    assert told["drawn"]
    assert told["said"][0] not in told["said"][1:], "before the first step nothing is told of a step"


@in_the_gate([Panel(390)], [Panel(1280)])
@pytest.mark.parametrize("name", FURTHER)
def test_so_does_a_run_of_another_size(stage: Stage, name: str, panels: list[Panel]) -> None:
    picture = stage.show(decoded(name), FURTHER[name].view, panels[0])
    told = held(stage, picture, panels, *["outside: "] * (name in OVER))
    assert told["drawn"] or name.startswith("half columns")  # some of these draft nothing


@in_the_gate([Panel(640)], [Panel(390), Panel(1024)])
@pytest.mark.parametrize("name", MAIN)
def test_odd_words_stay_in_the_drawing(stage: Stage, name: str, panels: list[Panel]) -> None:
    picture, night = stage.show(with_odd_words(decoded(name)), name, panels[0]), len(panels) > 1
    held(stage, picture, panels, *["outside: "] * (name in OVER or (night and name in ODD_OVER)))


@pytest.mark.parametrize("name", SLIDING)
def test_a_slider_that_was_moved_goes_back_to_what_was_recorded(stage: Stage, name: str) -> None:
    picture = stage.show(decoded(name), name)
    enabled = '(view, all) => all(".dx-sliding input[type=range]").some((one) => !one.disabled)'
    picture.seek(picture.each(enabled).index(True))
    derived = picture.locator(".dx-sliding [aria-live]")
    for slider in picture.seen(".dx-sliding input[type=range]:enabled").all():
        slider.fill("0.5")
    expect(derived.filter(has_text="derived: ").first).to_be_visible()
    for back in picture.locator(".dx-sliding button", has_text="as recorded").all():
        if back.is_enabled():
            back.click()
    expect(derived.filter(has_text="derived: ")).to_have_count(0)


def test_without_an_answer_to_watch_there_is_no_picture(stage: Stage) -> None:
    trace = MAIN["Watched"].decode(constraints="", answer_length=0)
    expect(stage.show(trace, "Watched").root).to_have_count(0)
