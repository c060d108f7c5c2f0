"""An MTP layer run k times: the golden rounds of a published layer under both its names, the control's text greedy,
drawn and behind a person's change; each run's state is the layer's own, and only rows of the target's states stay."""

import json

import pytest
import torch

import engines
from engines.core.trace import Edit
from engines.methods.heads import _rows
from engines.methods.heads.mtp import Unrolled
from engines.models.drafters import trained_drafter
from engines.models.drafters.rows import Published
from engines.models.parts import load_part
from tests.engines.conftest import GOLDEN
from tests.engines.methods.heads.test_published import pair

FORMS = ("drafter", "drafter-native-names")
CASES = json.loads((GOLDEN / "drafters" / "mtp" / "cases.json").read_text())["drafters"][0]["cases"]
PROMPTS = ("add: 457 + 86", "reverse: Tom", "copy: Ada, Ada, Ada, Ada")
PROMPT = CASES[0]["prompt"]
forms = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-ar-l", dtype="float32")


def decode(model, prompt=PROMPT, slug="mtp", seed=0, edits=(), **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 24, **params}, seed=seed, edits=edits)


def rounds(trace):
    """What was drafted, and how much of it was accepted, by the rounds that drafted."""
    return [(step.tree.tokens[1:], int(step.facts["accepted"])) for step in trace.steps if step.facts["drafted"]]


@forms
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_its_rounds_are_those_of_the_published_layer(form, case):
    wanted = case["spec_decode"]
    trace = decode(pair("mtp", form), case["prompt"], k=wanted["k"], max_new_tokens=len(wanted["text"]) + 8)
    told = [(one["drafted"], one["accepted"]) for one in wanted["rounds"]]
    assert len(told) > 2 and rounds(trace)[: len(told)] == told
    assert trace.output_ids[: len(wanted["text"])] == wanted["text"]


@forms
@pytest.mark.parametrize("params", [{}, {"k": 1}, {"k": 7}])
def test_a_published_layer_writes_greedys_text_in_fewer_calls(form, params):
    model = pair("mtp", form)
    ours, plain = decode(model, **params), decode(model, slug="greedy")
    assert ours.output_ids == plain.output_ids
    assert ours.totals.forwards_by_role["target"] == len(ours.steps) < len(plain.steps)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_the_layer_trained_here_writes_greedys_text_in_fewer_calls(model, k):
    calls, plainly = 0, 0
    for prompt in PROMPTS:
        ours, plain = decode(model, prompt, k=k), decode(model, prompt, "greedy")
        assert ours.output_ids == plain.output_ids
        calls, plainly = calls + len(ours.steps), plainly + len(plain.steps)
    assert calls < plainly


@pytest.mark.parametrize("seed", range(3))
def test_above_temperature_0_it_is_sampled_as_without_a_layer(model, seed):
    """Guesses that were chosen without chance meet one draw of the target for each place, which is plain sampling's."""
    for target, prompt in ((model, PROMPTS[0]), (pair("mtp", FORMS[0]), PROMPT)):
        ours, plain = (decode(target, prompt, seed=seed, temperature=1.0, k=k) for k in (3, 0))
        assert ours.output_ids == plain.output_ids and len(plain.steps) == len(plain.output_ids) >= len(ours.steps)


@forms
def test_behind_a_change_the_text_is_still_greedys(form):
    model = pair("mtp", form)
    first = decode(model)
    for after in range(3):
        at = len(PROMPT) + sum(len(step.commits.tokens) for step in first.steps[: after + 1]) - 1
        ours = decode(model, edits=[(after, Edit(force={at: 7}))])
        board = [*PROMPT, *ours.output_ids]
        plain = decode(model, board[: at + 1], "greedy", max_new_tokens=len(board) - at - 1)
        assert board[at] == 7 and ours.output_ids == [*board[len(PROMPT) : at + 1], *plain.output_ids]


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


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_a_chain_longer_than_the_room_left_is_cut(model, length):
    ours, plain = (decode(model, PROMPTS[0], slug, max_new_tokens=length) for slug in ("mtp", "greedy"))
    assert ours.output_ids == plain.output_ids and len(ours.output_ids) <= length
    assert all(len(step.tree.tokens) <= length for step in ours.steps if step.tree)


def test_the_first_note_tells_how_many_numbers_were_trained(model):
    card = json.loads((GOLDEN.parents[1] / "assets/parts/tiny-ar-l-mtp-layer/card.json").read_text())
    assert f"{card['parameters']:,} trained parameters" in decode(model, PROMPTS[0]).steps[0].note
    assert card["held_out"]["tokens_per_target_call"]["chain_of_3"] > 1.2


def test_bad_input_is_one_sentence(model):
    with pytest.raises(engines.UserError, match="k"):
        decode(model, PROMPTS[0], k=8)
    with pytest.raises(engines.UserError, match=r"training mtp-layer tiny-ar-m"):
        decode("tiny-ar-m", PROMPTS[0])
