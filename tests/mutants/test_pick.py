"""The faults are the same each time, are faults, and leave nothing behind."""

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.mutants import __main__ as runner
from tests.mutants.__main__ import Sound, chosen, failed, judged, written
from tests.mutants.pick import PARTS, SCRIPTS, Fault, _sites, faults, kept, scripts

ROOT = Path(__file__).resolve().parents[2]
CODE = '''\
def longest(words, least=2):
    """The longest < of them."""
    best = max(words, key=len) if words and len(words) >= 1 else ""
    if not best:
        raise ValueError(f"{len(words)} words < 1")
    return best[: least * 4]
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "engines" / "driver").mkdir(parents=True)
    (tmp_path / "engines" / "driver" / "run.py").write_text(CODE)
    return tmp_path


def test_every_token_that_has_an_opposite_is_a_place_for_a_fault(tree: Path):
    changed = {new.strip() for _, _, _, new in _sites(tree / "engines" / "driver" / "run.py")}
    assert changed == {
        'best = min(words, key=len) if words and len(words) >= 1 else ""',
        'best = max(words, key=len) if words or len(words) >= 1 else ""',
        'best = max(words, key=len) if words and len(words) > 1 else ""',
        'best = max(words, key=len) if words and len(words) >= 2 else ""',
        "if best:",
        "return best[: least + 4]",
        "return best[: least * 5]",
    }, "neither docstrings nor what is said in an error"


def test_each_fault_of_this_checkout_is_code_and_each_part_has_some(tree: Path):
    assert faults(tree) == faults(tree) and {fault.part for fault in faults(tree)} == {"run"}
    found = faults(ROOT)
    assert {fault.part for fault in found} == PARTS.keys()
    for fault in found:
        lines = (ROOT / fault.file).read_text("utf-8").split("\n")
        assert lines[fault.line - 1] == fault.old != fault.new
        lines[fault.line - 1] = fault.new
        if fault.file.endswith(".py"):
            ast.parse("\n".join(lines))
        if fault.part == "decode":
            assert any("def decode(" in line for line in lines)


def test_a_fault_is_written_found_again_where_its_line_moved_and_taken_back(tree: Path):
    file = tree / "engines" / "driver" / "run.py"
    (fault,) = [one for one in faults(tree) if one.new == "    if best:"]
    file.write_text("# moved\n" + CODE)
    with written(tree, fault, 1_000_000_000) as there:
        assert there and "    if best:\n" in file.read_text()
    assert file.read_text() == "# moved\n" + CODE
    file.write_text("gone = True\n")
    with written(tree, fault, 1_000_000_002) as there:
        assert not there
    assert file.read_text() == "gone = True\n"


def test_the_default_tier_comes_first_and_the_time_is_bounded():
    fault = Fault("run", "engines/driver/run.py", "f", 1, "", "")
    seen: Any = SimpleNamespace(seconds={"a": 1.0, "b": 14.5, "c": 2.0, "d": 0.5}, of=lambda file, line: list("acbd"))
    seen.tiers = {"a": ["browser"], "b": [], "c": [], "d": ["slow"]}
    assert chosen(fault, seen, default=False) == ["c"]  # with b it would be more than fifteen seconds
    seen.seconds["b"] = 1.0
    assert chosen(fault, seen, default=False) == ["c", "b", "a", "d"]
    assert chosen(fault, seen, default=True) == ["c", "b"]


def test_a_test_that_fails_without_the_fault_has_found_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch):
    (fault,) = [one for one in faults(tree) if one.new == "    if best:"]
    file, asked = tree / fault.file, []

    def tried(_: Path, tests: list[str], log: Path) -> tuple[str, float]:
        """`t.py::always` fails anyway, `t.py::finds[a b]` only with the fault."""
        asked.append(tests)
        bad = [t for t in tests if "always" in t or ("finds" in t and fault.new in file.read_text())]
        log.write_text(f"F\nFAILED {bad[0]} - AssertionError: no\n" if bad else "1 passed\n")
        return ("found" if bad else "missed"), 1.0

    monkeypatch.setattr(runner, "tried", tried)
    passes = Sound(tree, tree / "log")
    always, finds, fine = "t.py::always", "t.py::finds[a b]", "t.py::fine"
    assert judged(tree, fault, [always, finds], 1_000_000_000, passes) == ("found", 2.0, finds)
    assert asked == [[always, finds], [always], [finds], [finds]]
    assert judged(tree, fault, [always, fine], 1_000_000_000, passes) == ("missed", 2.0, "")
    assert judged(tree, fault, [always], 1_000_000_000, passes) == ("not run", 1.0, "")
    assert asked.count([always]) == 2, "asked once without the fault"
    assert file.read_text() == CODE
    (tree / "log").write_text("ERROR tests/t.py - SyntaxError\n")
    assert failed(tree / "log", ["tests/t.py::one"]) == "", "a file that cannot be collected names no test"


def test_kept_faults_are_found_by_their_text_and_scripts_by_a_seed(tree: Path):
    table = tree / "results.tsv"
    row = ["run", "engines/driver/run.py", "9", "found", "found", "", "if not best:", "if best:"]
    gone = ["run", "engines/driver/run.py", "1", "found", "missed", "", "if not there:", "if there:"]
    table.write_text("\n".join("\t".join(one) for one in (["part"] * 8, row, gone)) + "\n")
    (fault,) = kept(tree, table)
    assert (fault.line, fault.old, fault.new) == (4, "    if not best:", "    if best:")
    found = scripts(ROOT, 1)
    assert found == scripts(ROOT, 1) != scripts(ROOT, 2)
    assert len(found) == sum(number for _, number in SCRIPTS.values())
    assert {fault.part for fault in found} == SCRIPTS.keys()
