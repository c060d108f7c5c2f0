"""The study of the first to finish: its rules on given samples, and a small run of it."""

import pytest

from engines.core.statistics import wilson
from engines.core.study import run_study
from engines.methods.reasoning.ffs.finish import Trace
from engines.studies.first_finish import Asked, against, decided, longest, single, spread

ONE = Asked("7", [Trace(9, "7"), Trace(4, "2"), Trace(6, "7"), Trace(12, None)])


def test_each_rule_waits_and_writes_as_it_must():
    assert decided(ONE, 1) == (False, 4, 16)
    assert decided(ONE, 2) == (False, 6, 22)  # a tie goes to the answer met first
    assert decided(ONE, 3) == (True, 9, 28)
    assert decided(ONE, 4) == (True, 12, 31)
    assert longest(ONE) == (True, 12, 31)
    assert single(ONE) == (0.5, 7.75, 7.75)


def test_a_run_tells_rules_lengths_and_shares():
    study = run_study("first-finish", {"model": "tiny-reasoner-s", "problems": 12, "n": 4})
    rows = {row[0]: row[1:] for row in study.tables[0].rows}
    votes = ["vote of the shortest 2", "vote of the shortest 3", "vote of all"]
    assert list(rows) == ["one sample", "first to finish", *votes, "longest"]
    assert rows["first to finish"][3] < rows["vote of the shortest 3"][3] < rows["vote of all"][3]
    assert rows["vote of all"][3:5] == rows["longest"][3:5]
    assert rows["one sample"][5:] == [None] * 3
    apart = [rule for rule, row in rows.items() if row[5] is not None and (row[6] > 0 or row[7] < 0)]
    assert all(row[6] <= row[5] <= row[7] for row in rows.values() if row[5] is not None)
    assert study.notes[1].endswith(f": {', '.join(rule for rule in list(rows)[1:] if rule not in apart) or 'none'}.")
    counted = [one for one in study.figures[0].series if one.name in ("right", "wrong")]
    assert sum(y for one in counted for y in one.y) == 12 * 4
    (points,) = study.figures[1].series
    assert all(a <= y <= b for a, y, b in zip(points.low, points.y, points.high, strict=True))


def test_a_rule_is_better_than_one_sample_only_where_the_same_problems_say_so():
    """One sample is right in 2 of 4 each time; a rule that is right in 6 of 10 problems is no better, one in 10 is."""
    alone = [0.5, 0.25, 0.75, 0.5, 0.5, 0.25, 0.75, 0.5, 0.5, 0.5]
    mean, low, high = against([1.0] * 6 + [0.0] * 4, alone)
    assert mean == pytest.approx(0.1) and low < 0 < high
    mean, low, high = against([1.0] * 10, alone)
    assert mean == pytest.approx(0.5) and low > 0.3
    assert spread([1.0] * 10) == (1.0, *wilson(10, 10)), "all right is no certainty"
