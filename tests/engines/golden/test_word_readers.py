"""Golden cases of CPPD: a change of any expected value, and of each part of the layout of targets, is caught."""

import json

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


def test_a_changed_expectation_is_caught(tmp_path):
    assert mismatch(tmp_path) == ""
    expected = json.loads(FILE.read_text())["cases"][0]["expected"]
    for name, value in expected.items():
        wrong = value + 1e-7 if isinstance(value, float) else [value[1], *value[1:]]
        change = {name: wrong}
        assert name in mismatch(tmp_path, lambda data, c=change: data["cases"][0]["expected"].update(c)), name


def test_counts_that_are_not_clipped_are_caught(tmp_path, monkeypatch):
    """Four of a letter are more than a count of at most three can say."""

    def unclipped(logits, counts):
        wider = cppd.torch.nn.functional.pad(logits, (0, 1), value=-9.0)
        return cppd.F.cross_entropy(wider.flatten(0, 1), counts.flatten())

    monkeypatch.setattr(cppd, "count_loss", unclipped)
    assert "full-length" in mismatch(tmp_path) or "loss_count" in mismatch(tmp_path)
