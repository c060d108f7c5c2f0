"""Reflective verification: rows of the second copy, what it rescues and lets slip. The mixture is a golden case."""

import pytest
import torch

import engines
from engines.core.sampling import distribution
from tests.engines.fakes import chi_square_p
from tests.engines.methods.speculative.toys import pair


def decode(models, seed=0, slug="reflective-verification", **params):
    request = {"request": "4 4 2"} if slug == "reflective-verification" else {}  # of models whose text is token ids
    return engines.run(slug, models, [1, 2, 3], params={"max_new_tokens": 24, **request, **params}, seed=seed)


def total(trace, name):
    return sum(step.facts[name] for step in trace.steps)


@pytest.mark.parametrize("hot", [-1.0, 1.3])
def test_without_weight_it_is_plain_speculative_sampling(hot):
    for temperature in (0.0, 1.0):
        same = {"gamma": 4, "temperature": temperature, "draft_temperature": hot}
        ours = decode(pair(3, eos_ids=(4,)), alpha=0.0, **same)
        plain = decode(pair(3, eos_ids=(4,)), slug="speculative-sampling", **same)
        assert ours.output_ids == plain.output_ids
        assert [s.facts["accepted"] for s in ours.steps] == [s.facts["accepted"] for s in plain.steps]
        assert total(ours, "rescued") == total(ours, "lost") == 0


def test_the_forward_holds_both_copies_and_the_cache_the_text():
    models = pair(2)
    trace = decode(models, alpha=0.5, gamma=3, prefix=2)
    text = trace.header.prompt_ids + trace.output_ids
    for step, (cached, fed) in zip(trace.steps, models["target"].calls, strict=True):
        before, d = text[: step.tree.start + 1], step.tree.tokens[1:]
        second = [4, 4, 2, *before[-2:], *d] if d else []
        assert cached == text[: len(cached)] and cached + fed == [*before, *d, *second]
        assert step.facts["rows"] == 1 + len(d) + len(second)


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_both_opinions_come_from_the_right_rows(alpha):
    """Every token tested was judged by the model's own logits after the text mixed with those after the second copy."""
    models = pair(5, memory=None)
    trace = decode(models, alpha=alpha, gamma=4, prefix=3)
    text, seen, rescued = list(trace.header.prompt_ids), 0, 0
    for step in trace.steps:
        d = step.tree.tokens[1:]
        for i, token in enumerate(d[: int(step.facts["accepted"]) + 1]):
            own = models["target"].logits(text + d[:i])[0]
            again = models["target"].logits([*text, *d, 4, 4, 2, *text[-3:], *d[:i]])[0]
            mixed = (1 - alpha) * own + alpha * again
            kept = int(mixed.argmax()) == token
            assert kept == step.tree.accepted[i + 1]
            assert float(mixed.log_softmax(-1)[token]) == pytest.approx(step.tree.target_logprobs[i + 1], abs=1e-4)
            mine = kept and int(own.argmax()) != token
            assert (step.commits.causes[i] == "rescued") == mine if kept else True
            seen, rescued = seen + 1, rescued + mine
        text += step.commits.tokens
    assert seen > 10 and rescued == total(trace, "rescued") > 0


def test_the_first_token_has_the_mixtures_distribution():
    """Above temperature 0, and not the target's own."""
    models, alpha, counts = pair(5, memory=2), 0.6, torch.zeros(5)
    for seed in range(350):
        trace = decode(models, seed, alpha=alpha, gamma=1, prefix=0, temperature=1.0, max_new_tokens=2)
        counts[trace.output_ids[0]] += 1
    own, again = models["target"].logits([2, 3], [4, 2]).double()  # the ends of the prompt and of the request
    wanted = distribution((1 - alpha) * own + alpha * again, 1.0)
    assert chi_square_p(counts, wanted) > 1e-3 > chi_square_p(counts, distribution(own, 1.0))


def test_the_poison_test_counts_what_slips_through():
    trace = decode(pair(7, memory=None), alpha=1.0, poison=2, max_new_tokens=40)
    for n, step in enumerate(trace.steps, 1):
        due = n % 2 == 0 and len(step.tree.tokens) > 1
        assert step.facts["poisoned"] == due and (step.tree.sources[1:2] == ["random"]) == due
        assert step.facts["poisoned_kept"] == (due and step.tree.accepted[1])
    assert total(trace, "poisoned") > 2


def test_where_the_second_copy_has_no_place_it_is_left_out():
    trace = decode(pair(1, max_positions=30), alpha=0.5)
    rows = [step.facts["rows"] for step in trace.steps]
    assert max(rows) > 6 >= rows[-2] and trace.totals.tokens == 24


def test_bad_requests_are_refused():
    for request, sentence in (("check it", "write token ids"), ("1 " * 65, "at most 64 are read")):
        with pytest.raises(engines.UserError, match=sentence):
            decode(pair(), request=request)
