"""Pages opened from exported files, watched for everything that a quiet page must not do."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engines.core.trace import Trace
from explorer.export.html import export_html
from tests.page.tabs import Tab, Tabs, tabs
from tests.player.node import js
from tests.player.pictures import Stage, until

__all__ = ["js", "tabs"]

OPEN = "try { for (const part of ['details', 'prompt', 'race']) localStorage.setItem('dx-' + part, 'open') } catch {}"


class Watched:
    """A page opened from a file, with everything that a quiet page must not do."""

    def __init__(self, tab: Tab, path: Path, folded: bool) -> None:
        self.page = tab.page
        if not folded:
            tab.begin(OPEN)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        tab.on("request", lambda r: self.requests.append(r.url))
        tab.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        tab.on("pageerror", lambda e: self.complaints.append(str(e)))
        tab.open(path.as_uri())

    def stands(self, *steps: int) -> None:
        """Waits until the players stand at these steps."""
        until(self.page, "(steps) => steps.every((step, i) => handles[i].debug().step === step)", [*steps])

    def check_quiet(self) -> None:
        assert [url for url in self.requests if not url.startswith("file:")] == []
        assert len(self.requests) == 1
        assert self.complaints == []


@pytest.fixture
def opened(tabs: Tabs, tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    """Exports traces, opens the file and, at the end of the test, asserts that it stayed quiet. folded: Details and
    prompt are as a new visitor finds them, else they were opened before."""
    taken: list[Tab] = []
    pages: list[Watched] = []

    def open_(traces: list[Trace], title: str = "Test", folded: bool = False, **options: object) -> Watched:
        path = tmp_path / f"{len(pages)}.html"
        path.write_text(export_html(traces, title), "utf-8")
        taken.append(tabs.take(**{"viewport": {"width": 1200, "height": 900}, **options}))
        pages.append(Watched(taken[-1], path, folded))
        return pages[-1]

    yield open_
    try:
        for page in pages:
            page.check_quiet()
    finally:
        for tab in taken:
            tabs.give(tab)


@pytest.fixture(scope="session")
def theatre(tabs: Tabs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    tab = tabs.take()
    yield Stage(tab, tmp_path_factory.mktemp("stage"))
    tabs.give(tab)


@pytest.fixture
def stage(theatre: Stage) -> Iterator[Stage]:
    """The page in which pictures are shown; at the end of the test it asserts that it stayed quiet."""
    theatre.wrong.clear()
    yield theatre
    assert theatre.wrong == []
