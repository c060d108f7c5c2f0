"""Methods of one's own on the page: the printed template in a slot, beside its words on the Methods tab, what a mistake
in it says; and a record with a view beside its file."""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import pytest
from playwright.sync_api import expect

import engines
from explorer import cli
from explorer.page import chooser
from explorer.page.server import launch
from explorer.runs.gallery import Gallery
from tests import own_record
from tests.page.conftest import PROMPT, desk

pytestmark = pytest.mark.server
FAULT = 'throw new Error("nothing works");'


@pytest.fixture
def served(recorded, tmp_path, registry_unchanged) -> Iterator[tuple[str, Path]]:
    """The address of a page that was started with the masked template and a method with a record, and their folder."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert cli.main(["template"]) == 0
    (tmp_path / "my.py").write_text(printed.getvalue())
    for file in (tmp_path / "my.py", own_record.written(tmp_path)):
        engines.load_method_file(file)
    demo = launch(warm=False, traces=Gallery(recorded), quiet=True)
    yield demo.local_url, tmp_path
    demo.close()


def test_the_template_runs_in_a_slot_its_mistakes_are_sentences_and_a_record_has_its_view(served, visit):
    address, folder = served
    one = visit(at=address)
    one.slots(1)
    one.method(0, "my-masked")
    one.prompt(PROMPT)
    one.press("Run")
    one.says("Done: one run")
    expect(one.player(0).locator("h2 > span")).to_have_text("My masked method")
    expect(one.player(0).locator(".dx-mark")).to_have_text("✓ right, by the task's exact check")
    path = folder / "my.py"
    lines = path.read_text().replace("z.argmax(-1)", "z.argmaxx(-1)").splitlines()
    wrong = next(number for number, line in enumerate(lines, 1) if "argmaxx" in line)
    path.write_text("\n".join(lines) + "\n")
    engines.load_method_file(path)
    one.press("Run")
    one.says("'my-masked' failed after 0 steps: AttributeError")
    one.says(f"my.py, line {wrong}")
    one.tab("Methods")
    expect(one.page.locator("#methods")).to_contain_text("My masked method (your file my.py)")
    one.tab("Explore")
    one.method(0, "my-hops")
    one.press("Run")
    one.says("Done: one run")
    table = one.player(0).locator("section[data-view=RecordTable]")
    expect(one.player(0).locator("section[data-view=Hops] .dx-hops")).to_have_text(re.compile(r"floor \d"))
    expect(table).to_have_count(0)
    (folder / "hops.js").write_text(own_record.VIEW.replace("show(t) {", f"show(t) {{\n    {FAULT}"), "utf-8")
    one.page.reload()
    one.unfold()
    one.press("Run")
    one.says("Done: one run")
    expect(one.player(0).locator(".dx-body")).to_contain_text("The view “Hops” failed: nothing works")
    expect(table.get_by_role("row", name="floor")).to_be_visible()
    assert all("nothing works" in text for text in one.complaints), "for its author, with the line"
    one.complaints.clear()


def test_a_public_host_says_that_it_takes_none(monkeypatch):
    said = []
    monkeypatch.setattr(chooser.gr, "Markdown", said.append)
    with gr.Blocks():
        chooser.own_method(desk(public=True))
    assert said[1] == chooser.CLOSED
