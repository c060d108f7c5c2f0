"""What a browser gets early: a packed document, and the modules of the first screen before they are imported."""

import gzip
import re
import urllib.request
from urllib.parse import urlsplit

import brotli
import pytest
from playwright.sync_api import Browser, Page, Request, Route
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route as Answer
from starlette.testclient import TestClient

from explorer import ASSETS
from explorer.export.bundle import views
from explorer.page import early, files

QUIET = """() => {
  const count = performance.getEntriesByType("resource").length;
  if (window.count !== count) Object.assign(window, { count, since: performance.now() });
  return performance.now() - window.since > 1500;
}"""


@pytest.mark.parametrize(("path", "packed"), [("/", True), ("/config", True), ("/gradio_api/queue/data", False)])
def test_the_document_is_packed_and_streams_pass_as_they_are(path: str, packed: bool) -> None:
    text = "config " * 1000
    app = early.Packed(Starlette(routes=[Answer(path, lambda request: PlainTextResponse(text))]))
    answer = TestClient(app).get(path)
    assert ("content-encoding" in answer.headers) is packed and answer.text == text
    plain = TestClient(app).get(path, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers and plain.text == text


def test_the_page_is_sent_in_a_quarter_of_its_size_and_brotli_packs_what_gzip_cannot_look_back_to(address: str) -> None:
    asked = urllib.request.Request(address, headers={"accept-encoding": "gzip"})
    with urllib.request.urlopen(asked) as answer:
        sent = answer.read()
    assert len(sent) < len(gzip.decompress(sent)) / 4
    asked = urllib.request.Request(address, headers={"accept-encoding": "gzip, deflate, br, zstd"})
    with urllib.request.urlopen(asked) as answer:
        assert answer.headers["content-encoding"] == "br"
        sent = answer.read()
    whole = brotli.decompress(sent)
    with urllib.request.urlopen(address) as answer:
        plain = answer.read()
    varies = re.compile(rb'"app_id": ?\d+|"n\\*": ?\d+')
    assert varies.sub(b"", whole) == varies.sub(b"", plain)
    assert len(sent) <= 130_000 and len(sent) < 0.8 * len(gzip.compress(whole))


def test_brotli_where_it_is_accepted() -> None:
    accepted = ("br", "gzip, BR;q=0.5", "gzip", "br;q=0, gzip", "brr", "")
    assert [early.takes_brotli(one) for one in accepted] == [True, True, False, False, False, False]


def ours(page: Page, address: str) -> list[str]:
    """Modules of ours that a phone asks for until its boards are there, as they are asked for."""
    asked: list[str] = []

    def note(request: Request) -> None:
        path = urlsplit(request.url).path
        if path.startswith(f"/{files.PREFIX}/") and path.endswith(".js"):
            asked.append(request.url.removeprefix(address))

    page.on("request", note)
    page.goto(address)
    page.wait_for_function("() => document.querySelector('#panel-0 .dx-panel')?.dataset.state === 'playing'")
    page.wait_for_function(QUIET)
    return asked


@pytest.mark.pages
def test_what_the_first_screen_imports_is_asked_for_at_once_and_nothing_else(browser: Browser, address: str) -> None:
    """Held against a page without the early requests: no module is fetched for nothing, none twice, and only views that
    the runs shown need come later."""

    def without(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("modulepreload", "nothing"))

    context = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    page = context.new_page()
    page.route(address, without)
    imported = ours(page, address)
    page.close()
    asked = ours(context.new_page(), address)
    context.close()
    known = [*early.ENTRIES, *early.imported()]
    expected = {files.address(ASSETS / name) for name in known}
    paths = [urlsplit(url).path.removeprefix("/") for url in imported]
    assert len(asked) == len(set(asked)) and set(asked) == set(imported)
    assert expected <= set(paths), "asked for and not needed"
    later = [f"player/views/{view.file}.js" for view in views() if view.needs]
    own = {files.address(ASSETS / name) for name in [*later, *early.imports(later)]}
    assert set(paths) - expected <= own, "needed and not asked for"
