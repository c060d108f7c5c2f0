"""The study of what a search buys: its costs on a few problems, and who is refused."""

from itertools import islice

from engines.core.study import run_study
from engines.studies import search_budget


def test_costs_are_counted_for_every_rule(monkeypatch):
    """Two problems, few samples, two widths."""
    monkeypatch.setattr(search_budget, "islice", lambda made, _: islice(made, 2))
    monkeypatch.setattr(search_budget, "SAMPLES", (2, 3))
    monkeypatch.setattr(search_budget, "WIDTHS", (2, 3))
    study = run_study("search-budget", {"budget": 2})
    rows = {row[0]: row[1:] for row in study.tables[0].rows}
    assert list(rows) == [
        *("one sample", "vote of 2", "vote of 3", "best of 2", "particles, 2", "best of 3", "particles, 3"),
        *("A*, k = 2", "A*, k = 3"),
    ]
    for rule in ("vote of", "best of", "particles,"):
        assert rows[f"{rule} 2"][3] < rows[f"{rule} 3"][3] and rows[f"{rule} 2"][4] <= rows[f"{rule} 3"][4]
    assert rows["one sample"][4] == rows["vote of 3"][4] == 0 < rows["A*, k = 2"][4] <= 2 * 2
    assert all(low <= right <= high for right, low, high, *_ in rows.values())
    assert [one.name for one in study.figures[1].series] == ["best", "particles", "A*"]
