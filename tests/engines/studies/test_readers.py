"""Studies of readers: where they fail, and the gate of context over its line."""

import pytest

import engines
from engines.studies import scene_gate
from engines.studies.distorted_words import LEVELS
from engines.studies.scene_gate import LINES, Both, scenes, told
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


def test_the_line_moves_from_always_light_to_always_heavy(monkeypatch):
    """One scene: the heavy reader takes a second for each."""
    monkeypatch.setattr(scene_gate, "scenes", lambda n, distortion: scenes(1, distortion))
    found = engines.study("scene-gate", scenes=12, distortion="none")
    rows = found.table("lines").rows
    assert [row[0] for row in rows] == list(LINES)
    assert rows[0][1] == 1.0 and rows[-1][1] == 0.0
    shares, times = [row[1] for row in rows], [row[3] for row in rows]
    assert shares == sorted(shares, reverse=True) and times == sorted(times)
    assert rows[-1][3] > rows[0][3] and all(0 <= row[2] <= 1 for row in rows)
    assert sum(row[1] for row in found.table("words").rows) == 1


def test_a_wrong_reading_that_fits_is_told():
    one = Both("cape", "shop front", 0.9, "cafe", "cape", 0.1, 1.0, False)
    other = Both("cafe", "shop front", 0.7, "cafe", "cafe", 0.1, 1.0, True)
    found = told([one, other], [])
    by_line = {row[0]: row for row in found.table("lines").rows}
    assert by_line[0.8][5:] == [*engines.wilson(1, 2)] and by_line[1.01][5:] == [*engines.wilson(2, 2)]
    assert by_line[0.8][1:3] == [0.5, 0.5] and by_line[0.8][4] == 1 and by_line[1.01][2] == 1.0
    assert found.table("misled").rows == [["cape", "shop front", "cafe", 0.9, "cape"]]
