"""Golden cases of CPPD: a change of any expected value, and of each part of the layout of targets, is caught."""

import json

import pytest

import engines
from engines.models.networks import cppd
from tests.engines.conftest import GOLDEN

FILE = GOLDEN / "architecture" / "cppd.json"


def mismatch(tmp_path, change=lambda data: None):
    data = json.loads(FILE.read_text())
    change(data)
    (tmp_path / "cppd.json").write_text(json.dumps(data))
    (report,) = engines.verify(tmp_path)
    assert report.covered == report.cases == 2
    return report.mismatch


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("labels", [[1, 2, 2, 1, 0, 100, 100], [3, 1, 2, 0, 0, 100, 100]]),
        ("counts", [[1, 2, 2, 0], [1, 1, 1, 2]]),
        ("position_targets", [[1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0]]),
        ("loss_count", 2.10484664 + 1e-7),
        ("loss_position", 0.8380583294 + 1e-7),
        ("loss_edge_plain", 1.55519445),
        ("loss_edge_smoothed", 1.524231487),
        ("decoded", ["", "bb"]),
    ],
)
def test_a_changed_expectation_is_caught(tmp_path, name, value):
    assert mismatch(tmp_path) == ""
    assert name in mismatch(tmp_path, lambda data: data["cases"][0]["expected"].update({name: value}))


def test_counts_that_are_not_clipped_are_caught(tmp_path, monkeypatch):
    """Four of a letter are more than a count of at most three can say."""

    def unclipped(logits, counts):
        wider = cppd.torch.nn.functional.pad(logits, (0, 1), value=-9.0)
        return cppd.F.cross_entropy(wider.flatten(0, 1), counts.flatten())

    monkeypatch.setattr(cppd, "count_loss", unclipped)
    assert "full-length" in mismatch(tmp_path) or "loss_count" in mismatch(tmp_path)
