"""An MTP layer run k times: the golden rounds of a published layer, each run's state that is the layer's own, and
rows of the target's states alone that stay."""

import json

import pytest
import torch

import engines
from engines.methods.heads import _rows
from engines.methods.heads.mtp import Unrolled
from engines.models.drafters import trained_drafter
from engines.models.drafters.rows import Published
from engines.models.parts import load_part
from tests.engines.conftest import GOLDEN
from tests.engines.methods.heads.conftest import PROMPTS
from tests.engines.methods.heads.test_published import RUNS, formats, pair

CASES = json.loads((GOLDEN / "drafters" / "mtp" / "cases.json").read_text())["drafters"][0]["cases"]
PROMPT = CASES[0]["prompt"]


@pytest.fixture(scope="module")
def model(large):
    return large


def decode(model, prompt=PROMPT, slug="mtp", seed=0, edits=(), **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 24, **params}, seed=seed, edits=edits)


def rounds(trace):
    """What was drafted, and how much of it was accepted, by the rounds that drafted."""
    return [(step.tree.tokens[1:], int(step.facts["accepted"])) for step in trace.steps if step.facts["drafted"]]


@pytest.mark.parametrize(("slug", "folder", "form"), formats({("mtp", "mtp"): RUNS["mtp", "mtp"]}))
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_its_rounds_are_those_of_the_published_layer(slug, folder, form, case):
    wanted = case["spec_decode"]
    trace = decode(pair("mtp", form), case["prompt"], k=wanted["k"], max_new_tokens=len(wanted["text"]) + 8)
    told = [(one["drafted"], one["accepted"]) for one in wanted["rounds"]]
    assert len(told) > 2 and rounds(trace)[: len(told)] == told
    assert trace.output_ids[: len(wanted["text"])] == wanted["text"]


def test_each_run_is_one_pass_and_reads_the_guess_before_it(model):
    trace = decode(model, PROMPTS[0])
    assert trace.steps[0].record("unrolled", Unrolled) is None  # the prompt is read, and nothing drafted
    for before, step in zip(trace.steps, trace.steps[1:-1], strict=False):
        told = step.record("unrolled", Unrolled)
        assert told.read == [step.tree.tokens[0], *told.drafts[:-1]] and told.drafts == step.tree.tokens[1:]
        assert step.forwards["target"] == 1 and step.forwards["draft"] == len(told.drafts) == 3
        assert step.work["draft"] == step.facts["layer_rows_of_draft"] == told.rows + 2
        if before is not trace.steps[0]:  # accepted drafts are read again, with the target's states
            assert told.rows == before.facts["accepted"] + 1


def test_what_it_drafts_with_its_cache_is_what_a_read_of_the_whole_text_gives(model):
    """Without a cache: the layer over the text's rows of the model's states, then its own output and guess behind it,
    position by position."""
    trace, prompt = decode(model, PROMPTS[0]), model.tokenizer.encode_prompt(PROMPTS[0])
    layer = trained_drafter(load_part("mtp-layer", [model.record]), model)
    n, ids = model.num_layers, list(prompt)
    for step in trace.steps:
        if told := step.record("unrolled", Unrolled):
            h = model.extend(ids, model.new_cache(len(ids)), hidden=(n,)).hidden[n]
            tokens, states = ids[1:], h[:-1]
            for draft, chance in zip(told.drafts, told.chances, strict=True):
                m = len(tokens)
                sees = torch.ones(m, m, dtype=torch.bool).tril()
                own = layer.rows(model.embed(tokens), states, layer.pasts(), torch.arange(m), sees)[-1:]
                likely = model.unembed(own, normed=True)[0].double().softmax(-1)
                assert int(likely.argmax()) == draft and float(likely.max()) == pytest.approx(chance, abs=1e-4)
                tokens, states = [*tokens, draft], torch.cat([states, own])
        ids += step.commits.tokens


@pytest.mark.parametrize("wrong", ["own rows stay", "not its own state"])
def test_a_wrong_rule_is_caught_by_the_golden_rounds(monkeypatch, wrong):
    """Rows of the layer's own states that stay in its cache, and a further run that reads the first run's state, change
    what is drafted and never the text."""
    if wrong == "own rows stay":

        def kept(self, length):
            self.known, self.rows = min(self.known, length), 0
            self.source.crop(min(length - 1, self.source.length))

        monkeypatch.setattr(_rows.Drafter, "forget", kept)
    else:
        grow, firsts = Published.grow, {}

        def stuck(self, tokens, before, at, sees):
            return grow(self, tokens, firsts.setdefault((id(self), self.length - len(firsts)), before), at, sees)

        monkeypatch.setattr(Published, "grow", stuck)
    case = CASES[0]
    wanted = [(one["drafted"], one["accepted"]) for one in case["spec_decode"]["rounds"]]
    trace = decode(pair("mtp", "drafter"), case["prompt"], k=case["spec_decode"]["k"])
    assert trace.output_ids == decode(pair("mtp", "drafter"), case["prompt"], "greedy").output_ids
    assert rounds(trace)[: len(wanted)] != wanted
