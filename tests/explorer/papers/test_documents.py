"""README and the texts of `assets/docs`: short, linked, and true of the data that parts of them are generated from."""

import re
from pathlib import Path

import msgspec
import pytest

import engines
from explorer import papers
from explorer.papers import cards, documents, listing, measured
from explorer.papers.documents import PICTURES
from explorer.papers.tables import Measured, shown
from explorer.site import pictures

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXTS = [ROOT / "README.md", *sorted((ROOT / "assets" / "docs").glob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@pytest.fixture(autouse=True)
def the_papers_of_the_repository(monkeypatch):
    """These texts are of them, whatever papers somebody has beside them."""
    monkeypatch.delenv("DECODING_EXPLORER_EXTRA", raising=False)


def anchors(text: str) -> set[str]:
    """The places that headings make, as GitHub names them."""
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_a_text_is_up_to_date_and_every_link_file_and_module_that_it_names_is_there(path: Path):
    whole = path.read_text(encoding="utf-8")
    assert documents.filled(whole) == whole, "run `python -m explorer.papers.documents`"
    for target in LINK.findall(re.sub(r"```.*?```", "", whole, flags=re.DOTALL)):
        if target.startswith("https://"):
            continue
        file, _, place = target.partition("#")
        at = (path.parent / file).resolve() if file else path
        assert at.is_file() and at.is_relative_to(ROOT), f"{path.name} links to {target}"
        assert not place or place in anchors(at.read_text(encoding="utf-8")), f"{path.name} links to {target}"
    named = re.findall(r"`((?:engines|explorer|assets|tests)/[\w./-]+)`", whole)
    assert [name for name in named if not (ROOT / name).exists()] == []
    modules = re.findall(r"python -m ((?:engines|explorer|tests)[\w.]*)", whole)
    places = [ROOT / name.replace(".", "/") for name in modules]
    assert all(place.with_suffix(".py").is_file() or (place / "__main__.py").is_file() for place in places), modules


def test_the_documents_are_few_and_short():
    texts = [path.read_text("utf-8") for path in TEXTS[1:]]
    assert len(texts) <= 10 and sum(len(text.split()) for text in texts) <= 22_000


def test_every_part_has_a_place_every_text_is_linked_and_every_run_that_one_links_to_is_recorded():
    whole = "".join(path.read_text(encoding="utf-8") for path in TEXTS)
    assert set(re.findall(r"^<!-- (\w+): generated", whole, re.MULTILINE)) == set(documents.PARTS)
    listed = README.partition("<!-- docs:")[2].partition("<!-- /docs -->")[0]
    linked = re.findall(r"\]\(assets/docs/(.+?)\.md\)", listed)
    assert linked == list(documents.documents()) and set(linked) == set(documents.ORDER)
    assert "sdk: gradio" in README.split("---\n", 2)[1], "what a Space reads"
    runs = {name for found in re.findall(r"\?gallery=([\w,-]+)", whole) for name in found.split(",")}
    assert runs and runs <= {one.id for one in papers.read().recordings()}


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


def test_a_part_that_is_unknown_doubled_or_has_no_end_is_an_error():
    whole = "<!-- kinds: generated -->\n<!-- /kinds -->"
    for text in ("<!-- papers: generated -->\nno end", whole.replace("kinds", "magic"), f"{whole}\n{whole}"):
        with pytest.raises(ValueError, match="is no generated part with one end"):
            documents.filled(text)


RECORDS = sorted(measured.RECORDS.glob("*.json"))


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.stem)
def test_a_record_fits_its_columns_and_belongs_to_a_subject(file: Path):
    assert file.stem in measured.SUBJECTS
    for found in msgspec.json.decode(file.read_bytes(), type=list[Measured]):
        assert {len(row) for row in found.rows} == {len(found.columns)}, found.title
        assert all(cell[1] <= cell[0] <= cell[2] for row in found.rows for cell in row if isinstance(cell, list))


def test_every_table_has_a_name_of_its_own_and_whole_rows_and_the_index_leads_to_each_measured_one():
    names = [*listing.TITLES, *listing.by_name()]
    assert len(names) == len(set(names)) > 70
    assert len(listing.by_name()) == sum(map(len, measured.tables().values())), "no two titles make one name"
    for name in names:
        table = listing.table(name)
        assert {len(row) for row in table.rows} == {len(table.columns)} and all(table.columns), name
    assert [row[0].to for row in listing.table("measured").rows] == list(listing.by_name())
    with pytest.raises(KeyError):
        listing.table("nothing")


def test_the_table_of_papers_has_every_method_that_ships():
    told = {slug for row in listing.table("papers").rows for slug in row[2].split(", ")}
    assert {info.slug for info in engines.list_methods() if not info.file} <= told


def test_every_result_that_a_document_tells_is_in_the_table_that_it_names():
    """Of a row all numbers behind the first: `1.91×` as 1.91, `40.0 %` as 40.0."""
    part = documents.section("measuring", "What we measured")
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")][1:]
    titles = {found.title: name for name, found in listing.by_name().items()}
    for question, told, _, title in rows:
        table = listing.table(titles[title])
        cells = " ".join([title, *table.about, *(str(cell) for row in table.rows for cell in row)])
        numbers = re.findall(r"\d+\.\d+", told)
        assert numbers or "of" in told, question
        assert [n for n in numbers if not re.search(rf"(?<![\d.]){re.escape(n)}(?!\d)", cells)] == [], question


def test_no_document_and_no_paper_names_a_study_that_is_no_more():
    known = {info.slug for info in engines.list_studies()}
    told = [tool for paper in papers.read().all() for tool in paper.tools]
    told += [(documents.DOCS / f"{name}.md").read_text("utf-8") for name in documents.documents()]
    named = {slug for text in told for slug in re.findall(r"decoding-explorer\s+study\s+([a-z][a-z-]+)", text)}
    assert named and named <= known
    gone = Measured("T", "", "one machine", "2026-11", ["way"], [["a"]], made_by="a study (x: n=1)")
    assert gone.origin == "A study (x: n=1); one machine; 2026-11."


def test_a_table_shows_as_many_digits_as_its_column_needs():
    rows = [["a", [1.5, 1, 2.25], 1000], ["`b`", 2.0, None]]
    found = shown(Measured("T", "", "one machine", "2026-11", ["way", "x", "n"], rows, notes=["Said once."]))
    assert found.about == ["Command not recorded; one machine; 2026-11.", "- Said once."]
    assert found.rows == [["a", "1.5 (1.00 to 2.25)", "1,000"], ["b", "2.0", "–"]]


def test_every_training_has_a_row_and_what_it_reached():
    for folder in ("models", "parts"):
        rows = cards.trainings(folder)
        assert len(rows) == len(cards.cards(folder)) > 30
    every = {**cards.cards("models"), **cards.cards("parts")}
    silent = {name for name, card in every.items() if cards.reached(card) == "–"}
    assert silent == {"smollm2-store", "tiny-store", "tiny-ar-l-draft-grid"}, "stores hold tokens, the grid has a study"


TOGETHER = 400_000  # bytes


def test_they_are_what_the_data_say_and_small(capsys):
    assert pictures.main(["--check"]) == 0, capsys.readouterr().out
    assert {file.name for file in PICTURES.iterdir()} == {f"{name}.svg" for name in pictures.DRAWN}
    assert sum(file.stat().st_size for file in PICTURES.iterdir()) < TOGETHER
