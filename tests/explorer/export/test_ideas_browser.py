"""Thumbnails that the player draws: shapes alone, small, of the recording that they name."""

import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import pytest

import engines
from engines import UserError
from explorer.export import ideas
from explorer.export.thumbs import LARGEST


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": ideas.WIDE, "height": ideas.HIGH}, color_scheme="light")
    yield opened
    opened.close()


OTHERS = [pytest.param(slug, marks=pytest.mark.pages) for slug in ("pearl", "medusa", "dyspec")]


@pytest.mark.parametrize("slug", ["kangaroo", *OTHERS])
def test_a_drawing_becomes_shapes_without_words(page: Any, slug: str) -> None:
    trace = engines.run(slug, "tiny-ar-l", "story: Mia, <b>boat</b>", params={"max_new_tokens": 16})
    text = ideas.idea(page, trace, 2, "0123456789abcdef")
    assert text is not None and len(text.encode()) <= LARGEST and ideas.told_of(text) == "0123456789abcdef"
    drawn = ET.fromstring(text)
    wide, high = map(float, drawn.attrib["viewBox"].split()[2:])
    assert wide > 100 and high > 20 and len(drawn) > 3
    assert {part.tag.rpartition("}")[2] for part in drawn} == {"path"} and "boat" not in text
    colours = {part.attrib["fill"] for part in drawn} | {part.attrib.get("stroke", "none") for part in drawn}
    assert all(one == "none" or (len(one) == 7 and int(one[1:], 16) >= 0) for one in colours) and len(colours) > 2
    assert ideas.idea(page, trace, 2, "0123456789abcdef") == text, "the same run gives the same shapes"
    plain = engines.run("llada", "tiny-dlm", "sort: Mia, Leo, Ada", params={"steps": 4, "max_new_tokens": 16})
    assert ideas.idea(page, plain, 2, "0123456789abcdef") is None, "it begins with no drawing"


def test_without_a_browser_a_sentence_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    with pytest.raises(UserError, match=r"drawn in a browser; install it with pip install"), ideas.browser():
        pass
