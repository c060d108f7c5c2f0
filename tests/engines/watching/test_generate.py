"""transformers' own generate, watched: greedy, sampling, beams, assisted, prompt lookup, a batch."""

import pytest
import torch

import engines
from tests.engines.watching.conftest import PROMPT
from tests.engines.watching.strangers import followed


@pytest.fixture(scope="module")
def ar():
    return engines.load_model("tiny-ar-m")


@pytest.fixture(scope="module")
def small():
    return engines.load_model("tiny-ar-s").model


@pytest.fixture(scope="module")
def text(ar):
    return torch.tensor([ar.tokenizer.encode_prompt(PROMPT)])


def generate(ar, text, **more):
    torch.manual_seed(1)
    usual = {"max_new_tokens": 16, "eos_token_id": sorted(ar.eos_ids), "pad_token_id": 0}
    return ar.model.generate(text, **{"attention_mask": torch.ones_like(text), **usual, **more})


MODES = {
    "greedy": {"do_sample": False},
    "greedy-uncached": {"do_sample": False, "use_cache": False},
    "beams-uncached": {"num_beams": 3, "do_sample": False, "use_cache": False},
    "static-cache": {"do_sample": False, "cache_implementation": "static"},
    "sampling": {"do_sample": True, "temperature": 1.5, "eos_token_id": None},
    "beams": {"num_beams": 3, "do_sample": False},
    "lookup": {"prompt_lookup_num_tokens": 4, "do_sample": False},
    "assisted": {"do_sample": False},
    "assisted-sampling": {"do_sample": True, "temperature": 1.5, "eos_token_id": None},
}


@pytest.mark.parametrize("mode", MODES)
def test_what_is_read_is_what_generate_returns(ar, small, text, mode):
    more = MODES[mode] | ({"assistant_model": small} if "assisted" in mode else {})
    bare = generate(ar, text, **more)
    roles = {"target": ar.model, "draft": small} if "assisted" in mode else ar.model
    trace, out = followed(roles, lambda: generate(ar, text, **more), kind="causal", tokenizer=ar.tokenizer)
    assert torch.equal(bare, out) and trace.header.prompt_ids == text[0].tolist()
    assert "tokens" not in trace.header.missing
    commits = [step.commits for step in trace.steps if step.commits]
    assert [token for one in commits for token in one.tokens] == trace.output_ids
    assert all(p is not None for one in commits for p in one.probabilities)
    drafted = [s for s in trace.steps if s.tree]
    if "assisted" in mode:
        assert drafted and all(s.forwards["draft"] >= 1 and s.forwards["target"] == 1 for s in drafted)
        assert "were fed first" not in trace.end.message
        for step in drafted:
            assert step.tree.sources[1:] == ["draft"] * (len(step.tree.parents) - 1)
            assert all(p is None or p <= 0 for p in step.tree.draft_logprobs)
            assert sum(step.tree.accepted) - 1 == list(step.commits.causes).count("accepted")


def test_beams_and_where_they_grew_from(ar, text):
    more = {"num_beams": 3, "do_sample": False, "return_dict_in_generate": True, "output_scores": True}
    trace, out = followed(ar.model, lambda: generate(ar, text, **more), kind="causal")
    assert all(sum(b.fate == "alive" for b in step.branches) == 3 for step in trace.steps[:-1])
    texts = {-1: []}
    for step in trace.steps[:-1]:
        before = dict(texts)
        for branch in step.branches:
            if branch.tokens:
                texts[branch.id] = [*before.get(branch.id, before[branch.parent]), *branch.tokens]
                assert len(texts[branch.id]) == branch.length
    best = trace.output_ids[:2]
    with torch.no_grad():
        z = ar.model(out.sequences[:1]).logits[0].log_softmax(-1)
    total = sum(float(z[text.shape[1] - 1 + i, token]) for i, token in enumerate(best))
    first = trace.steps[1].branches[0]
    assert texts[first.id][:2] == best and first.scores["log p"] == pytest.approx(total, abs=1e-3)


def test_a_batch_and_samples_have_a_trace_each(ar, text):
    two = torch.cat([text, text.flip(1)])
    with engines.watch(ar.model, kind="causal") as seen:
        out = generate(ar, two, do_sample=False)
    traces = seen.traces(out)
    assert [t.header.prompt_ids + t.output_ids for t in traces] == out.tolist()
    with engines.watch(ar.model, kind="causal") as seen:
        out = generate(ar, text, do_sample=True, num_return_sequences=3, temperature=2.0, eos_token_id=None)
    assert [t.header.prompt_ids + t.output_ids for t in seen.traces(out)] == out.tolist()
    with pytest.raises(engines.UserError, match="3 answers were decoded at once"):
        seen.trace(out)


def test_a_padded_prompt_keeps_its_padding_and_a_tokenizer_of_transformers_shows_the_text(ar, text):
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), text], 1)
    more = {"attention_mask": (padded != 0).long(), "do_sample": False}
    trace, _ = followed(ar.model, lambda: generate(ar, padded, **more), tokenizer=ar.tokenizer.tokenizer)
    assert trace.header.prompt_ids == padded[0].tolist()
    assert trace.text == ar.tokenizer.decode(trace.output_ids).strip() and "Mia" in trace.text
