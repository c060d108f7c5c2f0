"""P-EAGLE in one pass: the golden rounds of both published drafters; rows of masks know neither tokens nor states of
the text, and never stay."""

import json
from pathlib import Path

import pytest
import torch

import engines
from engines.core.kinds import counted as counted_model
from engines.core.meter import Meter
from engines.methods.heads.p_eagle import SharedState
from engines.models.drafters import trained_drafter
from engines.models.drafters.eagle3 import PEagle
from engines.models.parts import load_part
from engines.training.core.text_cache import Teacher
from engines.training.heads.peagle import READS, PEagleTraining
from tests.engines.conftest import GOLDEN
from tests.engines.methods.heads.conftest import PROMPTS
from tests.engines.methods.heads.test_published import pair

CARD = Path(__file__).resolve().parents[4] / "assets" / "parts" / "tiny-ar-l-parallel-layer" / "card.json"
HELD = json.loads((GOLDEN / "drafters" / "peagle" / "cases.json").read_text())["drafters"]
CASES = [(one["dir"], case) for one in HELD for case in one["cases"]]
PROMPT = CASES[0][1]["prompt"]


@pytest.fixture(scope="module")
def model(large):
    return large


def decode(model, prompt=PROMPT, slug="p-eagle", seed=0, edits=(), **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 24, **params}, seed=seed, edits=edits)


def rounds_of(model, case):
    """What is drafted, accepted and written in as many rounds as the case has, and what the case says."""
    wanted = case["spec_decode"]
    length = 40 + sum(one["accepted"] + 1 for one in wanted["rounds"])  # far enough that no chain is cut
    trace = decode(model, case["prompt"], max_new_tokens=length, k=wanted["k"])
    told = [
        (step.tree.tokens[1:], step.facts["accepted"], step.tree.emitted)
        for step in trace.steps[1 : 1 + len(wanted["rounds"])]
    ]
    assert trace.output_ids[: len(wanted["text"])] == wanted["text"]
    return told, [(one["drafted"], one["accepted"], one["emitted"]) for one in wanted["rounds"]]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_its_rounds_are_those_of_the_published_drafter(name, case):
    ours, wanted = rounds_of(pair("peagle", name), case)
    assert ours == wanted and len(ours) > 2


def its_own_outputs(monkeypatch):
    """Masks that stand at the output of the row before, as EAGLE-3's rows do."""
    block = PEagle.block

    def fed(self, run, tokens, states, pasts, k):
        first = block(self, run, tokens, states, pasts, 1)
        outs, m = [first[-1:]], pasts.length
        for i in range(k - 1):
            e, at = run.embed([self.mask_id]), torch.tensor([m + i])
            sees = torch.ones(1, m + i + 1, dtype=torch.bool)
            outs.append(self.rows(e, self.fed_back(outs[-1]), pasts, at, sees))
        pasts.crop(m)
        return torch.cat(outs)

    monkeypatch.setattr(PEagle, "block", fed)


def no_mask_token(monkeypatch):
    """Masks that read the newest token in place of the mask."""
    block = PEagle.block

    def read(self, run, tokens, states, pasts, k):
        mask, self.mask_id = self.mask_id, tokens[-1]
        try:
            return block(self, run, tokens, states, pasts, k)
        finally:
            self.mask_id = mask

    monkeypatch.setattr(PEagle, "block", read)


@pytest.mark.parametrize("wrong", [its_own_outputs, no_mask_token])
def test_a_wrong_rule_drafts_something_else_and_writes_the_same(monkeypatch, wrong):
    wrong(monkeypatch)
    name, case = CASES[0]
    model = pair("peagle", name)
    ours, wanted = rounds_of(model, case)
    assert ours != wanted
    assert decode(model, case["prompt"]).output_ids == decode(model, case["prompt"], "greedy").output_ids


