"""A sample of the hostile traces and records; `python -m tests.page.mutations` takes all two thousand."""

from __future__ import annotations

import pytest

from tests.page.mutations import COUNT, corpus, in_player, mount, on_server, opener

SAMPLE = [*range(3, COUNT - 10, 97), *(COUNT - 10 + place for place in (1, 3, 4, 5, 7))]


def test_the_corpus_is_the_same_every_time():
    wanted = [7, 8, 9, 12, COUNT - 4]
    first, again = ([(place, name, len(given)) for place, name, given in corpus(wanted)] for _ in range(2))
    assert first == again and [place for place, _, _ in first] == wanted


@pytest.mark.slow
def test_the_server_refuses_or_reads_each_within_bounds():
    found = list(on_server(corpus(SAMPLE), opener()))
    assert len(found) == len(SAMPLE)
    assert [str(one) for one in found if not one.held] == []
    assert any("Opened" in one.said for one in found) and any("not opened" in one.said for one in found)


@pytest.mark.slow
def test_the_player_refuses_or_shows_each_within_bounds(browser):
    page = browser.new_page()
    mount(page)
    found = list(in_player(corpus(SAMPLE), page))
    page.close()
    assert len(found) > 20 and [str(one) for one in found if not one.held] == []
