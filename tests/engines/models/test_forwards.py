"""`python -m tests.engines.models.forwards`: both sides compute the same, and its tables replace those of before."""

from pathlib import Path

import msgspec
import pytest

import engines
from explorer.papers.tables import Measured
from tests.engines.models import forwards


def test_both_sides_of_a_ratio_compute_the_same() -> None:
    model = engines.load_model("tiny-ar-s")
    for past, rows in ((40, 1), (40, 5)):
        found = forwards.causal(model, forwards.stock_of("tiny-ar-s", model), past, rows, 2)
        assert found.same and found.stock > 0 and found.ours > 0 and len(found.over) == 3
    for name in ("tiny-dlm", "tiny-blockdlm"):
        masked = engines.load_model(name)
        assert forwards.board(masked, forwards.stock_of(name, masked), 32, 2).same, name


def test_its_tables_replace_those_of_before_and_leave_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Measured(forwards.TITLE, "", "", "", ["a"], [[1]])
    other = Measured("another", "", "", "", ["a"], [[2]])
    (tmp_path / "program.json").write_bytes(msgspec.json.encode([old, other]))
    monkeypatch.setattr(forwards, "FILE", tmp_path / "program.json")
    monkeypatch.setattr(forwards, "CAUSAL", (("tiny-ar-s", "float32"),))
    monkeypatch.setattr(forwards, "SIZES", ((20, 1), (10**6, 1)))
    monkeypatch.setattr(forwards, "BOARDS", (("tiny-dlm", 16),))
    forwards.main(["--repeats", "2", "--json"])
    first, second, last = msgspec.json.decode((tmp_path / "program.json").read_bytes(), type=list[Measured])
    assert (first.title, second.title, last) == (forwards.TITLE, forwards.TEXTS, other)
    assert [row[:4] for row in first.rows] == [["tiny-ar-s", "float32", 1, 20], ["tiny-dlm", "float32", 16, 0]]
    assert first.command.startswith("python -m tests.engines.models.forwards ") and not second.rows


@pytest.mark.smollm2
@pytest.mark.slow
def test_greedys_text_is_that_of_generate() -> None:
    model = engines.load_model("smollm2", dtype="float32")
    same, asked, shared = forwards.texts(model, forwards.stock_of("smollm2", model), 12)
    assert same == asked > 5 and shared > 5 * 6