def test_a_chain_is_one_pass_and_only_rows_of_text_stay(model):
    """One draft pass whatever k is; each row of text goes through the layer once, every mask anew."""
    for k in (2, 7):
        trace = decode(model, PROMPTS[0], k=k)
        known = 0
        for step in trace.steps[1:]:
            told = step.record("sharedstate", SharedState)
            if not told:
                continue
            assert step.forwards["draft"] == 1 and step.work["draft"] == 2 * (len(told.text) + len(told.tokens) - 1)
            assert [row[0] for row in told.tokens] == step.tree.tokens[1:]
            assert step.tree.parents == list(range(-1, len(told.tokens)))
            assert told.before == known and told.text[-1] == step.tree.tokens[0]
            known += len(told.text)
            assert known == step.tree.start  # a row for each token of the text but the first
        assert known > 10


def test_what_it_drafts_with_its_cache_is_what_a_read_of_the_whole_text_gives(model):
    """Without a cache: the rows of the whole text, then the masks; its chances are the record's."""
    trace, prompt = decode(model, PROMPTS[0]), model.tokenizer.encode_prompt(PROMPTS[0])
    layer, ids = trained_drafter(load_part("parallel-layer", [model.record]), model), list(prompt)
    seen = 0
    for step in trace.steps:
        if told := step.record("sharedstate", SharedState):
            hidden = model.extend(ids, model.new_cache(len(ids)), hidden=layer.reads).hidden
            states = layer.project(
                torch.cat([layer.states(hidden)[:-1], *[layer.mask_hidden] * (len(told.tokens) - 1)])
            )
            tokens = [*ids[1:], *[layer.mask_id] * (len(told.tokens) - 1)]
            m = len(tokens)
            sees = torch.ones(m, m, dtype=torch.bool).tril()
            out = layer.rows(model.embed(tokens), states, layer.pasts(), torch.arange(m), sees)[len(ids) - 2 :]
            likely = torch.nn.functional.linear(layer.spoken(out), layer.head).double().softmax(-1)
            assert layer.vocabulary[likely.argmax(-1)].tolist() == step.tree.tokens[1:]
            best = [row[0] for row in told.chances]
            assert likely.max(-1).values.tolist() == pytest.approx(best, abs=1e-4)
            seen += 1
        ids += step.commits.tokens
    assert seen > 5


def test_its_training_computes_what_its_drafting_does(model, texts):
    """All rows of a text as the last one of text, in one pass with a mask, against one pass for each."""
    teacher = Teacher(model.model.get_output_embeddings().weight, torch.arange(512))
    training = PEagleTraining("test", model, texts(model, READS, PROMPTS), teacher, 0)
    with torch.no_grad():
        for one in training.network.parameters():
            one += 0.05 * torch.randn(one.shape, generator=torch.Generator().manual_seed(one.numel()))
    text = next(training.cache.texts(training.layers))
    d, rolled = training.drafter, training.rolled(text)
    counted = d.counted(counted_model(model, "target", Meter(), "layered"), Meter())
    states = d.states({i: h.float() for i, h in text.hidden.items()})
    assert len(rolled) == training.depths == 7
    for t in range(text.prompt - 1, len(text.tokens) - 1):
        alone = d.block(counted, text.tokens[1 : t + 2].tolist(), states[: t + 1], d.pasts(), training.depths)
        assert torch.allclose(alone, torch.stack([out[t] for out in rolled]), atol=1e-4)
    training.loss([text]).value.backward()
    assert float(training.network.mask_hidden.grad.abs().sum()) > 0


def test_a_batch_in_which_no_text_goes_so_far_has_a_loss(model, texts):
    """Answers of two tokens: the farther places have no row, and the others count."""
    teacher = Teacher(model.model.get_output_embeddings().weight, torch.arange(512))
    training = PEagleTraining("test", model, texts(model, READS, PROMPTS[:1], cut=2), teacher, 0)
    loss = training.loss(list(training.cache.texts(training.layers)))
    assert torch.isfinite(loss.value) and loss.answer_tokens == 1  # the second token; the first needs no draft


def test_the_mask_stands_in_no_text(model):
    card = json.loads(CARD.read_text())
    mask = card["config"]["mask_token_id"]
    assert model.tokenizer.piece(mask).kind == "special" and mask not in model.eos_ids
    assert not any(mask in model.tokenizer.encode_prompt(text) for text in PROMPTS)
