"""The page for everybody: what axe-core finds, the keyboard, a phone, and nothing that moves for those who asked for
stillness."""

from __future__ import annotations

import json
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Page, expect

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
GRAVE = ("serious", "critical")
EXCLUDED = [
    ".block > .empty.unpadded_box"
]  # Gradio's own picture of a plot without a value: a div with a label and no role
RUN_AXE = """async ({ excluded, within, contrast }) => {
  const rules = contrast === null ? {} : contrast ? { runOnly: ["color-contrast"] }
    : { rules: { "color-contrast": { enabled: false } } };
  const found = await axe.run({ include: [within], exclude: excluded.map((one) => [one]) },
    { resultTypes: ["violations"], ...rules });
  const said = (n) => `${n.target.join(" ")}: ${(n.any[0] ?? n.all[0] ?? n.none[0])?.message}`;
  return found.violations.map((v) => [v.impact, v.id, v.help, v.nodes.map(said).slice(0, 3)]);
}"""
ACTIVE = """() => {
  const node = document.activeElement, look = getComputedStyle(node);
  const drawn = (s) => (s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0) || s.boxShadow !== "none";
  let seen = drawn(look);
  for (let up = node.parentElement, n = 0; !seen && up && n < 3; up = up.parentElement,
    n++) seen = up.matches(":focus-within") && drawn(getComputedStyle(up));
  const name = node.getAttribute("aria-label") || node.labels?.[0]?.innerText || node.innerText?.slice(0,
    40) || node.placeholder || "";
  return { name: name.split("\\n")[0].trim(), tag: node.tagName, seen, id: node.closest("[id]")?.id ?? "" };
}"""


def open_tab(page: Page, path: list[str]) -> None:
    for name in path:
        page.get_by_role("tab", name=name, exact=True).first.click()


def all_paths(page: Page) -> list[list[str]]:
    paths: list[list[str]] = []
    outer = page.get_by_role("tablist").first.get_by_role("tab")
    names = [outer.nth(i).inner_text() for i in range(outer.count())]
    for name in names:
        open_tab(page, [name])
        page.wait_for_timeout(300)
        inner = [one.inner_text() for one in page.get_by_role("tab").all() if one.is_visible()]
        paths += [[name]] + [[name, one] for one in inner if one not in names]
    return paths


def grave(page: Page, within: str, contrast: bool | None) -> list[str]:
    """contrast: True for that rule alone, which takes most of the time; False for all others; None for all."""
    found = page.evaluate(RUN_AXE, {"excluded": EXCLUDED, "within": within, "contrast": contrast})
    return [f"{impact} {rule}: {said} {nodes}" for impact, rule, said, nodes in found if impact in GRAVE]


def looked_at(page: Page, path: list[str]) -> str:
    """A selector for what a path brings: for an inner tab only the set of tabs that it belongs to, since all around it
    has been looked at."""
    page.evaluate(
        "document.querySelectorAll('[data-looked-at]').forEach((one) => one.removeAttribute('data-looked-at'))"
    )
    if len(path) == 1:
        return "body"
    tab = page.get_by_role("tab", name=path[1], exact=True).first
    tab.evaluate("(tab) => tab.closest('.tabs').toggleAttribute('data-looked-at', true)")
    return "[data-looked-at]"


@pytest.mark.timeout(900)
def test_axe_finds_nothing_grave_on_any_tab(visit):
    """Light, then the contrast in the dark. The page stays quiet meanwhile: `visit` fails on any request elsewhere, on
    all tabs."""
    page = visit(reduced_motion="reduce").page
    page.evaluate(AXE.read_text("utf-8"))
    paths = all_paths(page)
    assert len(paths) >= 9, paths
    found: dict[str, list[str]] = {}
    for path in paths:
        open_tab(page, path)
        page.wait_for_timeout(500)  # figures are drawn after the tab has opened
        within = looked_at(page, path)
        for mode in ("light", "dark"):
            page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", mode == "dark")
            page.wait_for_timeout(100)
            if wrong := grave(page, within, True if mode == "dark" else None):
                found[f"{' > '.join(path)}, {mode}"] = wrong
    assert found == {}, json.dumps(found, indent=1)


