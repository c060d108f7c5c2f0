"""The study of what a search buys: its costs on a few problems, and who is refused."""

import pytest

from engines.core.errors import UserError
from engines.core.study import run_study


def test_costs_are_counted_for_every_rule():
    made = run_study("search-budget", {"problems": 10, "budget": 6})
    study = made[0] if isinstance(made, tuple) else made
    rows = {row[0]: row[1:] for row in study.tables[0].rows}
    assert list(rows) == [
        *("one sample", "vote of 4", "vote of 8", "best of 4", "particles, 4", "best of 8", "particles, 8"),
        *("A*, k = 2", "A*, k = 3", "A*, k = 4"),
    ]
    for rule in ("vote of", "best of", "particles,"):
        assert rows[f"{rule} 4"][3] < rows[f"{rule} 8"][3] and rows[f"{rule} 4"][4] <= rows[f"{rule} 8"][4]
    assert rows["one sample"][4] == rows["vote of 8"][4] == 0 < rows["A*, k = 2"][4] <= 6 * 2
    assert all(low <= right <= high for right, low, high, *_ in rows.values())
    assert [one.name for one in study.figures[1].series] == ["best", "particles", "A*"]


@pytest.mark.parametrize(("model", "why"), [("tiny-dlm", "masked model"), ("tiny-ar-s", "engines.training prm")])
def test_a_model_that_cannot_be_searched_is_refused(model, why):
    with pytest.raises(UserError, match=why):
        run_study("search-budget", {"model": model, "problems": 10})
