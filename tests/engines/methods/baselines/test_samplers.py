"""Temperature, top-k, top-p and min-p: the right tokens are let through, and what is drawn has their distribution."""

import pytest
import torch

import engines
from engines.core.truncated import (
    LISTED,
    REFUSED,
    Truncation,
    kept_by_mass,
    kept_by_rank,
    kept_by_ratio,
    let_through,
    ranked,
)
from tests.engines.fakes import TableCausal, chi_square_p

TRUNCATION = "truncation", Truncation

PROMPT = [1, 2, 3]
RULES = {"top-k": {"top_k": 5}, "top-p": {"top_p": 0.7}, "min-p": {"min_p": 0.2}, "temperature": {}}
P = torch.tensor([0.5, 0.25, 0.15, 0.06, 0.04], dtype=torch.float64)


def decode(slug, model=None, seed=0, **params):
    given = {"max_new_tokens": 40, **RULES[slug], **params}
    return engines.run(slug, model or TableCausal(vocab_size=20, memory=2), PROMPT, params=given, seed=seed)


def test_which_tokens_a_rule_keeps():
    """Top-p: the fewest that reach the mass."""
    for k, kept in ((1, 1), (3, 3), (9, 5), (0, 5)):
        assert kept_by_rank(P, k) == kept
    for p, kept in ((0.0, 1), (0.4, 1), (0.5, 1), (0.51, 2), (0.8, 3), (0.95, 4), (1.0, 5)):
        assert kept_by_mass(P, p) == kept
    for share, kept in ((1.0, 1), (0.5, 2), (0.3, 3), (0.08, 5), (0.0, 5)):
        assert kept_by_ratio(P, share) == kept


@pytest.mark.parametrize("T", [0.3, 1.0, 2.0])
def test_the_rules_agree_with_those_of_transformers(T):
    from transformers.generation import logits_process as theirs

    rng = torch.Generator().manual_seed(5)
    for scale in (0.5, 2.0, 5.0):
        z = torch.randn(500, generator=rng, dtype=torch.float64) * scale
        p, ids = ranked(z, T)
        for warper, kept in (
            (theirs.TopKLogitsWarper(50), kept_by_rank(p, 50)),
            (theirs.TopPLogitsWarper(0.9), kept_by_mass(p, 0.9)),
            (theirs.MinPLogitsWarper(0.1), kept_by_ratio(p, 0.1)),
        ):
            left = warper(torch.zeros(1, 0, dtype=torch.long), z[None] / T)[0].isfinite().nonzero()[:, 0]
            assert sorted(ids[:kept].tolist()) == left.tolist()


@pytest.mark.parametrize("slug", RULES)
def test_what_is_drawn_has_the_distribution_of_what_is_left(slug):
    """A chi-square test over the first token of 300 seeds: the tokens that are let through, renormalised, and no
    other."""
    model = TableCausal(vocab_size=12, memory=3)
    first = decode(slug, model, max_new_tokens=1, temperature=1.5).steps[0].record(*TRUNCATION)
    p = torch.tensor(first.probabilities[: first.kept]) / first.mass
    drawn = [decode(slug, model, seed, max_new_tokens=1, temperature=1.5).output_ids[0] for seed in range(300)]
    counts = torch.tensor([drawn.count(token) for token in first.tokens[: first.kept]])
    assert counts.sum() == 300 and chi_square_p(counts, p) > 1e-3


@pytest.mark.parametrize("slug", RULES)
def test_the_record_tells_the_cut(slug):
    for step in decode(slug, temperature=1.5).steps:
        cut = step.record(*TRUNCATION)
        assert cut.kept == step.facts["kept"] and len(cut.tokens) == min(20, cut.kept + REFUSED)
        assert all(value <= cut.line + 1e-4 for value in cut.counted[: cut.kept - 1])
        assert all(value > cut.line - 1e-4 for value in cut.counted[cut.kept :])
        assert len(cut.others) == (3 if slug == "temperature" else 2) and slug not in cut.others


def test_long_lists_are_cut_and_the_first_refused_ones_follow():
    p = torch.full((200,), 1 / 200, dtype=torch.float64)
    cut = let_through(3, p, torch.arange(200), 120, counted=p.cumsum(-1), line=0.6, quantity="mass", unit="probability")
    assert cut.tokens == [*range(LISTED), 120, 121, 122] and (cut.kept, cut.refused) == (120, 3)
    with pytest.raises(ValueError, match="of 2 tokens 0 are refused, which does not fit 1"):
        Truncation(0, [1, 2], [0.5, 0.2], [0.1, 0.2], 1, 0, 0.5, "mass", "probability", 0.4)