def reach(page: Page, name: str) -> None:
    """Open a tab on a narrow screen: it may stand in the menu of those that have no room."""
    tab = page.get_by_role("tab", name=name, exact=True)
    if tab.count() and tab.first.is_visible():
        return tab.first.click()
    for menu in page.locator(".overflow-menu:visible").all():
        menu.locator("> button").click()
        entry = menu.locator(".overflow-dropdown").get_by_text(name, exact=True)
        if entry.count():
            return entry.first.click()
        menu.locator("> button").click()
    raise AssertionError(f"the tab '{name}' cannot be reached")


@pytest.mark.timeout(900)
def test_axe_finds_nothing_grave_on_a_phone_and_no_tab_is_too_wide(visit):
    """All rules but the contrast, which does not depend on the width."""
    wide = visit(reduced_motion="reduce").page
    paths = all_paths(wide)
    page = visit(viewport={"width": 390, "height": 844}, color_scheme="dark", reduced_motion="reduce").page
    page.evaluate(AXE.read_text("utf-8"))
    found: dict[str, list[str]] = {}
    for path in paths:
        for name in path:
            reach(page, name)
        page.wait_for_timeout(500)
        where = " > ".join(path)
        if wrong := grave(page, "body", False):
            found[where] = wrong
        if (width := page.evaluate("document.documentElement.scrollWidth")) > 390:
            found[f"{where}, sideways"] = [f"the page is {width} px wide"]
    assert found == {}, json.dumps(found, indent=1)


def test_everything_is_reached_by_tab_and_shows_the_focus(visit):
    screen = visit()
    page = screen.page
    page.locator("#prompt textarea").focus()
    met = []
    for _ in range(60):
        met.append(page.evaluate(ACTIVE))
        page.keyboard.press("Tab")
    hidden = [one for one in met if not one["seen"] and one["tag"] != "BODY"]
    assert hidden == [], "the focus cannot be seen there"
    names = {one["name"] for one in met}
    assert {
        "Run",
        "Play",
        "Step forward",
        "Step back",
        "Restart",
        "Place in the run",
        "Steps",
        "Target calls",
        "Work",
        "Seconds",
        "Speed",
    } <= names, names
    assert not [
        one for one in met if one["tag"] in ("BUTTON", "SELECT", "INPUT", "TEXTAREA") and not one["name"].strip()
    ], "controls without a name"


def test_run_stop_and_playback_need_no_mouse(visit, slowly):
    screen = visit()
    page = screen.page
    page.locator("#run").focus()
    page.keyboard.press("Enter")
    screen.wait(0, "live")
    page.locator("#stop").focus()
    page.keyboard.press("Enter")
    screen.wait(0, "stopped")
    screen.player(0).focus()
    page.keyboard.press("Home")
    assert screen.step(0) == 0
    page.keyboard.press("ArrowRight")
    assert screen.step(0) == 1
    say = screen.player(0).locator("output.dx-say")
    expect(say).to_have_attribute("aria-live", "polite")
    expect(say).to_contain_text("Step 1 of")
    before = say.inner_text()
    page.keyboard.press("Home")
    expect(say).not_to_have_text(before)


def test_a_phone_reaches_every_control_and_every_tab(visit):
    screen = visit(
        viewport={"width": 390, "height": 844},
        has_touch=True,
        is_mobile=True,
        color_scheme="dark",
        reduced_motion="reduce",
    )
    page = screen.page
    screen.sheet()
    page.locator("#overflow button").first.click()
    for field in (
        "#prompt textarea",
        "#run",
        "#seed input",
        "#toolbar button[aria-label=Play]",
        "#toolbar input[type=range]",
        "#panel-0 .dx-panel",
    ):
        box = page.locator(field).first.bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["height"] >= 20, (field, box)
    page.locator("#toolbar button[aria-label=Play]").tap()
    screen.wait(0, "done")
    for name in ("Methods", "About the numbers"):
        tab = page.get_by_role("tab", name=name, exact=True)
        if not (tab.count() and tab.first.is_visible()):
            page.locator(".overflow-menu > button").first.tap()
            tab = page.locator(".overflow-dropdown").first.get_by_text(name, exact=True)
        tab.first.tap()
        expect(page.locator("#papers" if name == "Methods" else "#limits")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    moving = page.evaluate(
        "document.getAnimations().filter((a) => a.playState === 'running' && a.effect.getTiming().duration > 1).length"
    )
    assert moving == 0
