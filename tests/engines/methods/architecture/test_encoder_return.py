"""Return of the Encoder on the pair that ships: the claims of the paper that can be checked by counting."""

import pytest
import torch

import engines

PROMPT = (
    "ask: Which people? Mia lives in Rome. Ben is 9 years old. Mia has a kite. Ada likes red. Ada is 14 years old. "
    "Ben likes blue. Tom has a drum. Tom lives in Oslo."
)


@pytest.fixture(scope="module")
def pair():
    return {
        "model": engines.load_model("tiny-encdec", dtype="float32"),
        "twin": engines.load_model("tiny-deconly", dtype="float32"),
    }


@pytest.fixture(scope="module")
def run(pair):
    return engines.run("encoder-return", pair, PROMPT, params={"max_new_tokens": 24})


def labels(step, lane):
    return [i.label for i in step.intervals if i.track == lane and not i.label.startswith("token")]


def test_both_have_exactly_as_many_weights(pair):
    one, two = pair["model"], pair["twin"]
    assert one.record.parameters == two.record.parameters
    assert sum(one.weights.values()) == sum(two.weights.values()) == one.record.parameters
    d = one.model.config.hidden_size
    assert two.weights["layers"] == 144 * d * d == sum(one.weights.values()) - one.weights["unembed"]


def test_cached_decoding_writes_what_a_decoding_without_cache_writes(pair, run):
    """Both models: the same tokens, and logits within 1e-4."""
    model, ids = pair["model"], run.header.prompt_ids
    net, answer = model.model, run.output_ids
    with torch.no_grad():
        z = net(torch.tensor([ids]), torch.tensor([[model.start_id, *answer[:-1]]])).logits[0]
    assert z.argmax(-1).tolist() == answer
    cache = model.new_cache(model.encode(ids), len(ids) + 24)
    rows = torch.cat([model.extend([token], cache).logits for token in [model.start_id, *answer[:-1]]])
    torch.testing.assert_close(rows, z, atol=1e-4, rtol=0)
    twin, said = pair["twin"], [i.label for s in run.steps for i in s.intervals if i.track == "decoder-only"]
    text = "".join(label.removeprefix("token ") for label in said if label.startswith("token"))
    plain = engines.run("greedy", twin, PROMPT, params={"max_new_tokens": len(answer)})
    assert plain.text.startswith(text.strip()) and text


def test_the_encoder_runs_once_whatever_the_length(pair):
    for n in (1, 3, 12):
        trace = engines.run("encoder-return", pair, PROMPT, params={"max_new_tokens": n})
        assert labels(trace.steps[0], "encoder-decoder") == [
            *(f"encode {i}" for i in range(8)),
            *(f"cross_kv {i}" for i in range(3)),
            *(f"decode {i}" for i in range(3)),
        ]
        assert all(labels(s, "encoder-decoder") == [f"decode {i}" for i in range(3)] for s in trace.steps[1:])
        assert labels(trace.steps[0], "decoder-only") == [f"prefill {i}" for i in range(12)]
        assert {s.facts["encoder layers run"] for s in trace.steps} == {8.0}


def test_work_bytes_and_operations_follow_from_the_sizes(pair, run):
    n_in, d = len(run.header.prompt_ids), pair["model"].model.config.hidden_size
    for t, step in enumerate(run.steps):
        f = step.facts
        assert f["cache bytes"] == 2 * 3 * (n_in + t + 1) * d * 4
        if "twin cache bytes" in f:
            assert f["twin cache bytes"] == 2 * 12 * (n_in + t) * d * 4
    first, later = run.steps[0], run.steps[1]
    assert first.work == {"model": 8 * n_in + 3} and later.work == {"model": 3}
    assert first.facts["twin layer-rows"] == 12 * n_in and later.facts["twin layer-rows"] == 12
    assert later.facts["twin weights read bytes"] - later.facts["weights read bytes"] == 4 * (144 - 42) * d * d
    assert later.facts["twin flops"] > 2.5 * later.facts["flops"]
    assert first.facts["flops"] < first.facts["twin flops"]


def test_the_twin_stands_beside_the_totals_and_without_it_the_answer_is_the_same(pair, run):
    told = [step.facts.get("twin forwards", 0) for step in run.steps]
    assert set(run.totals.forwards_by_role) == {"model"} and set(told) <= {0, 1} and told[0] == 1
    assert run.totals.forwards == len(run.steps)
    for step in run.steps:
        (looked,) = [lane.values.array() for lane in step.scores if lane.name == "looked at"]
        assert len(looked) == len(run.header.prompt_ids)
        assert float(looked.sum()) == pytest.approx(1, abs=0.02)  # as it is packed
    alone = engines.run("encoder-return", pair, PROMPT, params={"max_new_tokens": 24, "beside": False})
    assert alone.output_ids == run.output_ids and set(alone.totals.forwards_by_role) == {"model"}
    assert not any(name.startswith("twin") for step in alone.steps for name in step.facts)
