"""Ticked boxes look ticked: of a slot's form and of a fork's, in both themes."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from tests.page.conftest import methods_of


def pixels(shot: bytes) -> list[tuple[int, int, int]]:
    picture = Image.open(io.BytesIO(shot)).convert("RGB")
    return [picture.getpixel((x, y)) for x in range(picture.width) for y in range(picture.height)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_ticked_box_is_filled_and_an_empty_one_is_not(visit, scheme):
    screen = visit(f"?still&__theme={scheme}", color_scheme=scheme)
    screen.wait(0, "ready")
    screen.unfold()
    slug = next(one for one in methods_of("masked") if one == "creditdecoding")
    screen.method(0, slug)
    forms = screen.parameters(0)
    screen.wait(0, "ready")
    screen.player(0).press("f")
    forks = screen.page.locator(".dx-fork")
    forks.locator("summary").click()
    for box in (forms.locator("input[type=checkbox]").first, *forks.locator("input[type=checkbox]").all()[:1]):
        box.uncheck()
        box.blur()
        empty = pixels(box.screenshot())
        box.check()
        box.blur()
        ticked = pixels(box.screenshot())
        other = sum(max(map(abs, map(int.__sub__, a, b))) > 60 for a, b in zip(empty, ticked, strict=True))
        assert other > 0.4 * len(empty), "a tick alone, white on white, is no filled box"
