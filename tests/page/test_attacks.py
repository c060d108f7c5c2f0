"""Attacks on a public page for a few seconds each; `python -m tests.page.attacks` takes minutes."""

from collections import defaultdict
from collections.abc import Iterator

import pytest

from explorer.page.visitor_limits import TOTAL
from tests.page.attacks import Attack, Page, attacks, public_page

pytestmark = [pytest.mark.slow, pytest.mark.timing, pytest.mark.server]
NAMES = [one.name for one in attacks(defaultdict(lambda: [0]))]
MEGABYTES = 300  # more than that: what attackers were to read piles up


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with public_page(patience=3) as made:  # less, and a busy machine has not read what was asked
        yield made


@pytest.mark.parametrize("name", NAMES)
def test_an_attack_holds_little_for_long_and_keeps_nobody_out(page: Page, name: str) -> None:
    what: Attack = next(one for one in attacks(page.numbers) if one.name == name)
    found = page.under(what, 6, 2)
    print(found)
    before, most, after = found.before, found.most, found.after
    assert found.failures == []
    assert min(found.beside) < 6 * max(found.alone), "the visitor was held up"
    assert found.got.opened and found.got.ended, "none was refused, answered or closed"
    assert most[0] < TOTAL + 1000 and after[0] <= before[0] + 8, "descriptors"
    assert most[1] < before[1] + MEGABYTES and after[1] < before[1] + MEGABYTES / 2
    assert found.logged < 100_000, "bytes in the log"
