"""The Gallery tab."""

import json

from playwright.sync_api import expect

from explorer.page import gallery
from explorer.runs.gallery import Gallery
from tests.page.conftest import desk, visitor


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


def test_whoever_asks_for_something_else_gets_a_sentence(recorded):
    found = gallery.groups(Gallery(recorded))
    assert [card["pictures"] for group in found for card in group["cards"]] == [[]] * 4, "a folder without pictures"
    handlers = desk(recorded)
    for value in (None, 7, "{", "[" * 100_000, '{"play": []}', '{"play": ["a", "b", "c", "d", "e"]}', '{"play": 1}'):
        said = json.loads(handlers.play(gallery.asked_for(value), visitor())[1])
        assert said["kind"] == "error" and "there is no recorded trace" in said["text"].lower()
