"""PLDR-LLM: what must hold of power-law graph attention, of its caches and of what is recorded of its operators."""

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import engines
from engines.core.errors import UserError
from engines.methods.architecture.pldr_llm import MODES
from engines.methods.architecture.pldr_llm.operators import Operators
from engines.models.measures import operators
from engines.models.networks.pldr import PLDRConfig, attend

OPERATORS = "operators", Operators

SLUG, MODEL, PROMPT = "pldr-llm", "tiny-pldr", "story: Mia, boat, lamp"
OTHER = "python: class Robot(size: int, owner: str)"


@pytest.fixture(scope="module")
def model():
    return engines.load_model(MODEL, kind="power-law", dtype="float32")


@pytest.fixture(scope="module")
def ids(model):
    return model.tokenizer.encode_prompt(PROMPT)


def run(model, prompt=PROMPT, **params):
    edits = params.pop("edits", ())
    return engines.run(SLUG, model, prompt, params={"max_new_tokens": 8, **params}, edits=edits)


def test_a_kept_g_alone_changes_what_is_written(model):
    written = {mode: run(model, mode=mode) for mode in MODES}
    apart = {mode: [step.facts["logit_difference"] for step in one.steps] for mode, one in written.items()}
    assert written["KV"].output_ids == written["KV+G"].output_ids == written["G only"].output_ids
    assert apart["KV"] == apart["KV+G"], "by construction"
    assert apart["G only"] == pytest.approx(apart["KV+G"], abs=1e-3) and max(apart["KV+G"]) > 1e-3, "G made again does"


def test_the_identity_is_ordinary_attention():
    q, k, v = torch.randn(3, 2, 4, 9, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    usual = scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(attend(q, torch.eye(16, dtype=q.dtype), k, v), usual, atol=1e-6)


def test_only_a_fixed_g_is_causal(model, ids):
    changed = [*ids[:-1], ids[-1] + 1]
    G = model.forward(ids).G_LM

    def moved(G):
        one, other = (model.forward(text, G=G, last_only=False).logits for text in (ids, changed))
        return float((one - other)[:-1].abs().max())

    assert moved(G) == 0 < moved(None), "its own G sums over all positions, the later ones too"


def test_the_mode_without_caches_is_what_runs_beside(model):
    trace = run(model, mode="none")
    assert {step.facts["logit_difference"] for step in trace.steps} == {0.0}
    assert all(step.facts["G_change"] > 0 for step in trace.steps[1:])
    assert [step.tokens_fed for step in trace.steps] == [9 + i for i in range(8)]


def test_a_kept_g_stands_still_and_the_other_one_moves(model):
    trace = run(model)
    own = [next(one for one in step.record(*OPERATORS).decoders if one.role == "target") for step in trace.steps]
    other = [next(one for one in step.record(*OPERATORS).decoders if one.role == "reference") for step in trace.steps]
    assert [one.held for one in own] == [False] + [True] * 7 and own[0].maps is not None
    assert all(one.maps is None and one.moved is None and set(one.change) == {0.0} for one in own[1:])
    assert all(one.moved is not None and min(one.change) > 0 for one in other[1:])
    assert [step.tokens_fed for step in trace.steps] == [9] + [1] * 7
    assert {lane.track for lane in trace.steps[2].intervals} == {"target", "reference", "reference: G"}
    assert {lane.track for lane in trace.steps[0].intervals} == {"target", "target: G", "reference", "reference: G"}


def test_the_recorded_maps_are_g(model, ids):
    trace = run(model, mode="none", beside=False)
    base = trace.steps[0].record(*OPERATORS).decoders[0].maps.array()
    at = trace.header.prompt_ids + trace.end.output_ids[:5]
    grain = np.abs(base).max() / 31
    for step, text in ((0, ids), (5, at)):
        one = trace.steps[step].record(*OPERATORS).decoders[0]
        found = base if step == 0 else base + one.moved.array()
        G = model.forward(text).G_LM
        assert np.abs(found - G.numpy()).max() <= grain * 0.501
        assert one.logdet == pytest.approx(operators.logdet(G).mean(-1).tolist(), abs=1e-3)


def test_whose_g_is_used(model, ids):
    other = model.forward(model.tokenizer.encode_prompt(OTHER)).G_LM
    usual = model.forward(ids).logits
    for source, G in {"other prompt": other, "identity": operators.identity(other).contiguous()}.items():
        trace = run(model, source=source, other=OTHER, mode="none")
        first = model.forward(ids, G=G).logits
        assert trace.end.output_ids[0] == int(first.argmax())
        told = [step.record(*OPERATORS).decoders[0] for step in trace.steps]
        assert all(one.held and one.source == source for one in told)
        largest = float((first - usual).abs().max())
        assert trace.steps[0].facts["logit_difference"] == pytest.approx(largest, abs=1e-4)


def test_what_is_refused(model):
    with pytest.raises(UserError, match="the other prompt has 0 tokens"):
        run(model, source="other prompt", other=" ")
    with pytest.raises(UserError, match="has room for 512"):
        run(model, prompt=[5] * 511, max_new_tokens=4)
    with pytest.raises(UserError, match="a power-law model is needed"):
        engines.load_model("tiny-ar-m", kind="power-law")
    with pytest.raises(ValueError, match="3 heads do not divide"):
        PLDRConfig(num_attention_heads=3)
