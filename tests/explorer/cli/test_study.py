"""The command `study`: lists, describes, computes, writes and reads; bad input is one line."""

import csv
import io
import json

import pytest

import engines
from engines.core.params import Int
from engines.core.study import Axis, Column, Figure, Receipt, Series, Study, Table, declaration, study
from explorer import cli
from explorer.cli import study as study_cli
from tests.explorer.commands import refused


@study("own", "Own", "arXiv:0000.00000", summary="A line.", inputs=[Int("n", 2, 1, 99, symbol="n", help="Rows.")])
def own(p, progress):
    xs = [float(x) for x in range(1, p.n + 1)]
    columns = [Column("row"), Column("half", "m", "derived", 2)]
    return Study(
        [
            Table("t", "First", columns, [[f"=row {x}", x / 2] for x in xs], "N."),
            Table("u", "Second", [Column("a")], [["b"], [None]]),
        ],
        [Figure("f", "F", Axis("x"), Axis("y", "m"), [Series("s", xs, xs, "modelled")])],
        [Receipt("half", "n / 2", {"n": p.n}, p.n / 2, "m")],
        ["A note."],
    )


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    broken = declaration.Broken("engines.studies.bad", "ValueError: declares no study")
    monkeypatch.setattr(declaration, "_registry", lambda: ({"own": own}, (broken,)))


def said(capsys, *arguments):
    assert cli.main(["study", *arguments]) == 0
    return capsys.readouterr().out


def test_the_list_the_description_tables_receipts_and_notes(capsys):
    listed = said(capsys)
    assert "own" in listed and "A line." in listed and "broken: engines.studies.bad: ValueError" in listed
    found = json.loads(said(capsys, "--json"))
    assert [one["slug"] for one in found["studies"]] == ["own"] and len(found["broken"]) == 1
    shown = said(capsys, "own", "--set", "n=3")
    assert "Own (own), arXiv:0000.00000: n=3" in shown and "half, m (derived)" in shown and "1.50" in shown
    assert "n / 2; n = 3: 1.5 m" in shown and "- A note." in shown and "Second" in shown
    assert "... 20 more rows: --csv has all" in said(capsys, "own", "--set", "n=60")
    described = said(capsys, "own", "--inputs")
    assert "give a whole number from 1 to 99" in described and "Rows." in described
    assert json.loads(said(capsys, "own", "--inputs", "--json"))["inputs"][0]["name"] == "n"


def test_json_csv_and_a_figure(capsys, tmp_path):
    file, picture = tmp_path / "s.json", tmp_path / "f.svg"
    assert "First" in said(capsys, "own", "--json", str(file), "--svg", str(picture))
    found = engines.read_study(file.read_bytes())
    assert found.inputs == {"n": 2} and picture.read_text().startswith("<svg") and "modelled" in picture.read_text()
    rows = list(csv.reader(io.StringIO(said(capsys, "--open", str(file), "--csv"))))
    assert rows[0] == ["row", "half, m (derived)"] and rows[2][1] == "1.0"
    assert rows[1][0] == "'=row 1.0"  # a spreadsheet would run it
    assert said(capsys, "--open", str(file), "--csv", "--table", "u") == 'a\nb\n""\n\n'
    assert engines.read_study(said(capsys, "own", "--json")) is not None


def test_bad_input_is_one_line(capsys):
    assert "unknown study 'nope'; choose one of own" in refused(capsys, "study", "nope")
    assert "n=0 is out of range; give a whole number from 1" in refused(capsys, "study", "own", "--set", "n=0")
    assert "--set n is not understood" in refused(capsys, "study", "own", "--set", "n")
    assert "has no table 'v'; there is t, u" in refused(capsys, "study", "own", "--csv", "--table", "v")


@study("cut", "Cut", "", summary="Is interrupted.", inputs=[Int("n", 2, 0, 9, help="Rows there by then.")])
def cut(p, progress):
    for n in range(1, p.n + 1):
        progress(n, 9, lambda n=n: Study([Table("t", "T", [Column("rows", "", "given")], [[n]])]))
    raise KeyboardInterrupt


def test_an_interrupted_study_is_what_was_there_by_then(capsys, monkeypatch):
    monkeypatch.setattr(declaration, "_registry", lambda: ({"cut": cut}, ()))
    found = engines.read_study(said(capsys, "cut", "--json"))
    assert found.table().rows == [[2]] and found.notes == ["Stopped or under way: 2 of 9 parts."]
    with pytest.raises(KeyboardInterrupt):
        study_cli.computed("cut", {"n": "0"})
