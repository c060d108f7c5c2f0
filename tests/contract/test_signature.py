"""Each method says which view shows the idea of its paper, and what it records is what that view needs."""

import pytest

import engines
from explorer.export.bundle import views

METHODS = {info.slug: info for info in engines.list_methods()}
VIEWS = {view.file: view for view in views()}


@pytest.mark.parametrize("slug", METHODS)
def test_a_method_declares_a_view_that_its_record_fills(slug: str) -> None:
    info = METHODS[slug]
    if info.signature in info.records and info.signature not in VIEWS:
        return  # a table, or a view beside the file
    assert info.signature in VIEWS, f"'{slug}' declares signature={info.signature!r}; choose from {', '.join(VIEWS)}"
    view = VIEWS[info.signature]
    assert view.needs, "a view that every run has shows the idea of none"
    board = "masked" if engines.core.kinds.KINDS[info.kind].masked else "growing"
    offers = {*info.emits, *info.records, board, "end"}
    offers |= {part for need in view.needs for part in need.split("+") if part.split(".")[0] in info.emits}
    assert view.wanted(offers), f"'{slug}' never records what the view '{view.file}' draws"
