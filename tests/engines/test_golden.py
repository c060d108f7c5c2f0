"""The golden data that ships with the tests, through the same code as `decoding-explorer verify`."""

import json
import shutil

import pytest

import engines

from .conftest import GOLDEN

COVERED = {
    "diffusion": {
        *("llada.json", "fast_dllm_v1.json", "fast_dllm_v1_cache.json", "credit.json", "dinfer_threshold.json", "adablock.json"),
        *("localleap.json", "prophet.json", "dream.json", "dimple.json", "fast_dllm_v2.json", "learn2pd.json"),
    },
    "speculative": {
        *("chain.json", "multi_candidate.json", "tree_mask.json", "token_recycling.json"),
        *("rsd.json", "dyspec.json", "rasd.json", "specdecpp.json", "pearl.json", "aded.json", "stand.json"),
    },
    "sampling": {"ead.json"},
}


@pytest.mark.parametrize("family", COVERED)
def test_golden_cases_pass(family):
    reports = {r.file: r for r in engines.verify(GOLDEN / family)}
    assert {name: r.mismatch for name, r in reports.items() if r.state == "failed"} == {}
    assert {name for name, r in reports.items() if r.state == "passed"} >= COVERED[family]


def test_a_changed_expectation_is_caught(tmp_path):
    """The check can fail: one committed token altered in a copy."""
    shutil.copytree(GOLDEN / "diffusion" / "stubs", tmp_path / "stubs")
    data = json.loads((GOLDEN / "diffusion" / "credit.json").read_text())
    data["cases"] = data["cases"][:1]
    data["cases"][0]["expected"]["steps"][0]["set"][0][1] += 1
    (tmp_path / "credit.json").write_text(json.dumps(data))
    (report,) = engines.verify(tmp_path)
    assert report.state == "failed" and "forward 0 commits" in report.mismatch
