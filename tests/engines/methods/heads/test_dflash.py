"""DFlash: published checkpoints draft what the golden loop drafts and leave greedy's text, and plain sampling's; one
pass fills a block, both ways; what its context keeps; its training computes what its drafting does; wrong rules."""

import copy
import json
from pathlib import Path

import pytest
import torch

import engines
from engines.core.kinds import counted as counted_model
from engines.core.meter import Meter
from engines.core.trace import Edit
from engines.methods.heads import dflash
from engines.models.drafters import load_drafter, with_drafter
from engines.models.drafters.network import Layer, causal
from engines.training.core.text_cache import Answer, Teacher, TextCache, fill
from engines.training.heads.dflash import READS, DFlashTraining
from tests.engines.conftest import GOLDEN

DRAFTERS = GOLDEN / "drafters" / "dflash"
CARD = Path(__file__).resolve().parents[4] / "assets" / "parts" / "tiny-ar-l-dflash-layers" / "card.json"
PROMPT = [44, 12, 45, 27, 5, 50, 12, 23, 17]
FORMS = ("drafter", "drafter-1layer", "drafter-speculators")
TASKS = ("add: 457 + 86", "reverse: Tom", "copy: Ada, Ada, Ada, Ada")


def pair(name):
    target = engines.load_model(DRAFTERS / "verifier", dtype="float32")
    return with_drafter(target, load_drafter(DRAFTERS / name, target))


def decode(model, prompt=PROMPT, slug="dflash", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 24, **params}, seed=seed)


def greedy(model, prompt, max_new_tokens=24, **_):
    return decode(model, prompt, "greedy", max_new_tokens=max_new_tokens)


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-ar-l", dtype="float32")


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
    ours, wanted = rounds_of(pair(name), case)
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
        model = pair(name)
        with monkeypatch.context() as patch:
            wrong(patch, model)
            ours, wanted = rounds_of(model, case)
            assert decode(model).end.output_ids == decode(model, slug="greedy").end.output_ids
        differ += ours != wanted
    assert differ


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("block", [0, 2, 5])
def test_the_text_is_greedys(name, block):
    model = pair(name)
    ours, plain = decode(model, block=block), decode(model, slug="greedy")
    assert ours.end.output_ids == plain.end.output_ids
    assert ours.totals.forwards_by_role["target"] == len(ours.steps) <= len(plain.steps)


@pytest.mark.parametrize("name", FORMS)
def test_above_temperature_0_it_is_sampled_as_without_a_drafter(name):
    model = pair(name)
    for seed in range(3):
        ours, plain = (decode(model, seed=seed, temperature=1.0, block=b) for b in (0, 1))
        assert ours.end.output_ids == plain.end.output_ids


@pytest.mark.parametrize("name", FORMS)
def test_behind_a_change_the_text_is_still_greedys(name):
    model = pair(name)
    first = decode(model)
    for after in range(3):
        at = len(PROMPT) + sum(len(step.commits.tokens) for step in first.steps[: after + 1]) - 1
        ours = engines.run("dflash", model, PROMPT, params={"max_new_tokens": 24}, edits=[(after, Edit(force={at: 7}))])
        board = [*PROMPT, *ours.end.output_ids]
        plain = engines.run("greedy", model, board[: at + 1], params={"max_new_tokens": len(board) - at - 1})
        assert board[at] == 7 and ours.end.output_ids == [*board[len(PROMPT) : at + 1], *plain.end.output_ids]


@pytest.mark.parametrize("prompt", TASKS)
@pytest.mark.parametrize("params", [{}, {"block": 4}, {"block": 12}, {"max_new_tokens": 3}])
def test_the_layers_trained_here_save_calls_and_no_token_changes(model, prompt, params):
    ours, plain = decode(model, prompt, **params), greedy(model, prompt, **params)
    assert ours.output_ids == plain.output_ids
    assert ours.totals.forwards_by_role["target"] <= plain.totals.forwards_by_role["target"]


def test_a_block_is_one_pass_that_only_new_states_join(model):
    """One draft pass and one call of the output head for a block, whatever its length; the context holds each token
    of the text but the last once."""
    for b in (4, 8):
        trace = decode(model, TASKS[0], block=b)
        length = len(model.tokenizer.encode_prompt(TASKS[0]))
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


def test_its_training_computes_what_its_drafting_does(model, tmp_path):
    """All blocks of a text in one pass with a mask, against a block by itself behind its own context."""
    prompts = [model.tokenizer.encode_prompt(text) for text in TASKS]
    said = greedy(model, TASKS[0]).output_ids
    answers = [Answer(list(prompt), list(said), i == 0, {"prompt": ""}) for i, prompt in enumerate(prompts)]
    fill(tmp_path, model, (*READS, model.num_layers), [answers], lambda: False)
    E = model.model.get_input_embeddings().weight.detach().float()
    training = DFlashTraining("test", model, TextCache(tmp_path), Teacher(E), 0)
    with torch.no_grad():
        for one in training.network.parameters():
            one += 0.05 * torch.randn(one.shape, generator=torch.Generator().manual_seed(one.numel()))
    text = next(training.cache.texts(training.layers))
    anchors = training.anchors(text)
    assert anchors.tolist() == list(range(text.prompt, len(text.tokens) - 1))
    d, found = training.drafter, training.filled(text, anchors)
    counted = d.counted(counting(model), Meter())
    states = d.states({i: h.float() for i, h in text.hidden.items()})
    for t, out in zip(anchors.tolist(), found, strict=True):
        alone = counted.fill(counted, int(text.tokens[t]), states[:t], d.pasts(), d.block)
        assert torch.allclose(alone, out, atol=1e-4)
    loss = training.loss([text])
    loss.value.backward()
    assert loss.answer_tokens == sum(min(d.k, len(text.tokens) - 1 - t) for t in anchors.tolist())
    assert all(float(one.grad.abs().sum()) > 0 for one in training.network.parameters())


def counting(model):
    """The model as a run counts it."""
    return counted_model(model, "target", Meter(), "layered")


def test_the_mask_stands_in_no_text_and_the_card_says_what_was_measured(model):
    card = json.loads(CARD.read_text())
    mask = card["config"]["dflash_config"]["mask_token_id"]
    assert model.tokenizer.piece(mask).kind == "special" and mask not in model.eos_ids
    assert not any(mask in model.tokenizer.encode_prompt(text) for text in TASKS)
    calls, slots = card["held_out"]["tokens_per_target_call"], card["held_out"]["rank_1"]
    assert len(slots) == card["config"]["block_size"] - 1 and calls["block_of_8"] > 1.2
    assert f"{card['parameters']:,} trained parameters" in decode(model, TASKS[0]).steps[0].note


def test_bad_input_is_one_sentence(model):
    with pytest.raises(engines.UserError, match="block"):
        decode(model, TASKS[0], block=33)
    with pytest.raises(engines.UserError, match="training dflash-layers tiny-ar-m"):
        decode("tiny-ar-m", TASKS[0])
    medusa = engines.load_model(GOLDEN / "drafters" / "medusa" / "verifier", dtype="float32")
    with pytest.raises(engines.UserError, match="drafts with dflash-block checkpoints"):
        engines.run("dflash", {"target": medusa, "drafter": GOLDEN / "drafters" / "medusa" / "drafter"}, PROMPT)
