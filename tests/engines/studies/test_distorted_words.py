"""Where readers fail: the table of real runs, and bad input."""

import pytest

import engines
from engines.studies.distorted_words import LEVELS
from engines.tasks.word_images import words


@pytest.mark.parametrize("distortion", ["rotation", "noise"])
def test_more_distortion_reads_less(distortion, monkeypatch):
    """None of it against the most."""
    monkeypatch.setitem(LEVELS, distortion, (LEVELS[distortion][0], LEVELS[distortion][-1]))
    found = engines.study("distorted-words", distortion=distortion, words=12)
    rows = found.table("levels").rows
    assert [row[0] for row in rows] == list(LEVELS[distortion])
    plain, worst = rows[0], rows[-1]
    for row in rows:
        assert row[8:] == [*engines.wilson(round(12 * row[1]), 12), *engines.wilson(round(12 * row[2]), 12)]
    assert min(*plain[1:3], plain[4]) >= 0.9 and plain[3] >= 0.8, "counting is the weakest part of what ships"
    assert max(worst[1:3]) < min(plain[1:3])
    mean = sum(len(word) + 1 for word in words()[1]) / len(words()[1])
    assert all(row[5] > 0 and row[6] > 0 for row in rows) and abs(plain[7] - mean) < 1.5
