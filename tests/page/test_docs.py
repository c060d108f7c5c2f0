"""The Docs tab: every text, its links, and that nothing of it is sent before it is opened."""

import re
from pathlib import Path

from explorer.page.docs import text
from explorer.papers.documents import documents


def test_links_stay_on_the_page_or_become_words():
    for name in documents():
        shown = text(name)
        assert shown.startswith(f"# {documents()[name]}\n") and "<!--" not in shown
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", shown, flags=re.DOTALL)):
            named = re.fullmatch(r"\?doc=([\w-]+)", target)
            kept = target.startswith(("https://", "data:image/svg+xml;base64,")) or target == "?lecture"
            assert kept or (named and named[1] in documents()), f"{name}: {target}"
    assert text("../../README") == "There is no text '../../README' here; choose one from the list."


def test_every_test_that_a_promise_names_is_there():
    root = Path(__file__).parents[2]
    for file in ("SECURITY.md", "assets/docs/hosting.md"):
        text = (root / file).read_text("utf-8")
        named = re.findall(r"`(tests/[\w/]+\.py)`", text)
        named += [one.replace(".", "/") + ".py" for one in re.findall(r"`python -m (tests[\w.]+)", text)]
        assert [one for one in named if not (root / one).is_file()] == []
        assert len(named) > 20 or file == "SECURITY.md"
