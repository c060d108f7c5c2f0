"""The checker of golden data: a difference is found wherever it is, and no file can stop the others."""

import json

import pytest

import engines
from engines.golden import verify as golden
from engines.golden.verify import NotCovered, differ


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


@pytest.mark.parametrize("value", [1, 1.5, "a", None, [1, [2.0, {}]], {"a": (1, 2)}])
def test_a_value_equals_itself(value):
    assert differ("x", value, json.loads(json.dumps(value))) is None
    assert differ("x", 1.0 + 1e-10, 1.0) is None


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


def test_folders_that_hold_nothing_are_a_sentence(tmp_path):
    with pytest.raises(engines.UserError, match="no golden JSON"):
        engines.verify(tmp_path)
    with pytest.raises(engines.UserError, match="not a folder"):
        engines.verify(tmp_path / "nowhere")
