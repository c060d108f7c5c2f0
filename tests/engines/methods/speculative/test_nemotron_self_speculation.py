"""Self-speculation of one network: the control's text greedy, drawn and behind a person's change."""

from collections import Counter

import pytest
import torch

import engines
from engines.core.trace import Edit
from engines.methods.speculative.nemotron_self_speculation import TwoRoles

PROMPTS = ("add: 4827 + 3169", "spell: Yesterday Tom walkd near the rivver.")


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-two-way", dtype="float32")


def decode(model, prompt=PROMPTS[0], slug="nemotron-self-speculation", seed=0, edits=(), **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 48, **params}, seed=seed, edits=edits)


def roles(trace):
    return [step.record("tworoles", TwoRoles) for step in trace.steps]


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("params", [{}, {"block_length": 5}, {"block_length": 8, "threshold": 0.9}])
def test_its_text_is_greedy_decoding_s_in_fewer_rounds(model, prompt, params):
    ours, plain = decode(model, prompt, **params), decode(model, prompt, slug="greedy")
    assert ours.output_ids == plain.output_ids and len(ours.steps) < len(plain.steps)
    passes = sum(int(step.facts["passes"]) for step in ours.steps)
    assert ours.totals.forwards == len(ours.steps) + passes  # each drafting pass is a call


def test_a_threshold_costs_passes_and_fills_the_best_first(model):
    one, more = decode(model, PROMPTS[1], block_length=8), decode(model, PROMPTS[1], block_length=8, threshold=0.9)
    assert max(step.facts["passes"] for step in one.steps) == 1 < max(step.facts["passes"] for step in more.steps)
    for role in roles(more)[1:]:
        for number in range(1, max(role.passes) + 1):
            chances = [c for c, n in zip(role.chances, role.passes, strict=True) if n == number]
            assert len(chances) == 1 or min(chances) >= 0.9


def test_what_is_drawn_follows_the_model(model):
    """The second token, which a draft may give, against its exact distribution: counts within four deviations."""
    prompt, n = model.tokenizer.encode_prompt("sentence: dog find ball red"), 100
    cache = model.new_cache(len(prompt) + 1)
    first = model.extend(prompt, cache, last_only=True).logits[0].div(2).softmax(-1)
    p = torch.zeros(model.vocab_size)
    for token in first.topk(400).indices.tolist():
        p += first[token] * model.extend([token], cache).logits[0].div(2).softmax(-1)
        cache.crop(len(prompt))
    asked = {"temperature": 2.0, "max_new_tokens": 3}
    found = Counter(decode(model, prompt, seed=seed, **asked).output_ids[1] for seed in range(n))
    for chance, token in zip(*p.topk(4), strict=True):
        q = float(chance)
        assert abs(found[int(token)] - n * q) <= 4 * (n * q * (1 - q)) ** 0.5 + 1, (int(token), q)
    assert 0.05 < float(p.max()) < 0.95  # a case in which something is drawn


def test_a_changed_token_is_read_before_anything_is_drafted(model):
    prompt, other = model.tokenizer.encode_prompt(PROMPTS[0]), model.tokenizer.encode("9")[-1]
    trace = decode(model, edits=[(1, Edit(force={len(prompt) + 3: other}))])
    plain = decode(model, [*prompt, *trace.output_ids[:4]], slug="greedy", max_new_tokens=44)
    assert trace.output_ids[3] == other and trace.output_ids[4:] == plain.output_ids


def test_blocks_are_cut_where_the_model_has_no_positions(model):
    prompt = model.tokenizer.encode_prompt("copy: " + "Ada, " * 100)[: model.max_positions - 6]
    trace = decode(model, prompt, max_new_tokens=6)
    assert trace.output_ids == decode(model, prompt, slug="greedy", max_new_tokens=6).output_ids
    assert all(role.start + len(role.drafted) <= model.max_positions for role in roles(trace))
