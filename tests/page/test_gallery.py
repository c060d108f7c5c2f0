"""The Gallery tab."""

from __future__ import annotations

import io
import json
import types

import pytest
from PIL import Image, ImageStat
from playwright.sync_api import expect

from explorer.page import gallery
from explorer.page.catalogue import Catalogue
from explorer.page.handlers import Handlers
from explorer.page.limits import Limits
from explorer.runs.gallery import Gallery
from tests.page.conftest import soon


def grey(picture) -> Image.Image:
    return Image.open(io.BytesIO(picture.screenshot())).convert("L")


def test_cards_stand_in_groups_with_comparisons_first_and_are_found_by_a_word(visit, traces):
    screen = visit()
    screen.tab("Gallery")
    expect(screen.page.locator("#gallery-cards section").first.locator("h3")).to_have_text("Comparisons")
    cards, every = screen.page.locator("#gallery-cards .card:visible"), len(traces) + 1
    expect(cards).to_have_count(every)  # two runs on one prompt are a comparison
    search = screen.page.get_by_label("Find a run")
    search.fill(traces[2].header.title.split()[0])
    expect(cards).not_to_have_count(every)
    search.fill("no such run")
    expect(screen.page.locator("#gallery-cards .gallery-none")).to_have_text("No run fits.")
    expect(cards).to_have_count(0)
    search.fill("")
    expect(cards).to_have_count(every)


@pytest.mark.pages
def test_pictures_are_dark_on_a_dark_page(shipped, visit):
    page = visit("?still&__theme=dark", at=shipped, color_scheme="dark").page
    for tab in ("Gallery", "Methods"):
        page.get_by_role("tab", name=tab, exact=True).click()
        pictures = page.locator(".card-pictures img:visible")
        expect(pictures.first).to_be_visible()
        for picture in pictures.all()[:2]:
            picture.scroll_into_view_if_needed()
            picture.evaluate("(image) => image.decode()")
            soon(page, lambda picture=picture: ImageStat.Stat(grey(picture)).mean[0] < 128)  # drawn on white: above


def test_a_folder_of_ones_own_without_pictures_is_shown_in_words(recorded):
    found = gallery.groups(Gallery(recorded))
    assert [card["pictures"] for group in found for card in group["cards"]] == [[]] * 4


@pytest.mark.parametrize(
    "value", [None, 7, "", "{", "[" * 100_000, '{"play": []}', '{"play": ["a", "b", "c", "d", "e"]}', '{"play": 1}']
)
def test_whoever_asks_for_something_else_gets_a_sentence(recorded, value):
    handlers = Handlers(Gallery(recorded), Catalogue.read(False), Limits(1000, 100, 60, False))
    request = types.SimpleNamespace(session_hash="a", client=None, headers={})
    said = json.loads(handlers.showing.play(gallery.asked_for(value), request)[1])
    assert said["kind"] == "error" and "there is no recorded trace" in said["text"].lower()
