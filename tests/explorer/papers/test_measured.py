"""`measured.md`: its tables are made of data, and each says where it is from."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from explorer.papers import cards, measured
from explorer.papers.tables import Measured, markdown

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "assets" / "docs" / "measured.md").read_text(encoding="utf-8")
RECORDS = sorted(measured.RECORDS.glob("*.json"))


def tables() -> list[str]:
    return re.findall(r"^### .+?(?=^###? |^<!-- /|\Z)", TEXT, re.MULTILINE | re.DOTALL)


def test_every_number_of_the_document_stands_in_a_generated_part():
    outside = re.sub(r"<!-- (\w+): generated.*?<!-- /\1 -->", "", TEXT, flags=re.DOTALL)
    assert set(re.findall(r"\d+", outside)) <= {"0", "95"}, "only the rule how to read intervals"


@pytest.mark.parametrize("table", tables(), ids=lambda table: table.split("\n", 1)[0])
def test_every_table_says_where_it_is_from(table: str):
    origin = " ".join(table.split("\n| ", 1)[0].split())
    by_row = " command |" in table and "in each row" in origin
    assert by_row or re.search(r"(`[^`]+`|[Cc]ommand not recorded); .+; 2026-\d\d(-\d\d)?\.$", origin), origin


def test_rows_of_cards_name_command_and_date():
    for table in (one for one in tables() if "in each row" in one):
        rows = [row for row in table.splitlines() if row.startswith("| ")][2:]
        assert rows and all(re.search(r"\| 2026-\d\d-\d\d \|.*`python -m engines\.training", row) for row in rows)


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.stem)
def test_a_record_fits_its_columns_and_belongs_to_a_part(file: Path):
    assert file.stem in measured.SECTIONS
    for found in msgspec.json.decode(file.read_bytes(), type=list[Measured]):
        assert {len(row) for row in found.rows} == {len(found.columns)}, found.title
        assert all(cell[1] <= cell[0] <= cell[2] for row in found.rows for cell in row if isinstance(cell, list))
        assert not any("planning figure" in note for note in found.notes)


def test_a_table_shows_as_many_digits_as_its_column_needs():
    found = Measured(
        "T", "", "one machine", "2026-11", ["way", "x", "n"], [["a", [1.5, 1, 2.25], 1000], ["b", 2.0, None]],
        notes=["Said once."],
    )  # fmt: skip
    assert markdown(found).splitlines() == [
        "### T",
        "",
        "Command not recorded; one machine; 2026-11.",
        "",
        "| way | x | n |",
        "| --- | --- | --- |",
        "| a | 1.5 (1.00 to 2.25) | 1,000 |",
        "| b | 2.0 | – |",
        "",
        "- Said once.",
    ]


def test_an_interval_follows_its_value():
    heads, rows = measured._joined(["share (measured)", "from (derived)", "to (derived)", "n"], [[0.5, 0.25, 0.75, 4]])
    assert heads == ["share (measured)", "n"] and rows == [["0.5 (0.25 to 0.75)", "4"]]


def test_a_tiny_number_has_no_exponent():
    assert [measured._number(x) for x in (-6.83e-05, 0.000123, 0.0, 5)] == ["-0.00007", "0.000123", "0", "5"]


def test_every_training_has_a_row_with_date_command_and_what_it_reached():
    for folder in ("models", "parts"):
        found, rows = cards.cards(folder), cards.trainings(folder).splitlines()[2:]
        assert len(rows) == len(found) > 30
        for (name, card), row in zip(found.items(), rows, strict=True):
            assert row.startswith(f"| `{name}` |") and f"| {card['date']} | `{card['command']}` |" in row
    every = {**cards.cards("models"), **cards.cards("parts")}
    silent = {name for name, card in every.items() if cards.reached(card) == "–"}
    assert silent == {"smollm2-store", "tiny-store", "tiny-ar-l-draft-grid"}, "stores hold tokens, the grid has a study"
