"""The study of kept operators: what follows by construction, what was measured, refusals."""

from __future__ import annotations

import engines


def test_what_follows_by_construction_and_that_the_operator_hardly_depends_on_the_text():
    study = engines.study("kept-operators", prompts=1, tokens=4)
    modes = {row[0]: row for row in study.table("modes").rows}
    assert list(modes) == ["none", "G only", "KV", "KV+G"]
    assert modes["none"][3:] == [1.0, None, 0.0] and modes["KV"][3:] == modes["KV+G"][3:]
    assert modes["KV+G"][2] == modes["G only"][2] == 0.0 < modes["KV"][2] < modes["none"][2]
    sources = {row[0]: row for row in study.table("sources").rows}
    own = sources["own, of the whole text"]
    assert own[2:] == [1.0, 0.0]
    assert abs(sources["of another prompt"][1] - own[1]) < 0.1 < sources["identity"][1] - own[1]
    for row in study.table("layers").rows:
        assert 0 < row[1] < row[2] and row[6] >= row[5] > 0, "training made the spread smaller"
    assert {one.name for one in study.figures} == {"time", "spread", "loss"}
    (spread,) = study.figure("spread").series
    assert spread.x[0] == 0 and len(spread.x) == len(spread.y) > 10
