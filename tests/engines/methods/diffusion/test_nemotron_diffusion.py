"""Nemotron's block diffusion (its public cases are checked with those of self-speculation): what a pass writes, what is
kept, and a block that begins wherever the text ends."""

import pytest

import engines
from engines.core.trace import Edit
from engines.methods.diffusion.nemotron_diffusion import OpenBlock

SLUG, PROMPT = "nemotron-diffusion", "add: 4827 + 3169"


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-two-way", dtype="float32")


def decode(model, prompt=PROMPT, slug=SLUG, edits=(), **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 48, **params}, edits=edits)


def blocks(trace):
    return [step.record("openblock", OpenBlock) for step in trace.steps if step.record("openblock", OpenBlock)]


def test_a_quota_takes_its_passes(model):
    trace = decode(model, threshold=0.0, steps=5, block_length=16)
    written = [int(step.facts["written"]) for step in trace.steps if "written" in step.facts]
    assert written[:5] == [3, 3, 3, 3, 3] and set(written) == {3}


def test_only_causal_readings_are_kept(model):
    """Behind a full block the cache holds what a causal model has there: the free token is greedy decoding's."""
    trace = decode(model, block_length=8)
    prompt = model.tokenizer.encode_prompt(PROMPT)
    ids = list(prompt)
    for step in trace.steps:
        if step.commits:
            tokens = step.commits.tokens
            if step.commits.causes[-1] == "autoregressive":
                text = [*ids, *tokens[:-1]]
                z = model.extend(text, model.new_cache(len(text)), last_only=True).logits
                assert int(z.argmax()) == tokens[-1]
            ids += tokens
    assert ids[len(prompt) :] == trace.output_ids


def test_without_causal_context_no_token_is_free(model):
    trace = decode(model, "copy: Mia, Leo", causal_context=False)
    causes = {cause for step in trace.steps if step.commits for cause in step.commits.causes}
    assert "autoregressive" not in causes and trace.steps[0].commits is None
    assert decode(model, "copy: Mia, Leo").steps[0].commits.causes == ["autoregressive"]


def test_a_change_opens_the_block_anew(model):
    prompt = model.tokenizer.encode_prompt(PROMPT)
    other = model.tokenizer.encode("9")[-1]
    trace = decode(model, edits=[(1, Edit(force={len(prompt): other}))])
    assert trace.output_ids[0] == other
    again = blocks(trace)[1]
    assert again.start == len(prompt) and again.tokens[0] == other


def test_blocks_are_cut_where_the_model_has_no_positions(model):
    prompt = model.tokenizer.encode_prompt("copy: " + "Ada, " * 100)[: model.max_positions - 6]
    trace = decode(model, prompt, max_new_tokens=6)
    assert len(trace.output_ids) <= 6
    assert all(block.start + len(block.tokens) <= model.max_positions for block in blocks(trace))
