"""Reflective verification: the mixture, the rows of the second copy, plain verification at alpha = 0, and what the
second opinion rescues and lets slip."""

import pytest
import torch

import engines
from engines.core.sampling import distribution
from engines.methods.speculative import reflective_verification as reflective
from tests.engines.fakes import board, chi_square_p
from tests.engines.methods.speculative.toys import pair

REQUEST = "4 4 2"  # for models whose text is token ids


def decode(models, seed=0, slug="reflective-verification", **params):
    request = {"request": REQUEST} if slug == "reflective-verification" else {}
    return engines.run(slug, models, [1, 2, 3], params={"max_new_tokens": 24, **request, **params}, seed=seed)


def total(trace, name):
    return sum(step.facts[name] for step in trace.steps)


def test_the_mixture_is_linear_and_keeps_what_is_forbidden():
    z0, zr = torch.tensor([1.0, 2.0, -torch.inf, 0.5]), torch.tensor([3.0, -1.0, 9.0, -torch.inf])
    for alpha in (0.0, 0.25, 1.0):
        z = reflective.fuse(z0, zr, alpha)
        assert z.tolist() == pytest.approx([1 + 2 * alpha, 2 - 3 * alpha, -torch.inf, 0.5])


@pytest.mark.parametrize("hot", [-1.0, 1.3])
def test_without_weight_it_is_plain_speculative_sampling(hot):
    for temperature in (0.0, 1.0):
        models = pair(3, eos_ids=(4,))
        same = {"gamma": 4, "temperature": temperature, "draft_temperature": hot}
        ours = decode(models, alpha=0.0, **same)
        plain = decode(models, slug="speculative-sampling", **same)
        assert ours.output_ids == plain.output_ids == board(ours)
        assert [s.facts["accepted"] for s in ours.steps] == [s.facts["accepted"] for s in plain.steps]
        assert total(ours, "rescued") == total(ours, "lost") == 0
        if not temperature:
            assert ours.output_ids == decode(models["target"], slug="greedy").output_ids


def test_the_forward_holds_both_copies_and_the_cache_the_text():
    models = pair(2)
    trace = decode(models, alpha=0.5, gamma=3, prefix=2)
    text = trace.header.prompt_ids + trace.output_ids
    for step, (cached, fed) in zip(trace.steps, models["target"].calls, strict=True):
        before = text[: step.tree.start + 1]
        d = step.tree.tokens[1:]
        second = [4, 4, 2, *before[-2:], *d] if d else []
        assert cached == text[: len(cached)] and cached + fed == [*before, *d, *second]
        assert step.facts["rows"] == 1 + len(d) + len(second)


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_both_opinions_come_from_the_right_rows(alpha):
    """Every token tested was judged by the mixture of the model's own logits after the text and after the second
    copy."""
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
    models, alpha = pair(5, memory=2), 0.6
    counts = torch.zeros(5)
    for seed in range(350):
        trace = decode(models, seed, alpha=alpha, gamma=1, prefix=0, temperature=1.0, max_new_tokens=2)
        counts[trace.output_ids[0]] += 1
    own, again = models["target"].logits([2, 3], [4, 2]).double()  # the ends of the prompt and of the request
    wanted = distribution((1 - alpha) * own + alpha * again, 1.0)
    assert chi_square_p(counts, wanted) > 1e-3 > chi_square_p(counts, distribution(own, 1.0))


def test_the_poison_test_counts_what_slips_through():
    models = pair(7, memory=None)
    trace = decode(models, alpha=1.0, poison=2, max_new_tokens=40)
    for n, step in enumerate(trace.steps, 1):
        due = n % 2 == 0 and len(step.tree.tokens) > 1
        assert step.facts["poisoned"] == due and (step.tree.sources[1:2] == ["random"]) == due
        assert step.facts["poisoned_kept"] == (due and step.tree.accepted[1])
    assert total(trace, "poisoned") > 2
    assert total(decode(models, alpha=1.0), "poisoned") == 0


def test_where_the_second_copy_has_no_place_it_is_left_out():
    models = pair(1, max_positions=30)
    trace = decode(models, alpha=0.5)
    rows = [step.facts["rows"] for step in trace.steps]
    assert max(rows) > 6 and trace.steps[-2].facts["rows"] <= 6 and trace.totals.tokens == 24


def test_bad_input_is_one_sentence():
    models = pair()
    with pytest.raises(engines.UserError, match="write token ids"):
        decode(models, request="check it")
    with pytest.raises(engines.UserError, match="at most 64 are read"):
        decode(models, request="1 " * 65)
    info = next(m for m in engines.list_methods() if m.slug == "reflective-verification")
    assert not info.lossless and info.keeps({"alpha": 0.0})
