"""The mechanism of studies: declarations, the record, its JSON, and refusals in a sentence."""

import json
import math
import re
import sys

import msgspec
import pytest

import engines
from engines.core.params import Choice, Int
from engines.core.places import assets
from engines.core.study import (
    STUDY_VERSION,
    Axis,
    Column,
    Figure,
    Receipt,
    Series,
    Study,
    Table,
    check_study,
    declaration,
    run_study,
    study,
)

ASSETS = assets()


def even_only(p):
    if p.n % 2:
        raise engines.UserError(f"n={p.n} is odd; give an even number.")


@study(
    "squares",
    "Squares",
    "arXiv:0000.00000",
    summary="n and its square.",
    inputs=[Int("n", 4, 0, 100, help="How many."), Choice("scale", "plain", ["plain", "log"], help="The axis.")],
    departures="none at all",
    check=even_only,
)
def squares(p, progress):
    for done in range(p.n + 1):
        progress(done, p.n)
    xs = list(range(1, p.n + 1))
    columns = [Column("name"), Column("x", "", "given"), Column("x squared", "m", "derived", 1)]
    table = Table("squares", "Squares", columns, [[f"row {x}", x, float(x * x)] for x in xs])
    series = [Series("squares", xs, [x * x for x in xs], "derived")]
    figure = Figure("curve", "A curve", Axis("x", log=p.scale == "log"), Axis("y", "m"), series)
    return Study([table], [figure], [Receipt("last", "n * n", {"n": p.n}, float(p.n * p.n), "m")], ["A note."])


def test_a_study_is_filled_in_by_the_driver_and_survives_json():
    seen = []
    found = run_study(squares, {"n": "6", "scale": "log"}, lambda done, total: seen.append((done, total)))
    told = found.study, found.title, found.paper, found.departures
    assert told == ("squares", "Squares", "arXiv:0000.00000", "none at all")
    assert found.inputs == {"n": 6, "scale": "log"} and seen[-1] == (6, 6) and found.machine and found.versions
    assert found.table().rows[5] == ["row 6", 6, 36.0]
    assert found.table("squares").columns[2].head == ("x squared, m (derived)")
    assert found.receipts[0].sentence == "n * n; n = 6: 36 m"
    text = found.to_json()
    assert json.loads(text)["version"] == STUDY_VERSION and engines.Study.from_json(text) == found
    assert engines.read_study(text.encode()) == found


@study("steps", "Steps", "", summary="Rows, one by one.", inputs=[Int("n", 3, 1, 9, help="Rows.")])
def steps(p, progress):
    rows = []
    for i in range(p.n):
        rows.append([i])
        progress(i + 1, p.n, lambda rows=tuple(rows): Study([Table("t", "T", [Column("i", "", "given")], list(rows))]))
    return Study([Table("t", "T", [Column("i", "", "given")], rows)], notes=["All."])


def test_what_is_there_by_now_is_a_whole_record_that_says_so():
    makes, parts = [], []
    found = run_study(steps, {"n": 3}, lambda done, total: parts.append((done, total, len(makes))), makes.append)
    assert parts == [(1, 3, 1), (2, 3, 2), (3, 3, 3)]  # what is there is told first, so that a stop can keep it
    second = makes[1]()
    assert second.table().rows == [[0], [1]] and second.inputs == {"n": 3} and second.machine
    assert second.notes == ["Stopped or under way: 2 of 3 parts."] and found.notes == ["All."]
    assert engines.Study.from_json(second.to_json()) == second
    assert run_study(steps, {"n": 2}).table().rows == [[0], [1]]  # nobody has to look


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"n": 101}, r"n=101 is out of range; give a whole number from 0 to 100"),
        ({"n": "many"}, r"n=many is not a whole number"),
        ({"scale": "cubic"}, r"scale=cubic is not offered; choose one of plain, log"),
        ({"m": 1}, r"unknown parameter 'm'; study 'squares' has n, scale"),
        ({"n": 3}, r"n=3 is odd"),
    ],
)
def test_bad_inputs_and_unknown_names_are_refused_in_a_sentence(inputs, said):
    with pytest.raises(engines.UserError, match=said):
        run_study(squares, inputs)
    with pytest.raises(engines.UserError, match=r"unknown study 'nope'; choose one of .*parallelbench"):
        engines.study("nope")
    with pytest.raises(engines.UserError, match="has no figure 'g'; there is f"):
        figure().figure("g")


def changed(**new):
    return json.dumps(json.loads(run_study(squares, {}).to_json()) | new)


def with_row(row):
    return changed(tables=[{"name": "t", "title": "", "columns": [{"name": "a"}], "rows": [row]}])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lambda: changed(version=9), f"version 9; this program reads version {STUDY_VERSION}"),
        (lambda: "{}", "this is not a study"),
        (lambda: "[1", "this is not a study"),
        (lambda: b"\xff\xfe", "this is not a study"),
        (lambda: changed(colour=1), "this is not a study: .*colour"),
        (lambda: changed(tables=[]), "there is no table"),
        (lambda: with_row([1, 2]), "row of 2 cells for 1 columns"),
        (lambda: with_row([1]), "column 'a' of table 't' holds numbers and no provenance"),
    ],
)
def test_a_record_that_does_not_hold_together_is_refused(text, said):
    with pytest.raises(engines.UserError, match=said):
        engines.read_study(text())


def figure(**series):
    one = {"name": "s", "x": [1.0, 2.0], "y": [1.0, 2.0], "provenance": "derived"} | series
    axes = (Axis("x", log=True), Axis("y"))
    table = Table("t", "T", [Column("a")], [["b"]])
    return Study([table], [Figure("f", "F", *axes, [Series(**one)])])


