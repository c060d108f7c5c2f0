"""The page for everybody: what axe-core finds, the keyboard, a phone, and nothing that moves for those who asked for
stillness."""

import json
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import PHONE

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
GRAVE = ("serious", "critical")
EXCLUDED = [".block > .empty.unpadded_box"]  # Gradio's picture of a plot without a value: a label and no role
RUN_AXE = """async ({ excluded, within, contrast }) => {
  const rules = contrast ? { runOnly: ["color-contrast"] }
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
        tab = page.get_by_role("tab", name=name, exact=True).first
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")


SETTLED = """() => new Promise((then) => { let last = performance.now();
  const look = new MutationObserver(() => (last = performance.now()));
  look.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  const ask = setInterval(() => { if (performance.now() - last < 250) return;
    clearInterval(ask); look.disconnect(); then(); }, 50); })"""
# Of rows that look alike three are enough for their colours: a row's look is that of its elements, without the words.
FEW_ROWS = """(most) => { const seen = new Map();
  for (const row of document.querySelectorAll("tbody tr, li")) {
    const look = [row.parentElement, row, ...row.querySelectorAll("*")].map((one) => [one.tagName,
      one.getAttribute("class"), one.getAttribute("style"),
      ...Object.values(one.dataset).filter((value) => /^[a-z]{0,12}$/.test(value))].join(" ")).join("|");
    seen.set(look, (seen.get(look) ?? 0) + 1);
    if (seen.get(look) > most) row.style.setProperty("display", "none", "important");
  } }"""
ALL_SHOWN = """() => { for (const one of document.querySelectorAll("[role=tabpanel]"))
  one.style.setProperty("display", "block", "important"); }"""


def settle(page: Page) -> None:
    """Figures and tables are drawn after their tab has opened: waits until nothing changes any more."""
    page.evaluate(SETTLED)


def all_paths(page: Page) -> list[list[str]]:
    """Opens every tab once; the way to each."""
    paths: list[list[str]] = []
    outer = page.get_by_role("tablist").first.get_by_role("tab")
    names = [outer.nth(i).inner_text() for i in range(outer.count())]
    for name in names:
        open_tab(page, [name])
        settle(page)
        inner = [one.inner_text() for one in page.get_by_role("tab").all() if one.is_visible()]
        paths += [[name]] + [[name, one] for one in inner if one not in names]
        for _, one in [path for path in paths if path[0] == name and len(path) > 1][1:]:
            open_tab(page, [one])
            settle(page)
    return paths


def grave(page: Page, within: str, contrast: bool) -> list[str]:
    """contrast: that rule alone, which takes most of the time, else all others."""
    found = page.evaluate(RUN_AXE, {"excluded": EXCLUDED, "within": within, "contrast": contrast})
    return [f"{impact} {rule}: {said} {nodes}" for impact, rule, said, nodes in found if impact in GRAVE]


@pytest.mark.timeout(900)
def test_axe_finds_nothing_grave_on_any_tab(visit):
    """Every tab was opened, then all stand below each other: so axe reads the page once for its rules and once for the
    contrast in either theme, and not per tab. The page stays quiet meanwhile: `visit` fails on any request elsewhere,
    on all tabs."""
    page = visit(reduced_motion="reduce").page
    page.evaluate(AXE.read_text("utf-8"))
    paths = all_paths(page)
    assert len(paths) >= 9, paths
    open_tab(page, paths[0])
    page.evaluate(ALL_SHOWN)
    page.wait_for_function(
        """(least) => { const all = [...document.querySelectorAll("[role=tabpanel]")];
          return all.length >= least && all.every((one) => one.checkVisibility()); }""",
        arg=len(paths),
    )
    found = {"all but contrast": grave(page, "body", False)}
    page.evaluate(FEW_ROWS, 3)
    for mode in ("light", "dark"):
        page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", mode == "dark")
        settle(page)
        found[mode] = grave(page, "body", True)
    assert not any(found.values()), json.dumps(found, indent=1)


def reach(page: Page, name: str) -> None:
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


NARROW = "document.documentElement.scrollWidth <= 390"


@pytest.mark.pages
def test_on_a_phone_axe_finds_nothing_grave_and_no_tab_is_too_wide(visit):
    """What a phone alone has is the sheet of controls and the menu of tabs; the rest axe has seen."""
    screen = visit(viewport=PHONE, color_scheme="dark", reduced_motion="reduce")
    page = screen.page
    page.evaluate(AXE.read_text("utf-8"))
    screen.sheet()
    assert grave(page, "body", False) == []
    page.keyboard.press("Escape")
    for outer in page.get_by_role("tablist").first.get_by_role("tab").all_text_contents():
        reach(page, outer.strip())
        settle(page)
        inner = page.locator("[role=tabpanel]:visible [role=tablist]").first
        names = [one.strip() for one in inner.get_by_role("tab").all_text_contents()] if inner.count() else []
        for name in names:
            reach(page, name)
            settle(page)
            page.wait_for_function(NARROW)
        page.wait_for_function(NARROW)
    page.wait_for_function("""() => document.getAnimations().every((one) =>
      one.playState !== "running" || one.effect.getTiming().duration <= 1)""")


def test_everything_is_reached_by_tab_and_shows_the_focus(visit):
    page = visit().page
    page.locator("#prompt textarea").focus()
    met = []
    for _ in range(60):
        met.append(page.evaluate(ACTIVE))
        page.keyboard.press("Tab")
    assert [one for one in met if not one["seen"] and one["tag"] != "BODY"] == [], "the focus cannot be seen there"
    names = {one["name"] for one in met}
    clocks = {"Steps", "Model calls", "Work", "Seconds", "Speed"}
    assert {"Run", "Play", "Step forward", "Step back", "Restart", "Place in the run", *clocks} <= names, names
    controls = [one for one in met if one["tag"] in ("BUTTON", "SELECT", "INPUT", "TEXTAREA")]
    assert all(one["name"].strip() for one in controls), "controls without a name"


def test_a_screen_reader_hears_words_when_a_run_is_over_and_no_name_of_a_text(visit):
    page = visit("").page
    page.evaluate("""() => { window.heard = [];
      new MutationObserver(() => document.querySelectorAll(".sr-only[aria-live]").forEach((node) =>
        node.textContent && window.heard.push(node.textContent)))
        .observe(document.body, { subtree: true, childList: true, characterData: true }); }""")
    page.locator("#run").click()
    page.wait_for_function("window.heard.includes('Done')")
    assert [one for one in page.evaluate("window.heard") if "." in one and " " not in one] == []
