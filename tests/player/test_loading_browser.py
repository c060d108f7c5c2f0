"""Views are loaded when a run first needs them: as scripts from a server, and not at all in a page saved to disk."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Route, expect

import engines
from engines.core.trace import RecordInfo, Trace, pack
from explorer import ASSETS
from explorer.export.bundle import given, module_name, script_of, styles, views, views_of
from explorer.export.html import export_html
from explorer.figures.handed import shown
from tests import own_record
from tests.engines.fakes import TableCausal
from tests.player.conftest import OPEN
from tests.player.handmade import HOSTILE, batches, drafting, everything_else, masked
from tests.player.pictures import becomes

MOUNT = """(theme) => { const m = dxModules.use("player/gradio.js");
  const el = () => document.body.appendChild(document.createElement("div"));
  m.mountToolbar(el(), { theme }); window.panel = m.mountPanel(el(), { slot: 0, theme }); }"""


class Served:
    """A page that asks for what its first script lacks, with the names of what it asked for."""

    def __init__(self, page: Page) -> None:
        self.page, self.asked = page, []
        self.missing: set[str] = set()
        page.route("http://player.test/**", self._serve)
        page.add_init_script(OPEN)
        page.goto("http://player.test/page")
        page.evaluate(MOUNT, (ASSETS / "theme.json").read_text("utf-8"))

    def _serve(self, route: Route) -> None:
        name = route.request.url.removeprefix("http://player.test/")
        self.asked.append(name)
        if name == "page":
            head = '<meta charset="utf-8"><link rel="stylesheet" href="all.css"><script src="board.js"></script>'
            route.fulfill(content_type="text/html", body=f"<!doctype html>{head}<title>t</title><body></body>")
        elif name in self.missing:
            route.abort()
        elif name == "all.css":
            route.fulfill(content_type="text/css", body=styles())
        else:
            board = given() + script_of(["player/gradio.js", *map(module_name, views_of(()))], ())
            route.fulfill(content_type="text/javascript", body=board if name == "board.js" else script_of([name]))

    def views(self) -> set[str]:
        """Those drawn now."""
        return set(self.page.evaluate("panel.debug().views"))

    def wait_for(self, *names: str) -> None:
        self.page.wait_for_function("(names) => names.every((n) => panel.debug().views.includes(n))", arg=list(names))

    def load(self, trace: Trace) -> None:
        self.page.evaluate("(text) => panel.load(text)", shown(trace))


@pytest.fixture
def served(browser: Browser) -> Iterator[Served]:
    page = browser.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield Served(page)
    assert wrong == []
    page.close()


def test_a_run_loads_its_views_and_no_other(served: Served) -> None:
    served.load(masked(24, 4))
    served.wait_for("Counters", "Text", "Tokens", "Predict", "Overview", "Hindsight")
    expect(served.page.get_by_role("button", name="Race")).to_be_visible()
    assert not {f"views/{name}.js" for name in ("tree", "gantt", "branches", "routing", "fork")} & set(served.asked)
    assert len(served.asked) == len(set(served.asked))
    served.load(drafting())
    served.wait_for("DraftTree")
    assert "views/tree.js" in served.asked and len(served.asked) == len(set(served.asked))


def test_views_stand_in_their_places_however_late_they_come(served: Served) -> None:
    served.load(drafting())
    served.wait_for("DraftTree", "Facts", "Ribbon", "About")
    expected = [view.name for view in views()]
    names = "(nodes) => nodes.map((n) => n.dataset.view)"
    shown, folded = (served.page.locator(frame).evaluate_all(names) for frame in (".dx-part", ".dx-view"))
    assert served.page.evaluate("panel.debug().views") == [*shown, *folded]
    assert folded == [name for name in expected if name in folded]
    assert shown == ["Headline", "Tokens", "DraftTree", "Text", "Difference"], "the idea stands below the board"
    before = len(served.asked)
    served.page.evaluate("for (let t = 0; t <= panel.debug().steps; t++) panel.seek(t)")
    assert len(served.asked) == before, "scrubbing asks the server for nothing"


def test_a_live_run_that_grows_a_group_gets_its_view_at_the_step_it_stands_at(served: Served) -> None:
    parts = batches(everything_else())
    plain = {"index", "commits", "forwards", "tokens_fed", "model_seconds", "method_seconds"}
    for part in parts[2:4]:
        part["steps"] = [{name: value for name, value in part["steps"][0].items() if name in plain}]
    push = "(some) => some.forEach((batch) => panel.push(batch))"
    served.page.evaluate(push, parts[:4])
    served.wait_for("Tokens", "Counters")
    assert not {"Gantt", "Memory"} & served.views()
    served.page.evaluate(push, parts[4:5])
    served.wait_for("Gantt", "Memory")
    becomes(lambda: served.page.evaluate("panel.debug().step"), 3)
    expect(served.page.locator(".dx-memory > div:visible").first).to_be_visible()
    expect(served.page.locator("[data-view=Gantt] .dx-readout")).not_to_be_empty()


def test_a_view_that_does_not_come_is_said_and_the_others_stand(served: Served) -> None:
    served.missing.add("views/tree.js")
    served.load(drafting())
    served.wait_for("Tokens", "Facts")
    said = "The view “Draft tree” could not be loaded; load the run again."
    expect(served.page.locator(".dx-body")).to_contain_text(said)
    served.page.evaluate("panel.seek(4)")
    becomes(lambda: served.page.evaluate("[panel.debug().step, panel.debug().state]"), [4, "ready"])


def with_hops(steps: int = 3) -> Trace:
    """A record that no view is made for, and one whose form is another than its view knows."""
    trace = everything_else(steps)
    told = {"tokens": "token", "confidence": "probability", "inner.at": "seconds"}
    trace.header.records["hops"] = RecordInfo("Where each draft left <b>the</b> network.", told)
    for i, step in enumerate(trace.steps):
        step.records["hops"] = {
            "floor": i + 2, "confidence": 0.25 * i, "name": HOSTILE[0], "tokens": [15 + i, 20],
            "weights": [0.5, 1.0], "inner": {"at": 0.25}, "rows": [{"a": 1, "b": [2, 3]}, {"a": 4}],
            "map": msgspec.to_builtins(pack(np.linspace(0, 1, 6).reshape(2, 3))), "by_name": {"x": 1.0, "y": 3.0}
        }  # fmt: skip
    return trace


def test_a_record_without_a_view_is_a_table_with_units_bars_and_shades(served: Served) -> None:
    served.load(with_hops())
    served.wait_for("RecordTable")
    table = served.page.locator("[data-view=RecordTable]")
    expect(table).to_contain_text("Before the first step.")
    served.page.evaluate("panel.seek(2)")
    expect(table.locator(".dx-readout").first).to_have_text("Where each draft left <b>the</b> network.")
    cells = table.locator("tr").evaluate_all("(rows) => rows.map((row) => [...row.cells].map((c) => c.textContent))")
    rows = {row[0]: row[1] for row in cells if row[1:]}
    assert (rows["floor"], rows["confidence"], rows["at"], rows["x"]) == ("3", "0.250", "250 ms", "1")
    assert "window.hacked" in rows["name"] and not served.page.evaluate("window.hacked")
    piece = served.page.evaluate("panel.run.piece(16).text").strip()
    assert piece
    expect(table.locator("td", has_text=piece).first).to_be_visible()
    expect(table.locator("svg rect")).to_have_count(9)  # floor, confidence and the time within, over three steps
    becomes(lambda: table.locator("canvas").evaluate("(c) => [c.width, c.height]"), [3, 2])


def test_a_view_that_throws_is_named_and_its_record_stands_as_a_table(served: Served) -> None:
    trace = with_hops()
    for step in trace.steps:
        step.records["vote"] = {"voters": 3}
    served.load(trace)
    served.wait_for("RecordTable", "Thermometer")
    served.page.evaluate("panel.seek(2)")
    expect(served.page.locator(".dx-body")).to_contain_text("The view “Paths and votes” failed: ")
    expect(served.page.locator("[data-view=RecordTable]")).to_have_count(2)
    assert "Vote" not in served.views()
    served.page.evaluate("panel.seek(3)")
    becomes(lambda: served.page.evaluate("[panel.debug().step, panel.debug().state]"), [3, "done"])
    expect(served.page.locator("[data-view=RecordTable]").last).to_contain_text("voters")


def test_a_run_that_is_replaced_meanwhile_gets_nothing_of_the_old_one(served: Served) -> None:
    both = [shown(drafting()), shown(masked(24, 4))]
    served.page.evaluate("([one, two]) => { panel.load(one); panel.load(two); }", both)
    served.wait_for("Tokens", "Overview")
    served.page.wait_for_load_state("networkidle")
    assert "DraftTree" not in served.views()
    expect(served.page.locator(".dx-board")).to_have_count(1)


def test_batches_reach_their_panels(served: Served) -> None:
    """The bus starts before its panels are there; what came early waits for them, and who asks which runs are shown is
    told again."""
    got = served.page.evaluate(
        """([theme, parts]) => {
        const [m, clock] = ["gradio", "clock"].map((name) => dxModules.use(`player/${name}.js`));
        let later, seen = [];
        document.addEventListener("dx-runs", () => seen.push(clock.groupNamed("main").runners.length));
        const el = () => document.body.appendChild(document.createElement("div"));
        const sent = (some) => JSON.stringify({ batches: some.map((b) => ({ slot: 1, ...b })) });
        const props = { value: sent(parts.slice(0, 4)) };
        m.bus(el(), props, (name, call) => (later = call)); m.mountPanel(el(), { slot: 1, theme });
        const early = m.panel(1).debug();
        props.value = sent(parts.slice(4)); later();
        const late = m.panel(1).debug(), other = m.panel(0).debug().state;
        props.value = JSON.stringify({ clear: true }); later();
        return [early.state, early.step, late.state, late.step, other, m.panel(1).debug().state, seen.join()]; }""",
        [(ASSETS / "theme.json").read_text("utf-8"), batches(drafting())],
    )
    assert got == ["live", 2, "done", 9, "empty", "empty", "0,1,1,0"]


def test_a_view_of_ones_own_with_a_mistake_of_syntax_leaves_a_saved_page_whole(
    browser: Browser, tmp_path: Path, registry_unchanged: None
) -> None:
    engines.load_method_file(own_record.written(tmp_path, own_record.VIEW + "const const = 1;\n"))
    trace = engines.run("my-hops", TableCausal(), [1, 2], params={"max_new_tokens": 3})
    (tmp_path / "run.html").write_text(export_html(trace), "utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "run.html").as_uri())
    page.evaluate("handles[0].seek(2)")
    expect(page.locator(".dx-body")).to_contain_text("The view “Hops” could not be loaded")
    expect(page.locator("[data-view=RecordTable]")).to_contain_text("floor")
    assert "Tokens" in page.evaluate("handles[0].debug().views")
    page.close()
