"""What is said of rows that are fed beside each other."""

import pytest

from engines import ModelRecord
from explorer.figures.bits import caution, rows_note


def record(moved):
    return ModelRecord("target", "tiny.gguf", "causal", dtype="Q4_K_M", moved=moved)


@pytest.mark.parametrize(
    ("moved", "note", "warned"),
    [
        (None, "", False),
        (0.0, "In Q4_K_M a row's logits are the same to the bit", False),
        (8.9e-6, "In Q4_K_M a row's logits move by 9e-06 at most", False),
        (1.31, "In Q4_K_M a row's logits move by up to 1.3 with", True),
    ],
)
def test_a_note_says_what_was_measured_and_a_caution_what_it_means(moved, note, warned):
    assert rows_note(record(moved)).startswith(note) and bool(rows_note(record(moved))) is bool(note)
    assert bool(caution(record(moved))) is warned
    if warned:
        assert "may part from it" in caution(record(moved))


def test_with_row_invariant_forwards_it_says_what_they_cost():
    made = ModelRecord("target", "smollm2", "causal", dtype="bfloat16", moved=0.0, slower=1.0649)
    assert "row-invariant forwards" in rows_note(made) and "1.06 times that of the plain network" in rows_note(made)
    assert not caution(made)
