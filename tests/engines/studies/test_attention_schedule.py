"""Attention of one step by schedule: the lengths of the published rules, ragged batches, and bad input."""

import math

import pytest

import engines


def rows(**given):
    return engines.study("attention-schedule", **given).table("contexts").rows


def test_the_lengths_of_56_heads_on_108_processors():
    study = engines.study("attention-schedule", contexts="4096, 262144")
    found = {row[0]: row for row in study.table("contexts").rows}
    assert found[262_144][2:7] == [216, 7, 1024, 294, 266]
    assert found[4_096][4:7] == [16, 6, 5]
    assert found[262_144][7] == pytest.approx(294 / 266)
    *_, last = study.receipts
    assert last.result == pytest.approx(1024 / 532) and last.provenance == "modelled"  # plain, with twice the length


def test_no_schedule_is_shorter_than_all_slots_busy():
    for row in rows(heads=8, head_size=128, batch=3, processors=20):
        _, tiles, workers, _, plain, flash, lean, _, busy = row
        assert min(flash, lean) >= math.ceil(tiles / 40) and plain >= math.ceil(tiles / 20)
        assert lean == math.ceil(tiles / workers) and 0 < busy <= 1


def test_a_ragged_batch_planned_by_its_longest_context_leaves_workers_idle():
    for row in rows(contexts="65536, 262144", heads=8, batch=8, shortest=0.1):
        lean, planned = row[6:8]
        assert planned > lean
