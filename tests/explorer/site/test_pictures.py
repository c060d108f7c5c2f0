"""The pictures of the documents: made by our own writers, small, and what the recorded runs say."""

from __future__ import annotations

import re

from explorer.papers.documents import DOCS, PICTURES
from explorer.site import pictures
from explorer.site.docs import pages

LARGEST, TOGETHER = 60_000, 400_000  # bytes


def test_they_are_what_the_data_say_and_small(capsys):
    assert pictures.main(["--check"]) == 0, capsys.readouterr().out
    sizes = {file.name: file.stat().st_size for file in PICTURES.iterdir()}
    assert set(sizes) == {f"{name}.svg" for name in pictures.DRAWN}, "each has its drawing"
    assert max(sizes.values()) < LARGEST and sum(sizes.values()) < TOGETHER


def test_a_stale_one_is_found_and_written_anew(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(pictures, "PICTURES", tmp_path)
    monkeypatch.setattr(pictures, "DRAWN", {"speeds": pictures.DRAWN["speeds"]})
    assert pictures.main(["--check"]) == 1 and "is not what the data say" in capsys.readouterr().out
    assert pictures.main([]) == 0 and pictures.main(["--check"]) == 0
    assert (tmp_path / "speeds.svg").read_text() == (PICTURES / "speeds.svg").read_text()


def test_each_is_shown_in_a_text_with_words_for_who_does_not_see_it():
    whole = "".join(file.read_text(encoding="utf-8") for file in DOCS.glob("*.md"))
    shown = re.findall(r"^!\[([^\]]+)\]\(pictures/([\w-]+)\.svg\)$", whole, re.MULTILINE)
    assert {name for _, name in shown} == set(pictures.DRAWN) and all(len(words) > 30 for words, _ in shown)


def test_the_site_has_them_beside_its_texts():
    made = pages()
    assert '<img src="pictures/tree.svg" alt="A draft tree' in made["docs/using.html"]
    assert made["docs/pictures/tree.svg"].startswith("<svg ")
