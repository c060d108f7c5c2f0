"""What an early exit holds: more with every guess, nearly all behind the last layers; a step that follows from its
stages; and bad input."""

from types import SimpleNamespace

import pytest

import engines
from engines.methods.system.mirror_sd.rounds import Latency
from engines.studies.early_guesses import DEPTHS, WIDTHS, told


def found(kappa):
    return engines.study("early-guesses", model="tiny-ar-m", prompts="story: Mia, boat", tokens=12, kappa=kappa)


def test_more_guesses_hold_more_and_every_exit_is_read_with_its_map_and_without():
    few, many = ({tuple(row[:2]): row[2:] for row in found(kappa).table("guesses").rows} for kappa in (1, 8))
    assert list(few) == [(i, kind) for i in range(1, 6) for kind in ("raw", "mapped")] == list(many)
    for key, (share, omega) in few.items():
        assert 0 <= share <= many[key][0] <= 1 and 0 < omega <= many[key][1] <= 1.0001
    assert few[1, "mapped"][0] > few[1, "raw"][0]  # what the map is for


def test_a_step_is_as_long_as_its_stages_say():
    study = found(2)
    rows = study.table("steps").rows
    assert [row[1] for row in rows[: len(WIDTHS)]] == list(WIDTHS) and len(rows) <= len(WIDTHS) * len(DEPTHS)
    for _, kappa, branches, budget, draft, exposed, step, serial, ratio in rows:
        assert branches == kappa * 4 and exposed == pytest.approx(max(0, draft - budget))
        assert ratio == pytest.approx(serial / step) and serial > step - budget
    assert {series.provenance for series in study.figure("step").series} == {"modelled"}
    assert study.receipts[0].result > 0


def test_longer_branches_move_the_end_of_a_step_once_they_outlast_the_upper_layers():
    layers, head = [1.0] * 8, 2.0
    study = told(
        SimpleNamespace(gamma=3, kappa=8),
        1,
        {(1, False): [1.0, 0.5]},
        layers,
        head,
        {1: [3.0], 2: [5.0, 3.0], 4: [9.0]},
        [],
    )
    step = {tuple(row[:2]): row[6] for row in study.table("steps").rows}
    assert step[2, 1] == step[2, 2] == 2 + 2 + 8 and step[2, 4] == 2 + 2 + 9
    assert step[6, 1] == 6 + 2 + 4 and step[6, 2] == Latency(6, 4, [8], early=2).mirror
