"""The Docs tab: every text, its links, and that nothing of it is sent before it is opened."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from explorer.page.docs import text
from explorer.papers import listing
from explorer.papers.documents import documents


def test_links_stay_on_the_page_or_become_words():
    for name in documents():
        shown, table = text(name)
        assert json.loads(table).keys() == {"n"}
        assert shown.startswith(f"# {documents()[name]}\n") and "<!--" not in shown
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", shown, flags=re.DOTALL)):
            named = re.fullmatch(r"\?doc=([\w-]+)", target)
            kept = target.startswith(("https://", "data:image/svg+xml;base64,")) or target == "?lecture"
            assert kept or (named and named[1] in documents()), f"{name}: {target}"
    assert text("../../README")[0] == "There is no text '../../README' here; choose one from the list."


def test_a_table_is_shown_below_what_is_said_of_it_and_the_index_leads_to_each():
    said, table = text("measured")
    rows = json.loads(table)["rows"]
    assert said.startswith("# Measured here\n") and {row[0]["href"] for row in rows} == {
        f"?doc={name}" for name in listing.by_name()
    }
    said, table = text(rows[0][0]["href"].removeprefix("?doc="))
    found = json.loads(table)
    assert (
        said.startswith(f"# {rows[0][0]['text']}\n\n[Measured here](?doc=measured)\n") and "`decoding-explorer" in said
    )
    assert found["sort"] and found["lang"] == "en" and len(found["rows"]) > 5


def test_every_test_that_a_promise_names_is_there():
    root = Path(__file__).parents[2]
    for file in ("SECURITY.md", "assets/docs/hosting.md"):
        text = (root / file).read_text("utf-8")
        named = re.findall(r"`(tests/[\w/]+\.py)`", text)
        named += [one.replace(".", "/") + ".py" for one in re.findall(r"`python -m (tests[\w.]+)", text)]
        assert [one for one in named if not (root / one).is_file()] == []
        assert len(named) > 20 or file == "SECURITY.md"


@pytest.mark.browser
def test_the_heads_of_a_table_sort_it_and_a_search_goes_on_in_that_order(visit):
    page = visit("?doc=48-new-tokens-on-smollm2", folded=True).page
    head = page.get_by_role("columnheader", name="tokens/forward")
    rows = page.locator("#docs-table tbody tr")

    def numbers() -> list[float]:
        return [float(cell) for cell in rows.locator("td:nth-child(4)").all_inner_texts()]

    expect(rows).to_have_count(10)
    for order in ("ascending", "descending"):
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", order)
        assert numbers() == sorted(numbers(), reverse=order == "descending") and len(set(numbers())) > 5
    page.locator("#docs-table").get_by_role("searchbox").fill("not told")
    shown = [row.get_by_role("rowheader").inner_text() for row in rows.all() if row.is_visible()]
    assert shown == ["dyspec", "speculative-sampling", "specdec-pp", "stand", "pearl", "aded"], "by tokens per forward"
    expect(page.locator("#docs-table output")).to_have_text("6 of 10")