@pytest.mark.parametrize(
    ("series", "said"),
    [
        ({"y": [1.0]}, "2 x and 1 y"),
        ({"low": [1.0, 2.0]}, "intervals with one end"),
        ({"y": [1.0, math.nan]}, "a number is finite"),
        ({"x": [0.0, 1.0]}, "logarithmic axis"),
        ({"text": ["one"]}, "2 x and 1 text"),
        ({"style": "share"}, "'share'.*style"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_found(series, said):
    check_study(figure())
    with pytest.raises(ValueError, match=said):
        check_study(figure(**series))
    with pytest.raises(ValueError, match="two tables are called 't'"):
        check_study(msgspec.structs.replace(figure(), tables=figure().tables * 2))


@pytest.mark.parametrize("names", ["nn", ["progress"]])
def test_a_declaration_that_contradicts_itself_is_refused(names):
    with pytest.raises(ValueError, match="declares an input twice, or one called 'progress'"):
        study("x", "X", "", summary="", inputs=[Int(name, 1, 0, 2, help="") for name in names])


FILE = """
from engines.kit import Column, Int, Study, Table, study

@study("{slug}", "Own", "", summary="Mine.", inputs=[Int("n", 2, 1, 9, help="How many.")])
def own(p, progress):
    return Study([Table("t", "T", [Column("n", "", "given")], [[p.n]])])
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Another folder of studies in the place of the shipped one."""
    import engines.studies as package

    monkeypatch.setattr(declaration, "STUDIES", tmp_path)
    monkeypatch.setattr(package, "__path__", [str(tmp_path)])
    declaration._registry.cache_clear()
    yield tmp_path
    declaration._registry.cache_clear()
    for name in [name for name in sys.modules if name.startswith("engines.studies.own")]:
        del sys.modules[name]


def test_a_file_in_the_folder_is_a_study_and_a_broken_one_is_named(folder):
    (folder / "own_a.py").write_text(FILE.format(slug="own-a"))
    (folder / "own_b.py").write_text(FILE.format(slug="own-a"))
    (folder / "own_c.py").write_text("1 / 0\n")
    (folder / "own_d.py").write_text("x = 1\n")
    (folder / "_own_helper.py").write_text("raise SystemExit\n")
    assert [info.slug for info in engines.list_studies()] == ["own-a"]
    assert engines.study("own-a", n=5).table().rows == [[5]]
    reasons = {one.module.rpartition(".")[2]: one.reason for one in engines.broken_studies()}
    assert "slug 'own-a' is taken" in reasons["own_b"] and "ZeroDivisionError" in reasons["own_c"]
    assert "declares no study" in reasons["own_d"] and set(reasons) == {"own_b", "own_c", "own_d"}


def test_the_study_of_the_document_runs(folder):
    text = (ASSETS / "docs" / "measuring.md").read_text("utf-8")
    code = next(part for part in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "@study" in part)
    (folder / "own_document.py").write_text(code)
    found = engines.study("cache-bytes", context=1024)
    assert not engines.broken_studies() and found.table().rows[-1] == [1024.0, found.receipts[0].result]


def test_every_record_that_ships_opens_and_has_the_inputs_of_its_study_where_that_is_still_here():
    inputs = {info.slug: {p.name for p in info.inputs} for info in engines.list_studies()}
    for file in (ASSETS / "studies").glob("*.json"):
        found = engines.read_study(file.read_bytes())
        assert found.study == file.stem and set(found.inputs) == inputs.get(found.study, set(found.inputs))
    assert not engines.broken_studies()


def test_the_record_of_samplers_has_all_prompts_and_says_what_the_lesson_says():
    found = engines.Study.from_json((ASSETS / "studies/coherence-of-samplers.json").read_text("utf-8"))
    assert found.inputs["prompts"] == 20 and found.inputs["tokens"] == 60
    rows = {(row[0], row[1]): row for row in found.tables[0].rows}
    assert len(rows) == 35 and all(row[3] < row[2] < row[4] for row in rows.values())
    caveat = json.loads((ASSETS / "papers/top-h.json").read_text("utf-8"))["lessons"][0]["caveat"]
    named = {"plain": "plain", "top-p 0.9": "top-p", "top-k 50": "top-k", "min-p 0.1": "min-p"}
    named |= {"top-H paper": "paper's rule", "top-H official": "authors' code", "top-H hf": "transformers' form"}
    for name, words in named.items():
        _, _, nats, low, high, *_ = rows[name, 2.0]
        said = f"−{-nats:.1f} (−{-low:.1f} to −{-high:.1f}) for"
        assert re.search(re.escape(said) + r" (the )?" + re.escape(words), caveat), (name, said)


def test_parallelbench_gives_what_the_benchmark_gives():
    found = engines.study("parallelbench", prompts=1, task="shuffle")
    part = engines.parallelbench.run(engines.load_model("oracle"), ["shuffle"], 1)
    rows = [[p.setting.label, p.right, p.forwards, p.bound] for p in part.points]
    assert [[row[1], row[2], row[8], row[10]] for row in found.table("points").rows] == rows
    forms = engines.parallelbench.derived("shuffle", engines.parallelbench.ITEMS)
    assert [row[1:] for row in found.table("forms").rows] == [[f.per_forward, f.chance, f.bound] for f in forms]
    assert found.receipts[0].result == pytest.approx(math.factorial(6) / 6**6)
    assert found.models[0].name == "oracle" and engines.Study.from_json(found.to_json()) == found
