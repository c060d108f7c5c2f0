"""DFlash: the golden rounds, wrong rules, one pass for a block, what its context keeps, and a training that computes
what its drafting does."""

import copy
import json
from pathlib import Path

import pytest
import torch

import engines
from engines.core.kinds import counted as counted_model
from engines.core.meter import Meter
from engines.methods.heads import dflash
from engines.models.drafters.network import Layer, causal
from engines.training.core.text_cache import Teacher
from engines.training.heads.dflash import READS, DFlashTraining
from tests.engines.conftest import GOLDEN
from tests.engines.methods.heads.conftest import PROMPTS
from tests.engines.methods.heads.test_published import pair as published

DRAFTERS = GOLDEN / "drafters" / "dflash"
CARD = Path(__file__).resolve().parents[4] / "assets" / "parts" / "tiny-ar-l-dflash-layers" / "card.json"
PROMPT = [44, 12, 45, 27, 5, 50, 12, 23, 17]


def decode(model, prompt=PROMPT, slug="dflash", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 24, **params}, seed=seed)


@pytest.fixture(scope="module")
def model(large):
    return large


def cases():
    held = json.loads((DRAFTERS / "cases.json").read_text())["drafters"]
    for one in held:
        if one["expect"] != "refuse":
            of = one.get("cases") or next(other["cases"] for other in held if other["dir"] == one["cases_of"])
            yield from ((one["dir"], case) for case in of)


def rounds_of(model, case):
    """What the method drafts, accepts and writes in as many rounds as the case has, and what the case says."""
    wanted = case["spec_decode"]
    length = 40 + sum(one["accepted"] + 1 for one in wanted["rounds"])  # far enough that no block is cut
    trace = decode(model, case["prompt"], max_new_tokens=length, block=wanted["k"] + 1)
    steps = trace.steps[1 : 1 + len(wanted["rounds"])]
    told = [(step.tree.tokens[1:], step.facts["accepted"], step.tree.emitted) for step in steps]
    return told, [(one["drafted"], one["accepted"], one["emitted"]) for one in wanted["rounds"]]


@pytest.mark.parametrize(("name", "case"), list(cases()))
def test_its_rounds_are_those_of_the_released_code(name, case):
    ours, wanted = rounds_of(published("dflash", name), case)
    assert ours == wanted and len(ours) > 1


def causal_block(monkeypatch, model):
    inside = Layer.__call__

    def masked(self, x, turn, past, sees, read=None):
        return inside(self, x, turn, past, causal(len(x), past.length, "cpu"), read)

    monkeypatch.setattr(Layer, "__call__", masked)


def layer_ids_as_eagles(monkeypatch, model):
    model.drafter = copy.copy(model.drafter)
    model.drafter.reads = tuple(i - 1 for i in model.drafter.reads)


@pytest.mark.parametrize("wrong", [causal_block, layer_ids_as_eagles])
def test_a_wrong_rule_drafts_something_else_and_writes_the_same(monkeypatch, wrong):
    differ = 0
    for name, case in list(cases())[:3]:
        model = copy.copy(published("dflash", name))
        with monkeypatch.context() as patch:
            wrong(patch, model)
            ours, wanted = rounds_of(model, case)
            assert decode(model).end.output_ids == decode(model, slug="greedy").end.output_ids
        differ += ours != wanted
    assert differ


def test_a_block_is_one_pass_that_only_new_states_join(model):
    """One draft pass and one call of the output head for a block, whatever its length; the context holds each token
    of the text but the last once."""
    for b in (4, 8):
        trace = decode(model, PROMPTS[0], block=b)
        length = len(model.tokenizer.encode_prompt(PROMPTS[0]))
        joined = 0
        for step in trace.steps[1:]:
            length += len(trace.steps[step.index - 2].commits.tokens) if step.index > 1 else 0
            record = step.record("maskblock", dflash.MaskBlock)
            if not record.tokens:
                continue
            joined += record.joined
            assert step.forwards["draft"] == 1 and step.work["draft"] == 2 * (1 + len(record.tokens))
            assert record.context == joined == step.tree.start
            assert [slot[0] for slot in record.tokens] == step.tree.tokens[1:]
            assert step.tree.parents == list(range(-1, len(record.tokens)))
        assert len(trace.steps[1].tree.tokens) == b


def test_its_training_computes_what_its_drafting_does(model, texts):
    """All blocks of a text in one pass with a mask, against a block by itself behind its own context."""
    E = model.model.get_input_embeddings().weight.detach().float()
    training = DFlashTraining("test", model, texts(model, READS, PROMPTS), Teacher(E), 0)
    with torch.no_grad():
        for one in training.network.parameters():
            one += 0.05 * torch.randn(one.shape, generator=torch.Generator().manual_seed(one.numel()))
    text = next(training.cache.texts(training.layers))
    anchors = training.anchors(text)
    assert anchors.tolist() == list(range(text.prompt, len(text.tokens) - 1))
    d, found = training.drafter, training.filled(text, anchors)
    counted = d.counted(counted_model(model, "target", Meter(), "layered"), Meter())
    states = d.states({i: h.float() for i, h in text.hidden.items()})
    for t, out in zip(anchors.tolist(), found, strict=True):
        alone = counted.fill(counted, int(text.tokens[t]), states[:t], d.pasts(), d.block)
        assert torch.allclose(alone, out, atol=1e-4)
    loss = training.loss([text])
    loss.value.backward()
    assert loss.answer_tokens == sum(min(d.k, len(text.tokens) - 1 - t) for t in anchors.tolist())
    assert all(float(one.grad.abs().sum()) > 0 for one in training.network.parameters())


def test_the_mask_stands_in_no_text(model):
    card = json.loads(CARD.read_text())
    mask = card["config"]["dflash_config"]["mask_token_id"]
    assert model.tokenizer.piece(mask).kind == "special" and mask not in model.eos_ids
    assert not any(mask in model.tokenizer.encode_prompt(text) for text in PROMPTS)
