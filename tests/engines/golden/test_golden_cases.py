"""The checker of golden data: a difference is found wherever it is, and no file can stop the others."""

import json

import pytest

import engines
from engines.core import golden_cases as golden
from engines.core.golden_cases import NotCovered, differ


@pytest.mark.parametrize(
    ("got", "expected", "where"),
    [
        ({"a": [1, {"b": 2.0}]}, {"a": [1, {"b": 2.5}]}, "x.a[1].b is 2.0"),
        ({"a": 1}, {"a": 1, "c": 2}, "x.c is missing"),
        ([1, 2], [1, 2, 3], "x is [1, 2]"),
        (5, [5], "x is 5"),
        (None, 0.5, "x is None"),
        ("a", "b", "x is a"),
        (1.0, float("nan"), "x is"),
        ([], {"a": 1}, "x.a is missing"),
    ],
)
def test_the_first_difference_is_named(got, expected, where):
    assert differ("x", got, expected).startswith(where)
    for value in (got, expected):
        assert value != value or differ("x", value, json.loads(json.dumps(value))) is None


@pytest.fixture
def checker(monkeypatch):
    def check(case, data, folder):
        if case.get("skip"):
            raise NotCovered
        return differ("v", 1 / case["v"], 0.5)

    monkeypatch.setitem(golden._checkers, "topic", check)


@pytest.mark.parametrize(
    ("text", "state", "covered", "words"),
    [
        ('{"cases": [{"v": 2}, {"skip": 1}]}', "passed", 1, ""),
        ('{"cases": [{"v": 2}, {"v": 4, "id": "one"}, {"v": 5}]}', "failed", 3, "one: v is 0.25"),
        ('{"cases": [{"v": 0, "id": "one"}, {"v": 2}]}', "failed", 2, "one: ZeroDivisionError"),
        ('{"cases": [{"skip": 1}]}', "not covered", 0, ""),
        ('{"cases": []}', "not covered", 0, ""),
        ('{"cases": 5}', "failed", 0, "unreadable"),
        ('{"cases": [1]}', "failed", 0, "unreadable"),
        ("{}", "failed", 0, "unreadable"),
        ("[]", "failed", 0, "unreadable"),
        ("{", "failed", 0, "unreadable"),
        ("[" * 100_000, "failed", 0, "unreadable"),
        (b"\xff\xfe\x00", "failed", 0, "unreadable"),
    ],
    ids=range(12),
)
def test_files_of_all_kinds(tmp_path, checker, text, state, covered, words):
    (tmp_path / "topic.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "unknown.json").write_text('{"cases": [{}, {}]}')
    (tmp_path / "folder.json").mkdir()
    reports = {r.file: r for r in engines.verify(tmp_path)}
    assert set(reports) == {"topic.json", "unknown.json"}
    report = reports["topic.json"]
    assert (report.state, report.covered) == (state, covered) and words in report.mismatch


@pytest.fixture
def nobody(monkeypatch, tmp_path):
    """An installation: no checkers beside the package, and none registered."""
    monkeypatch.setattr(golden, "_checkers", {})
    monkeypatch.setattr(golden, "CHECKERS", tmp_path / "tests/golden/checkers")
    (tmp_path / "topic.json").write_text('{"cases": [{"v": 2}]}')
    return tmp_path


def test_folders_that_hold_nothing_are_a_sentence(nobody):
    (nobody / "empty").mkdir()
    for folder, said in (
        ("", r"clone the repository .*--checkers"),
        ("empty", "no golden JSON"),
        ("nowhere", "not a folder"),
    ):
        with pytest.raises(engines.UserError, match=said):
            engines.verify(nobody / folder)


def test_checkers_of_a_folder_import_each_other(nobody):
    folder = nobody / "mine"
    folder.mkdir()
    (folder / "halves.py").write_text("def half(v):\n    return v / 2\n")
    (folder / "topic.py").write_text(
        "import engines\nfrom .halves import half\n\n@engines.checks('topic')\n"
        "def topic(case, data, folder):\n    return engines.differ('v', half(case['v']), 1.0)\n"
    )
    (report,) = engines.verify(nobody, checkers=folder)
    assert (report.state, report.covered) == ("passed", 1)
    for text, why in (
        ("import no_such_module\n", "ModuleNotFoundError"),
        ("def :\n", "SyntaxError"),
        ("1 / 0\n", "Zero"),
    ):
        (folder / "broken.py").write_text(text)
        with pytest.raises(engines.UserError, match=rf"broken\.py cannot be imported: {why}"):
            engines.verify(nobody, checkers=folder)
    with pytest.raises(engines.UserError, match="no Python modules"):
        engines.verify(nobody, checkers=nobody / "nowhere")
