"""The app in this process with three recorded traces, and pages that must stay quiet: no request elsewhere, no error on
the console."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

import engines
from engines import Trace
from tests.page.tabs import Tab, Tabs, tabs
from tests.player.node import js

__all__ = ["js", "tabs"]

PROMPT = "sort: Mia, Leo, Ada"
expect.set_options(timeout=60_000)  # a state that does not come is a failure; how soon, on a busy machine, is not
HOSTILE = (
    "<img src=x onerror=window.hit=1> ${window.hit=2} `${window.hit=3}` </script><script>window.hit=4</script> "
    "{{window.hit=5}}"
)
LAPTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
OPEN = """try {
  for (const part of ['details', 'prompt', 'race', 'touched']) localStorage.setItem('dx-' + part, 'open');
} catch {}"""


def first_model(kind: str) -> str:
    return next(m.name for m in engines.list_models() if m.kind == kind and m.where == "embedded")


def methods_of(kind: str) -> list[str]:
    """Methods that one embedded model of that kind can run, controls first: those that others are compared with."""
    infos = [info for info in engines.list_methods() if list(info.needs.values()) == [kind]]
    controls = {info.baseline for info in infos}
    return [
        info.slug for info in sorted(infos, key=lambda info: (info.baseline is not None, info.slug not in controls))
    ]


def desk(folder: Path | str = "no-such-folder", public: bool = False, limits: Any = None) -> Any:
    """The handlers of a page that has the recorded runs of a folder."""
    from explorer.page.catalogue import Catalogue
    from explorer.page.handlers import Handlers
    from explorer.page.run_limits import Limits
    from explorer.runs.gallery import Gallery

    limits = limits or Limits(1000, 100, 60, public)
    return Handlers(Gallery(Path(folder)), Catalogue.read(limits.public, limits.models, limits.new_tokens), limits)


def visitor(name: str = "visitor", host: str = "127.0.0.1") -> Any:
    """What Gradio tells a handler of who asks."""
    return SimpleNamespace(session_hash=name, client=SimpleNamespace(host=host), headers={})


def soon(page: Page, ask: Callable[[], Any]) -> Any:
    """The first true answer of what no locator tells; the page goes on meanwhile."""
    until = time.monotonic() + 60
    while not (answer := ask()):
        assert time.monotonic() < until, "it did not come"
        page.wait_for_timeout(20)
    return answer


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> Path:
    """A folder with two masked runs on one prompt and one causal run."""
    folder = tmp_path_factory.mktemp("gallery") / "traces"
    folder.mkdir()
    chosen = [(slug, first_model("masked")) for slug in methods_of("masked")[:2]] + [
        (methods_of("causal")[0], first_model("causal"))
    ]
    for number, (slug, model) in enumerate(chosen):
        (folder / f"{number}-{slug}.json").write_text(
            engines.run(slug, model, PROMPT, params={"max_new_tokens": 32}).to_json(), "utf-8"
        )
    (folder / "9-broken.json").write_text('{"header": {"schema": 1', "utf-8")
    return folder


@pytest.fixture(scope="session")
def traces(recorded: Path) -> list[Trace]:
    return [engines.read_trace(path.read_bytes()) for path in sorted(recorded.glob("[0-8]*.json"))]


@pytest.fixture(scope="session")
def address(recorded: Path) -> Iterator[str]:
    from explorer.page.server import launch
    from explorer.runs.gallery import Gallery

    demo = launch(warm=False, traces=Gallery(recorded), quiet=True)
    yield demo.local_url
    demo.close()


@pytest.fixture(scope="session")
def shipped() -> Iterator[str]:
    """The page with the gallery that ships."""
    from explorer.page.server import launch

    demo = launch(warm=False, quiet=True)
    yield demo.local_url
    demo.close()


class Screen:
    """One visitor."""

    def __init__(self, tab: Tab, address: str, query: str = "?still", folded: bool = False, first: str = "") -> None:
        self.page = tab.page
        if first:
            tab.begin(first)
        if not folded:
            tab.begin(OPEN)
        self.address = address
        self.asked: list[str] = []
        self.foreign: list[str] = []
        self.complaints: list[str] = []
        tab.on("request", lambda r: self._note(r.url))
        tab.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        tab.on("pageerror", lambda e: self.complaints.append(str(e)))
        tab.open(address + query)
        self.page.evaluate("dxReady.then(() => new Promise(requestAnimationFrame))")  # Gradio's page is there
        if query == "?still":
            self.wait(0, "ready")
            if not folded:
                self.unfold()

    def _note(self, url: str) -> None:
        self.asked.append(url)
        if not url.startswith((self.address, "blob:", "data:")):
            self.foreign.append(url)

    def unfold(self) -> None:
        """Opens the forms of the slots and what stands below them; on a phone, the sheet that they stand in first."""
        handle = self.page.locator(".sheet-handle")
        if handle.is_visible():
            return
        expect(self.page.locator(".slot-form").first).to_be_visible()
        self.page.locator(".slot-form").evaluate_all("(forms) => forms.forEach((form) => { form.open = true; })")
        self.page.locator("#overflow button").first.click()
        expect(self.page.get_by_label("Seed")).to_be_visible()

    def sheet(self) -> None:
        """On a phone: opens the controls."""
        self.page.get_by_role("button", name="Prompt and methods").click()

    def player(self, slot: int) -> Locator:
        return self.page.locator(f"#panel-{slot} .dx-panel")

    def wait(self, slot: int, state: str, seconds: float = 60) -> None:
        expect(self.player(slot)).to_have_attribute("data-state", state, timeout=1000 * seconds)

    def at(self, slot: int, step: int) -> None:
        """The player stands behind that many steps."""
        expect(self.player(slot)).to_have_attribute("data-step", str(step))

    def go(self, slot: int, step: int) -> None:
        """By the keyboard, from the beginning."""
        self.player(slot).press("Home")
        self.at(slot, 0)
        for number in range(step):
            self.player(slot).press("ArrowRight")
            self.at(slot, number + 1)

    def until(self, state: str, arg: Any = None) -> None:
        """Waits until an expression or a function of the page is true."""
        self.page.wait_for_function(state, arg=arg)

    def drawn(self) -> None:
        """What follows a state by a frame is there."""
        self.page.evaluate("() => new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(then)))")

    def slots(self, count: int) -> None:
        self.page.locator("#count").get_by_role("radio", name=str(count), exact=True).check()

    def run(self, slot: int = 0, seconds: float = 60) -> None:
        """Runs what the slots hold, until that player is done."""
        self.press("Run")
        self.wait(slot, "done", seconds)

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def everything(self) -> None:
        """Brings what a page that nobody has used hides."""
        self.press("Show everything")

    def tab(self, name: str) -> None:
        """Choose a tab; once more where the row of tabs was made anew under the click."""
        tab = self.page.get_by_role("tab", name=name, exact=True)
        tab.click()
        try:
            expect(tab).to_have_attribute("aria-selected", "true", timeout=3000)
        except AssertionError:
            tab.click()
            expect(tab).to_have_attribute("aria-selected", "true")

    def prompt(self, text: str) -> None:
        self.page.locator("#prompt textarea").fill(text)

    def says(self, text: str, seconds: float = 60) -> None:
        expect(self.page.locator("#status .status")).to_contain_text(text, timeout=1000 * seconds)

    def method(self, slot: int, slug: str) -> None:
        self.page.locator(f"#method-{slot}").select_option(slug)

    def model(self, slot: int, name: str) -> None:
        """Choose a model that the method can run on, or type the name of another one."""
        box = self.page.locator(f"#model-{slot}")
        if box.locator(f'option[value="{name}"]').count():
            box.select_option(name)
        else:
            box.select_option(label="another: hub id, folder or GGUF file …")
            self.page.locator(f"#model-{slot}-other").fill(name)

    def parameters(self, slot: int) -> Locator:
        """The parameters of a slot, opened."""
        found = self.page.locator(f"#slot-{slot} .slot-params")
        if found.get_attribute("open") is None:
            found.locator("summary").click()
        return found

    def choose(self, field: str, text: str) -> None:
        box = self.page.locator(f"#{field} input")
        box.click()
        box.fill(text)
        box.press("Enter")


@pytest.fixture
def visit(tabs: Tabs, address: str) -> Iterator[Callable[..., Screen]]:
    """Opens the page, of this server or of the one at `at`; at the end each page must have been quiet. folded: as a new
    visitor finds it, else with Details, prompt, slots and race open. first: a script that runs before the page's."""
    taken: list[Tab] = []
    screens: list[Screen] = []

    def open_(query: str = "?still", folded: bool = False, at: str = address, first: str = "", **options) -> Screen:
        taken.append(tabs.take(**options))
        screens.append(Screen(taken[-1], at, query, folded, first))
        return screens[-1]

    yield open_
    try:
        for screen in screens:
            assert screen.foreign == [] and screen.complaints == []
            assert screen.page.evaluate("window.hit") is None
    finally:
        for tab in taken:
            tabs.give(tab)


