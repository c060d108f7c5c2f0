"""The study of slots and experts that tokens read together: growth, bytes, where the lines cross, refusals."""

from __future__ import annotations

import pytest

import engines
from engines.studies.slot_unions import crossing

PROMPT = "story: Mia, boat | fact: Ada Raven"


def test_more_tokens_read_more_in_as_many_bytes_and_the_note_says_where_the_lines_cross():
    study = engines.study("slot-unions", prompts="story: Mia, boat | fact: Ada Raven", tokens=40)
    rows = study.table("unions").rows
    for column in (2, 3, 4, 5):
        values = [row[column] for row in rows if row[1] > 3]  # means over several chunks
        assert values == sorted(values)
    assert rows[0][2] == 16 and rows[0][3] == 6
    for row in rows:
        assert row[2] <= 16 * row[0] and row[3] <= 32
        assert row[4] == pytest.approx(4 * (476_960 + 384 * row[2]))
        assert row[5] == pytest.approx(4 * (4 * 32 * 128 + 32 * 128 * 2 * 4 * row[3]))
        assert row[6] == 4 * 472 * 128 * 2 * 4
    last = max(row[0] for row in rows if row[5] <= row[4])
    assert f"up to {last} tokens" in study.notes[0]
    assert "less than the memory at every" in crossing([[1, 0, 0, 0, 5, 1], [2, 0, 0, 0, 6, 2]])
    assert "more than the memory at every" in crossing([[1, 0, 0, 0, 5, 7]])
