"""Studies of experts, slots and operators: unions that grow, caches for experts, what is kept."""

import pytest

import engines
from engines.methods.routing.read_me.experts import BELADY, LOOKAHEAD, LRU
from engines.studies.expert_cache import batches, rate
from engines.studies.slot_unions import crossing


def test_belady_bounds_every_rule_on_the_same_stream():
    found = engines.study("expert-cache", model="tiny-ar-m", requests=6, tokens=24, batch=3)
    rows = found.table("hits").rows
    assert [row[0] for row in rows] == [1, 2, 3]
    for _, drawn, lru, ahead, belady in rows:
        assert belady >= max(drawn, lru, ahead) and min(drawn, lru, ahead) >= 0
    assert len(set(rows[-1][1:])) == 1  # every expert has a slot
    assert sum(share for _, share in found.table("experts").rows) == pytest.approx(1)
    stays, grouped = found.receipts
    assert 0 <= stays.result == stays.inputs["kept"] / stays.inputs["all"] <= 1 and grouped.result <= 1


def test_look_ahead_knows_the_rest_of_the_round_and_no_more():
    stream = [0, 1, 2, 0, 2, 1] * 5
    assert rate(stream, 2, LOOKAHEAD, len(stream), 0) == rate(stream, 2, BELADY, 1, 0)
    assert rate(stream, 2, LOOKAHEAD, 3, 0) <= rate(stream, 2, BELADY, 3, 0)
    assert rate([0, 0, 0, 0], 1, LRU, 2, 0) == 0.75


def test_every_token_is_served_once_and_grouping_needs_fewer_experts():
    experts = [[0, 1, 0], [1, 1, 1], [2, 0, 2], [0, 0, 1]]
    assert batches(experts, 4, by_expert=False) == pytest.approx((3 + 2 + 3) / 3)
    assert batches(experts, 2, by_expert=True) <= batches(experts, 2, by_expert=False)
    assert batches([[0]], 1, by_expert=True) == 1


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
