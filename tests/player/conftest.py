"""Pages opened from exported files, watched for everything that a quiet page must not do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from engines.core.trace import Trace
from explorer.export.bundle import bundle
from explorer.export.html import export_html

OPEN = "try { for (const part of ['details', 'prompt']) localStorage.setItem('dx-' + part, 'open') } catch {}"


class Watched:
    """A page opened from a file, with everything that a quiet page must not do."""

    def __init__(self, context: BrowserContext, path: Path, folded: bool) -> None:
        self.page: Page = context.new_page()
        if not folded:
            self.page.add_init_script(OPEN)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.goto(path.as_uri())

    def check_quiet(self) -> None:
        assert [url for url in self.requests if not url.startswith("file:")] == []
        assert len(self.requests) == 1
        assert self.complaints == []


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    """Exports traces, opens the file and, at the end of the test, asserts that it stayed quiet. folded: Details and
    prompt are as a new visitor finds them, else they were opened before."""
    contexts: list[BrowserContext] = []
    pages: list[Watched] = []

    def open_(traces: list[Trace], title: str = "Test", folded: bool = False, **options: object) -> Watched:
        path = tmp_path / f"{len(pages)}.html"
        path.write_text(export_html(traces, title), "utf-8")
        contexts.append(browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options}))
        pages.append(Watched(contexts[-1], path, folded))
        return pages[-1]

    yield open_
    for page in pages:
        page.check_quiet()
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def js(browser: Browser) -> Callable[..., Any]:
    """js("layout.js", "M.tidy(a)", a=[...]): evaluates with the module as M and the arguments by name."""
    page = browser.new_page()
    page.evaluate(f"() => {{ {bundle()}\n window.modules = modules; }}")

    def call(module: str, expression: str, **arguments: Any) -> Any:
        names = ", ".join(arguments)
        return page.evaluate(f"({{ {names} }}) => {{ const M = modules[{module!r}]; return {expression}; }}", arguments)

    return call
