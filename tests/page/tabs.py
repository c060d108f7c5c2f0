"""Tabs that are used again. A cold page costs three seconds of processor time, most of it Chromium reading the same
scripts once more; in a tab that has been there it costs a third. Each visit still begins with a document of its own and
with an empty storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page

EMPTY = "try { localStorage.clear(); sessionStorage.clear(); } catch {}"
CLIPBOARD = ["clipboard-read", "clipboard-write"]
VIEWPORT = {"width": 1400, "height": 1000}


class Tab:
    """A page and what was set for the visit under way. visits: those of all tabs, which the ledger counts."""

    visits: ClassVar[int] = 0

    def __init__(self, page: Page, tools: CDPSession, kind: str) -> None:
        self.page, self.tools, self.kind = page, tools, kind
        self.scripts: list[str] = []
        self.heard: list[tuple[Any, Any]] = []

    def on(self, event: Any, do: Any) -> None:
        """Listens until the visit is over."""
        self.page.on(event, do)
        self.heard.append((event, do))

    def begin(self, script: str) -> None:
        """Runs the script in every document of the visit, before any other."""
        self.scripts.append(self.tools.send("Page.addScriptToEvaluateOnNewDocument", {"source": script})["identifier"])

    def open(self, url: str) -> None:
        """The first document of a visit: what earlier ones stored is gone."""
        Tab.visits += 1
        self.page.goto(url, wait_until="commit")
        self.tools.send("Page.removeScriptToEvaluateOnNewDocument", {"identifier": self.scripts.pop(0)})
        self.page.wait_for_load_state()

    def leave(self) -> None:
        for event, do in self.heard:
            self.page.remove_listener(event, do)
        self.heard.clear()
        for name in self.scripts:
            self.tools.send("Page.removeScriptToEvaluateOnNewDocument", {"identifier": name})
        self.scripts.clear()
        for other in self.page.context.pages:
            if other is not self.page:
                other.close()
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.mouse.move(0, 0)
        self.page.goto("about:blank")
        self.page.context.clear_cookies()


class Tabs:
    """What viewport, colours and motion a visitor has is set anew; whatever else needs a context of its own."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.idle: list[Tab] = []

    def take(
        self,
        *,
        viewport: dict[str, int] = VIEWPORT,
        color_scheme: Any = "light",
        reduced_motion: Any = None,
        **more: Any,
    ) -> Tab:
        kind = repr(sorted(more.items()))
        tab = next((one for one in self.idle if one.kind == kind), None)
        if tab is None:
            page = self.browser.new_context(viewport=viewport, permissions=CLIPBOARD, **more).new_page()
            page.set_default_timeout(60_000)
            tab = Tab(page, page.context.new_cdp_session(page), kind)
            tab.tools.send("Page.enable")
        else:
            self.idle.remove(tab)
            tab.page.set_viewport_size(viewport)
        tab.begin(EMPTY)
        tab.page.emulate_media(color_scheme=color_scheme, reduced_motion=reduced_motion or "no-preference")
        return tab

    def give(self, tab: Tab) -> None:
        """Puts the tab back; one that cannot be left in order is closed."""
        try:
            tab.leave()
        except Exception:
            tab.page.context.close()
            return
        self.idle.append(tab)

    def close(self) -> None:
        for tab in self.idle:
            tab.page.context.close()
        self.idle.clear()


@pytest.fixture(scope="session")
def tabs(browser: Browser) -> Iterator[Tabs]:
    made = Tabs(browser)
    yield made
    made.close()
