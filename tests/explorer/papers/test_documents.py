"""README and the texts of `assets/docs`: short, linked, and true of the data that parts of them are generated from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from explorer import about, papers
from explorer.papers import documents

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXTS = [ROOT / "README.md", *sorted((ROOT / "assets" / "docs").glob("*.md"))]
MOST_LINES = 150  # of the README
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@pytest.fixture(autouse=True)
def the_papers_of_the_repository(monkeypatch):
    """These texts are of them, whatever papers somebody has beside them."""
    monkeypatch.delenv("DECODING_EXPLORER_EXTRA", raising=False)


def anchors(text: str) -> set[str]:
    """The places that headings make, as GitHub names them."""
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and items of lists, without headings, tables, code and comments."""
    text = re.sub(r"```.*?```|<!--.*?-->", "\n\n", text, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=[-*#|] ?|\d+\. )", text):
        if not block.lstrip().startswith(("#", "|")):
            yield block


def test_the_readme_is_short_and_has_its_front_matter():
    _, front, body = README.split("---\n", 2)
    assert "sdk: gradio" in front
    assert len(README.splitlines()) <= MOST_LINES
    first = body.split("## Install")[0]
    assert "film.gif" in first and "**For whom**" in first and len(first.splitlines()) <= 25, (
        "one screen, with a picture"
    )


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_generated_parts_are_up_to_date(path: Path):
    text = path.read_text(encoding="utf-8")
    assert documents.filled(text) == text, "run `python -m explorer.papers.documents`"


def test_every_generated_part_has_a_place():
    whole = "".join(path.read_text(encoding="utf-8") for path in TEXTS)
    assert set(re.findall(r"^<!-- (\w+): generated", whole, re.MULTILINE)) == set(documents.PARTS)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_link_between_the_texts_leads_somewhere(path: Path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in LINK.findall(text):
        if target.startswith("https://"):
            continue
        file, _, place = target.partition("#")
        at = (path.parent / file).resolve() if file else path
        assert at.is_file() and at.is_relative_to(ROOT), f"{path.name} links to {target}"
        assert not place or place in anchors(at.read_text(encoding="utf-8")), f"{path.name} links to {target}"


def test_every_text_is_linked_from_the_readme_in_the_order_of_reading():
    listed = README.partition("<!-- docs:")[2].partition("<!-- /docs -->")[0]
    linked = re.findall(r"\]\(assets/docs/(.+?)\.md\)", listed)
    assert linked == list(documents.documents()) and set(linked) == set(documents.ORDER)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_lines_outside_tables_and_code_have_120_columns_at_most(path: Path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    long = [line for line in text.splitlines() if len(line) > 120 and not line.startswith(("|", "!["))]
    assert not long, long[0]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_paragraph_is_longer_than_one_reads_at_once(path: Path):
    long = [one[:80] for one in paragraphs(path.read_text(encoding="utf-8")) if len(one.split()) > 120]
    assert not long, f"more than 120 words: {long}"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_files_that_a_text_names_are_there(path: Path):
    named = re.findall(r"`((?:engines|explorer|assets|tests)/[\w./-]+)`", path.read_text(encoding="utf-8"))
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_modules_that_a_text_runs_are_there(path: Path):
    named = re.findall(r"python -m ((?:engines|explorer|tests)[\w.]*)", path.read_text(encoding="utf-8"))
    places = [ROOT / name.replace(".", "/") for name in named]
    assert all(place.with_suffix(".py").is_file() or (place / "__main__.py").is_file() for place in places), named


def test_the_method_table_has_every_method_and_the_published_figures_say_where():
    table, published = documents.method_table(), documents.published_table()
    for paper in papers.read().all():
        assert all(f"`{slug}`" in table for slug in (*paper.methods, *paper.tools))
        for info in (info for info in papers.methods_of(paper) if not info.file):
            (target,) = re.findall(rf"\[`{info.slug}`\]\(\.\./\.\./([\w/]+\.py)\)", table)
            assert f'"{info.slug}",\n' in (ROOT / target).read_text("utf-8"), "the file declares it"
        assert all(f"| {one.figure} | {one.what} | {one.where} |" in published for one in paper.published)
    planned = papers.counts()["planned"]
    assert len(documents.planned_table().splitlines()) == (2 + planned if planned else 1)


def test_the_page_and_the_site_say_what_the_texts_say():
    for part, words in (
        (about.NUMBERS, "### How the numbers are obtained"),
        (about.NUMBERS, "**published**: taken from a paper"),
        (about.KEYS, "### Keyboard"),
        (about.SWEEPS, "### What a method adds to a plain threshold"),
    ):
        assert words in part and "<!--" not in part
    assert documents.section("nothing", "Head") == "### Head\nThe text assets/docs/nothing.md is not installed.\n"
    assert "has no such part" in documents.section("numbers", "Head")
    with pytest.raises(KeyError):
        documents.document("../models/README")


def test_every_feature_names_where_it_is_and_a_test_that_exists():
    found = documents.features()
    assert found and len({one.feature for one in found}) == len(found)
    groups = [one.group for one in found]
    assert sum(a != b for a, b in pairwise(groups)) == len(set(groups)) - 1, "a group is in one piece"
    for one in found:
        assert bool(one.where) == bool(one.test) == (one.state != "no"), one.feature
        if one.test:
            file, _, name = one.test.partition("::")
            begins = rf"^def {name}\(" if file.endswith(".py") else rf'^test\("{name}",'
            assert re.search(begins, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), (
                f"{one.feature}: there is no {one.test}"
            )


def test_a_stale_part_is_found_and_written_anew(tmp_path: Path, capsys):
    path = tmp_path / "README.md"
    said, now = papers.sentence(), documents.filled(README)
    assert said.splitlines()[0][:60] in now
    path.write_text(now.replace(documents.wrapped(said), "No paper works."), encoding="utf-8")
    assert documents.main([str(path), "--check"]) == 1
    assert "is not what the data say" in capsys.readouterr().out
    assert documents.main([str(path)]) == 0 and path.read_text(encoding="utf-8") == now
    assert documents.main(["--check", str(path)]) == 0
    assert "is up to date" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "<!-- papers: generated -->\nno end",
        "<!-- magic: generated -->\n<!-- /magic -->",
        "<!-- kinds: generated -->\n<!-- /kinds -->\n<!-- kinds: generated -->\n<!-- /kinds -->",
    ],
)
def test_a_part_that_is_unknown_or_has_no_end_is_an_error(text: str):
    with pytest.raises(ValueError, match="is no generated part with one end"):
        documents.filled(text)


def test_every_run_that_a_text_links_to_is_recorded():
    recorded = {one.id for one in papers.read().recordings()}
    text = "".join(path.read_text(encoding="utf-8") for path in TEXTS)
    linked = {name for found in re.findall(r"\?gallery=([\w,-]+)", text) for name in found.split(",")}
    assert len(linked) >= 10 and linked <= recorded, linked - recorded
