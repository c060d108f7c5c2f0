"""A method of one's own with a record: its view lies beside the file and is shown in a slot; without one, the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import engines
from tests import own_record
from tests.page.conftest import PROMPT


@pytest.fixture
def page_with(recorded: Path, tmp_path: Path, registry_unchanged: None) -> Iterator[Callable[[str], str]]:
    """The address of a page that was started with the method and this view beside it."""
    from explorer.page.server import launch
    from explorer.runs.gallery import Gallery

    demos: list[Any] = []

    def start(view: str) -> str:
        engines.load_method_file(own_record.written(tmp_path, view))
        demos.append(launch(warm=False, traces=Gallery(recorded), quiet=True))
        return str(demos[-1].local_url)

    yield start
    for demo in demos:
        demo.close()


FAULT = 'throw new Error("nothing works");'


def ran(visit: Callable[..., Any], address: str) -> Any:
    one = visit(at=address)
    one.page.locator("#count").get_by_text("1", exact=True).click()
    one.method(0, "my-hops")
    one.prompt(PROMPT)
    one.press("Run")
    one.says("Done: one run")
    return one


def test_the_view_beside_the_method_file_shows_the_idea(page_with: Any, visit: Any) -> None:
    one = ran(visit, page_with(own_record.VIEW))
    view = one.player(0).locator("section[data-view=Hops]")
    expect(view).to_have_attribute("data-idea", "")
    expect(view.locator("h3")).to_have_text("Hops")
    expect(view.locator(".dx-hops")).to_have_text(re.compile(r"floor \d"))
    assert not one.player(0).locator("[data-view=RecordTable]").count()


def test_without_a_view_the_table_shows_the_idea(page_with: Any, visit: Any) -> None:
    one = ran(visit, page_with(""))
    table = one.player(0).locator("section[data-view=RecordTable]")
    expect(table).to_have_attribute("data-idea", "")
    expect(table).to_contain_text("How high the written token stood, and who was next.")
    expect(table.get_by_role("row", name="floor")).to_be_visible()


@pytest.mark.parametrize("where", ["load(run, dom) {", "show(t) {"])
def test_a_view_that_throws_is_named_and_the_table_stands_in(page_with: Any, visit: Any, where: str) -> None:
    broken = own_record.VIEW.replace(where, f"{where}\n    {FAULT}")
    one = ran(visit, page_with(broken))
    expect(one.player(0).locator(".dx-body")).to_contain_text("The view “Hops” failed: nothing works")
    expect(one.player(0).locator("section[data-view=RecordTable]")).to_contain_text("floor")
    expect(one.player(0).get_by_role("row", name="floor")).to_be_visible()
    assert all("nothing works" in text for text in one.complaints), "for its author, with the line"
    one.complaints.clear()


def test_a_file_that_nobody_declared_is_not_served(page_with: Any, visit: Any, tmp_path: Path) -> None:
    address = page_with(own_record.VIEW)
    (tmp_path / "other.js").write_text("export const a = 1;", "utf-8")
    one = visit(at=address)
    status = "(name) => fetch(`files/player/own/${name}`).then((answer) => answer.status)"
    names = ("hops.js", "other.js", "my_hops.py", "..%2fmy_hops.js")
    assert [one.page.evaluate(status, name) for name in names] == [200, 404, 404, 404]
    assert len(one.complaints) == 3
    one.complaints.clear()
