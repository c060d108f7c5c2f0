"""The study of unions: its numbers against the patterns themselves, a recorded run in place of prompts, refusals."""

from __future__ import annotations

import pytest

import engines

PROMPT = "story: Mia, boat"


@pytest.fixture(scope="module")
def study():
    return engines.study("expert-unions", models="tiny-moe | tiny-blockffn", prompts=PROMPT, tokens=12, chunk=4)


def test_a_row_for_each_model_and_more_tokens_together_never_read_less(study):
    rows = {row[0]: row for row in study.table("sparsity").rows}
    assert set(rows) == {"tiny-moe", "tiny-blockffn"}
    assert rows["tiny-moe"][2] == pytest.approx(26 / 32)
    for name, row in rows.items():
        assert 0 <= row[3] <= row[2] <= 1 and 0 <= row[4] <= 1 and row[6] > 0 and row[7] > 0
        shares = [union[2] for union in study.table("unions").rows if union[0] == name]
        assert shares == sorted(shares)


def test_a_recorded_run_says_the_same_as_its_model(tmp_path):
    run = engines.run("blockffn", "tiny-blockffn", PROMPT, params={"max_new_tokens": 12, "draft_length": 0})
    file = tmp_path / "run.json"
    file.write_text(run.to_json())
    given = {"models": "tiny-blockffn", "prompts": PROMPT, "tokens": 12, "chunk": 4}
    read = engines.study("expert-unions", **given, trace=str(file)).table("sparsity").rows[0]
    made = engines.study("expert-unions", **given).table("sparsity").rows[0]
    assert read[1:6] == pytest.approx(made[1:6])


def test_a_run_of_another_model_or_without_routing_is_refused(tmp_path):
    other = tmp_path / "other.json"
    other.write_text(engines.run("greedy", "tiny-ar-m", PROMPT, params={"max_new_tokens": 2}).to_json())
    for models, said in (("tiny-moe", "recorded with tiny-ar-m, which is not among"), ("tiny-ar-m", "no routing")):
        with pytest.raises(engines.UserError, match=said):
            engines.study("expert-unions", prompts=PROMPT, tokens=4, trace=str(other), models=models)
