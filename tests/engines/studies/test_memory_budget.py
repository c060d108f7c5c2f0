"""Speed against bytes: every setting is run, the marks follow from the table, and bad input."""

import pytest

import engines
from engines.methods.system.specmemo.plan import TREES
from engines.studies.memory_budget import Setting, told


def test_lean_saves_bytes_and_each_size_is_run():
    found = engines.study("memory-budget", model="tiny-ar-m", prompts="story: Mia, boat", tokens=8, repeats=1, batch=2)
    rows = found.table("settings").rows
    assert [tuple(row[:2]) for row in rows] == [*(("lean", T) for T in TREES), ("reference", 16)]
    peaks = [row[5] for row in rows]
    assert peaks[:-1] == sorted(peaks[:-1]) and peaks[-1] > max(peaks[:-1])
    assert rows[0][2] == pytest.approx(2, abs=0.3)  # two sequences, a token each
    for _, _, written, speed, kept, peak, saved, process in rows:
        assert written >= 1 and speed > 0 and process > 10
        assert kept == pytest.approx(speed / rows[-1][3]) and saved == pytest.approx(1 - peak / peaks[-1])


@pytest.mark.parametrize(("share", "T"), [(0.96, 8), (0.5, 2), (1.0, 16)])
def test_the_budget_that_keeps_a_share_is_the_smallest_one(share, T):
    speeds = {1: 40, 2: 60, 4: 80, 8: 98, 16: 100, 32: 70}
    lean = [Setting("lean", n, [speed], [1.0], 10, n * 1000, 5, 10_000) for n, speed in speeds.items()]
    whole = Setting("reference", 16, [90], [1.0], 10, 100_000, 5, 10_000)
    least, kept = told([*lean, whole], share, None).receipts
    assert least.inputs["T"] == 2 and least.result == pytest.approx(0.012)
    assert kept.inputs["T"] == T and kept.result == pytest.approx(0.01 + T / 1000)
