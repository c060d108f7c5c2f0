"""The cost of a token: golden rows, what must hold of any model, the pipeline, and configs as people have them."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engines
from engines.studies.decoding_cost import DEVICES, PUBLISHED, Pipeline, price, published, read_config
from tests.engines.conftest import GOLDEN

TIMES = st.floats(1, 500)


def test_the_published_dollars_of_attention_are_met_to_their_digits():
    cases = json.loads((GOLDEN / "architecture" / "step3.json").read_text())["cases"]
    rows = [case for case in cases if case["kind"] == "per-token-cost"]
    for shape, case in zip(PUBLISHED.values(), rows, strict=True):
        for device, printed in case["paper"]["attention_usd"].items():
            assert price(shape, DEVICES[device], 8192).attention == pytest.approx(printed, abs=0.0012)


def test_apart_is_never_dearer_than_the_cheapest_device_and_a_token_costs_more_with_its_context():
    for n in (64, 4096, 200_000):
        for row in engines.study("decoding-cost", context=n).table("dollars").rows:
            assert row[5] <= min(row[1:5]) + 1e-12
    assert all(one.y == sorted(one.y) for one in engines.study("decoding-cost").figure("growth").series)


@given(st.sampled_from(published()["models"]), st.sampled_from(published()["devices"]), st.integers(1, 2**20))
def test_what_pictures_scale_is_what_the_model_of_costs_says(model, device, n):
    shape, chip = PUBLISHED[model["name"]], DEVICES[device["name"]]
    second, projections = 1e6 * chip.usd_per_hour / 3600, shape.linear_flops / chip.flops
    usd = price(shape, chip, n).attention - second * projections
    assert max(n * model[name] / device[name] for name in ("bytes", "operations")) == pytest.approx(usd)
    if model["name"] == "Step-3":
        b = 16  # sequences of a microbatch: one on each device of a side
        reading = price(shape, chip, n).attention / second / shape.layers
        assert b * (n * device["reads"] + device["projects"]) == pytest.approx(reading)
        layer = 2 * 3 * shape.hidden * shape.expert_ffn * (shape.top_k + shape.shared)
        assert b * device["experts"] == pytest.approx(layer / chip.flops)
        assert 2 * b * device["sends"] == pytest.approx(b * shape.hidden / chip.network)


@given(st.integers(1, 6), st.integers(1, 5), TIMES, TIMES, TIMES, TIMES)
def test_a_pipeline_is_no_faster_than_its_slowest_server_and_no_resource_is_used_twice(layers, m, a, f, out, back):
    made = Pipeline(layers, m, a, f, out, back)
    assert made.step >= layers * m * max(a, f) - 1e-6 and made.step >= layers * (a + f + out + back) - 1e-6
    assert 0 < made.busy(a) <= 1 + 1e-9 and 0 < made.busy(f) <= 1 + 1e-9
    stages = made.stages()
    for name, lasts in (("attention", a), ("sends", out), ("ffn", f), ("returns", back)):
        begins = sorted(getattr(one, name) for one in stages)
        assert all(x + lasts <= y + 1e-6 for x, y in pairwise(begins))
    assert Pipeline(layers, m + 1, a, f, out, back).busy(a) >= made.busy(a) - 1e-9


def test_three_microbatches_triple_the_tokens_at_the_same_latency():
    rows = engines.study("decoding-cost").table("microbatches").rows
    assert [round(row[1], 1) for row in rows[:4]] == [49.8, 50.0, 50.3, 66.9]
    assert [round(row[4]) for row in rows[:4]] == [1286, 2558, 3816, 3826]
    assert [round(row[2], 2) for row in rows[:4]] == [0.33, 0.66, 0.99, 0.99]


LLAMA = {"num_hidden_layers": 30, "hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3,
         "intermediate_size": 1536}  # fmt: skip
STEP3 = {
    "text_config": {
        "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 64, "head_dim": 256, "share_q_dim": 2048,
        "intermediate_size": 18432, "moe_intermediate_size": 5120, "moe_num_experts": 48, "moe_top_k": 3,
        "share_expert_dim": 5120, "moe_layers_enum": ",".join(map(str, range(4, 60))),
    },
}  # fmt: skip
DEEPSEEK = {
    "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128, "kv_lora_rank": 512, "q_lora_rank": 1536,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
}  # fmt: skip
QWEN = {
    "num_hidden_layers": 94, "hidden_size": 4096, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_experts": 128, "num_experts_per_tok": 8,
    "mlp_only_layers": [],
}  # fmt: skip


@pytest.mark.parametrize(("config", "name"), [(STEP3, "Step-3"), (DEEPSEEK, "DeepSeek-V3"), (QWEN, "Qwen3-235B-A22B")])
def test_a_config_gives_what_the_published_sizes_give(config, name):
    assert read_config(json.dumps(config)) == PUBLISHED[name]


def test_a_persons_config_is_one_more_row_and_ray():
    study = engines.study("decoding-cost", config=json.dumps(LLAMA), context=1000)
    row = study.table("costs").rows[-1]
    assert row[:3] == ["your config", "GQA", pytest.approx(30 * 1000 * 2 * 3 * 64 / 1e6)]
    assert row[5] == pytest.approx(2 * 30 * 3 * 576 * 1536 / 1e9) and row[7] == 1
    assert "your config" in [one.name for one in study.figure("plane").series]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "an object of names"),
        ("{}", "num_hidden_layers is missing"),
        (json.dumps(LLAMA | {"hidden_size": "576"}), "hidden_size is 576 in the config"),
        (json.dumps(LLAMA | {"num_attention_heads": -1}), "num_attention_heads is -1"),
        (json.dumps(LLAMA | {"layer_types": ["linear_attention"]}), "another kind .linear_attention."),
        (json.dumps(LLAMA | {"ssm_cfg": {"a": 1}}), "another kind .ssm_cfg."),
        (json.dumps(LLAMA | {"num_experts": 8, "first_k_dense_replace": 99}), "99 of 30 layers are dense"),
        ("[" * 10_000, "not JSON"),
        (" " * 20_000 + "{}", "20002 characters; at most 20000"),
    ],
)
def test_what_is_no_config_is_refused_in_a_sentence(config, said):
    with pytest.raises(engines.UserError, match=said):
        engines.study("decoding-cost", config=config)
