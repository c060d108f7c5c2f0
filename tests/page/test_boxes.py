"""Ticked boxes look ticked: of a slot's form and of a fork's, in both themes."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from tests.page.conftest import soon


def pixels(box) -> list[tuple[int, int, int]]:
    picture = Image.open(io.BytesIO(box.screenshot())).convert("RGB")
    return [picture.getpixel((x, y)) for x in range(picture.width) for y in range(picture.height)]


def filled(before: list, after: list) -> bool:
    """Whether much of a box is another colour: a tick alone, white on white, is no filled box."""
    other = sum(max(map(abs, map(int.__sub__, a, b))) > 60 for a, b in zip(before, after, strict=True))
    return other > 0.4 * len(before)


@pytest.mark.pages
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_ticked_box_is_filled_and_an_empty_one_is_not(visit, scheme):
    screen = visit(f"?still&__theme={scheme}", color_scheme=scheme)
    screen.wait(0, "ready")
    screen.unfold()
    screen.method(0, "creditdecoding")
    forms = screen.parameters(0)
    screen.wait(0, "ready")
    screen.player(0).press("f")
    forks = screen.page.locator(".dx-fork")
    forks.locator("summary").click()
    for box in (forms.locator("input[type=checkbox]").first, *forks.locator("input[type=checkbox]").all()[:1]):
        box.uncheck()
        box.blur()
        empty = pixels(box)
        box.check()
        box.blur()
        soon(screen.page, lambda box=box, empty=empty: filled(empty, pixels(box)))
