"""What a browser gets first: a packed document, and the boards before Gradio's page."""

import gzip
import re
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import brotli
import pytest
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route as Answer
from starlette.testclient import TestClient

from explorer.page import files, guard

BOARD = """() => new Promise((drawn) => { const look = () => {
  const cell = document.querySelector("#panel-0 .dx-cells .dx-cell");
  if (!cell?.getClientRects().length) return requestAnimationFrame(look);
  requestAnimationFrame(() => drawn(performance.getEntriesByType("resource").map(({ name }) => name))); };
  look(); })"""  # what was asked for until then
PLACES = """() => ["scene", "toolbar", "panel-0", "panel-1"].map((id) => document.getElementById(id)
  .getBoundingClientRect().toJSON()).flatMap(({ x, y, width }) => [x, y, width])"""
GRADIO = "() => document.querySelector('gradio-app #panel-0 .dx-panel') && !document.querySelector('.first')"


@pytest.mark.parametrize(("path", "packed"), [("/", True), ("/config", True), ("/gradio_api/queue/data", False)])
def test_the_document_is_packed_and_streams_pass_as_they_are(path: str, packed: bool) -> None:
    text = "config " * 1000
    app = guard.Packed(Starlette(routes=[Answer(path, lambda request: PlainTextResponse(text))]))
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
    assert [guard.takes_brotli(one) for one in accepted] == [True, True, False, False, False, False]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    made = browser.new_page(viewport={"width": 1440, "height": 900})
    wrong: list[str] = []
    made.on("pageerror", lambda error: wrong.append(str(error)))
    yield made
    assert wrong == []
    made.close()


def test_the_first_board_needs_twelve_requests_at_most_and_stays_where_it_is(page: Page, address: str) -> None:
    page.goto(address, wait_until="commit")
    asked = page.evaluate(BOARD)
    before = page.evaluate(PLACES)
    assert 1 + len(asked) <= 12, asked
    page.wait_for_function(GRADIO)
    assert [*page.evaluate(PLACES)] == pytest.approx(before, abs=2)
    expect(page.locator("#panel-0")).to_have_count(1)
    expect(page.locator("#run")).to_be_visible()
    fetched = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    ours = [name for name in fetched if f"/{files.PREFIX}/client/" in name and not name.endswith(".css")]
    assert len(ours) == len(set(ours)), "none is asked for twice"
    assert {urlsplit(name).path.rsplit("/", 1)[1] for name in ours} >= {"board.js", "rest.js"}


def test_the_boards_play_before_gradios_page_is_there(page: Page, address: str) -> None:
    page.route("**/assets/index-*.js", lambda route: route.abort())
    page.goto(address, wait_until="commit")
    page.evaluate(BOARD)
    bar = page.locator("#toolbar")
    bar.get_by_role("slider").first.press("End")
    expect(page.locator("#panel-0 .dx-pill")).to_contain_text("done")
    expect(page.locator("gradio-app > *")).to_have_count(0)


def test_an_address_that_leads_to_other_runs_shows_none_before_these(page: Page, address: str) -> None:
    page.goto(f"{address}?gallery=any", wait_until="commit")
    page.wait_for_function("() => document.querySelector('#panel-0 .dx-panel, .first')")
    expect(page.locator(".first")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_our_rules_stand_behind_gradios(browser: Browser, address: str, scheme: str) -> None:
    """Both name a class; the later one holds."""
    page = browser.new_page(color_scheme=scheme)
    page.goto(address)
    page.wait_for_function(GRADIO)
    styles = page.locator("#scene .scene").evaluate("(node) => getComputedStyle(node).borderLeftWidth")
    assert styles == "4px"
    page.close()


def test_without_the_joined_rest_each_module_comes_by_itself(page: Page, address: str) -> None:
    page.route("**/rest.js", lambda route: route.abort())
    page.goto(address)
    page.wait_for_function(GRADIO)
    expect(page.locator("#status .status")).not_to_be_empty()
    expect(page.locator(".slot-form").first).to_be_attached()


def test_a_file_is_kept_by_its_hash_and_an_old_address_gives_the_new_file() -> None:
    served = TestClient(Starlette(routes=files.mounts()))
    version = re.search(r"client/(\w+)/board\.js", files.lead("<script>window.gradio_config", "files"))
    assert version
    for name in ("board.js", "rest.js", "all.css", "views/tree.js"):
        answer = served.get(f"/files/client/{version[1]}/{name}")
        assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"], name
        assert served.get(f"/files/client/old/{name}").headers["cache-control"] == "no-cache", name
        assert served.get(f"/files/client/old/{name}").text == answer.text, name


def test_the_hash_changes_with_a_view_that_comes_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def version() -> str:
        files._version.cache_clear()
        return files._version()

    before = version()
    try:
        shutil.copytree(files.CLIENT, tmp_path / "client")
        monkeypatch.setattr(files, "CLIENT", tmp_path / "client")
        assert version() == before and "views/tree.js" not in files.scripts()["board.js"]
        with (tmp_path / "client" / "views" / "tree.js").open("a") as view:
            view.write("// another\n")
        assert version() != before
    finally:
        files._version.cache_clear()


def test_what_cannot_be_drawn_early_comes_with_gradios_page(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.route(  # the opening's runs as they cannot be read, until Gradio's page reads its own
        address,
        lambda route: route.fulfill(
            response=(answer := route.fetch()),
            body=answer.text().replace(
                "<script>window.gradio_config",
                "<script>const parse = JSON.parse; let broken = 1;"
                "JSON.parse = (text) => { if (broken && /^{.batches/.test(text)) { broken = 0; throw Error('no'); }"
                "return parse(text); };</script><script>window.gradio_config",
                1,
            ),
        ),
    )
    page.goto(address)
    page.wait_for_function("() => document.querySelector('gradio-app #panel-0 .dx-cells .dx-cell')")
    expect(page.locator(".first")).to_have_count(0)
    page.close()


def test_a_document_of_another_form_starts_gradio_itself() -> None:
    held = files.lead('<script>window.gradio_config = {}</script><script type="module" src="./other.js"></script>', "f")
    assert "/board.js" in files.lead("<head></head>", "f"), "ours come in any case"
    assert "dxGradio = null" in held and 'src="./other.js"' in held