class Slow:
    """An engine run with a pause in every step, so that a test can act while it is under way."""

    running = 0

    def __init__(self, run: engines.Run, pause: float) -> None:
        self.run, self.pause, self.open = run, pause, True
        Slow.running += 1

    def __next__(self):
        time.sleep(self.pause)
        return next(self.run)

    def close(self) -> None:
        Slow.running -= self.open
        self.open = False
        self.run.close()

    def __getattr__(self, name: str):
        return getattr(self.run, name)


@pytest.fixture
def slowly(monkeypatch) -> type[Slow]:
    """Every step of a run on the page takes 0.2 s more."""
    real = engines.stream
    monkeypatch.setattr(engines, "stream", lambda *a, **k: Slow(real(*a, **k), 0.2))
    Slow.running = 0
    return Slow


class Held(Slow):
    """A run that stays under way behind its first step until something else was done."""

    def __init__(self, run: engines.Run, over: threading.Event) -> None:
        super().__init__(run, 0)
        self.over, self.begun = over, False

    def __next__(self):
        if self.begun:
            assert self.over.wait(120)
        self.begun = True
        return next(self.run)


@pytest.fixture
def until_stopped(monkeypatch) -> type[Slow]:
    """A run on the page stays behind its first step until it is stopped."""
    from explorer.page.sessions import Job

    real, end, over = engines.stream, Job.end, threading.Event()

    def stream(*given, **options):
        over.clear()
        return Held(real(*given, **options), over)

    monkeypatch.setattr(engines, "stream", stream)
    monkeypatch.setattr(Job, "end", lambda job: (end(job), over.set()))
    Slow.running = 0
    return Slow
