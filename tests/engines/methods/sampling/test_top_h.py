"""Top-H: the bound holds at every step, the three rules differ where the paper says so, and the other
implementations let the same tokens through."""

import itertools

import pytest
import torch

import engines
from engines.core.truncated import Truncation, ranked
from engines.methods.sampling.top_h import TOLERANCE, spend
from tests.engines.fakes import TableCausal

TRUNCATION = "truncation", Truncation

VARIANTS = ("paper", "official", "hf")
PROMPT = [1, 2, 3]


def distributions(n=40):
    """Random ones of many widths: (P, alpha)."""
    rng = torch.Generator().manual_seed(7)
    for i in range(n):
        size = (12, 60, 300, 1000)[i % 4]
        z = torch.randn(size, generator=rng, dtype=torch.float64) * (0.3, 1, 3, 8)[i // 4 % 4]
        yield ranked(z, 1.0)[0], (0.1, 0.4, 0.9)[i % 3]


def entropy_of(q):
    q = q / q.sum()
    return float(-(q * q.log2()).sum())


def decode(model, **params):
    return engines.run("top-h", model, PROMPT, params={"max_new_tokens": 30, **params})


def test_the_kept_set_fits_the_budget_and_the_next_token_would_break_it():
    for P, alpha in distributions():
        spent = spend(P, alpha, "paper")
        assert entropy_of(P[: spent.kept]) <= alpha * entropy_of(P) + TOLERANCE + 1e-9
        assert entropy_of(P[: spent.kept + 1]) > alpha * entropy_of(P) - 1e-9
        assert spent.counted.tolist() == pytest.approx([entropy_of(P[: n + 1]) for n in range(len(P))], abs=1e-9)


def test_a_larger_share_keeps_no_fewer_and_never_none():
    for P, _ in distributions():
        for variant in VARIANTS:
            kept = [spend(P, alpha, variant).kept for alpha in (1e-6, 0.1, 0.3, 0.4, 0.6, 0.9, 1.0)]
            assert kept[0] == 1 and kept == sorted(kept)
            assert kept[-1] == (len(P) if variant == "paper" else min(len(P), 100))
    P, ids = ranked(torch.tensor([0.0, 900.0, 0.0]), 1.0)  # one token holds everything
    for variant in VARIANTS:
        spent = spend(P, 0.4, variant)
        assert (P.tolist(), ids.tolist(), spent.kept, spent.whole) == ([1.0], [1], 1, 0.0)


def test_hf_is_what_transformers_lets_through():
    from transformers.generation.logits_process import TopHLogitsWarper

    rng = torch.Generator().manual_seed(3)
    for size, scale, alpha in itertools.product((50, 120, 1000), (0.5, 2.0, 6.0), (0.2, 0.4, 0.8)):
        z = torch.randn(size, generator=rng, dtype=torch.float64) * scale
        P, ids = ranked(z, 1.0)
        theirs = TopHLogitsWarper(alpha)(torch.zeros(1, 0), z[None])[0].isfinite().nonzero()[:, 0].tolist()
        assert sorted(ids[: spend(P, alpha, "hf").kept].tolist()) == theirs


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_record_tells_the_cut(variant):
    trace = decode(TableCausal(vocab_size=200, memory=3), variant=variant, temperature=1.5)
    for step in trace.steps:
        cut, token = step.record(*TRUNCATION), step.commits.tokens[-1]
        assert cut.position == step.commits.positions[-1]
        listed = cut.tokens[: len(cut.tokens) - cut.refused]
        assert token in listed and step.facts["kept"] == cut.kept == len(listed)
        assert listed[int(step.facts["rank_sampled"]) - 1] == token
        assert all(value <= cut.line + 1e-4 for value in cut.counted[: cut.kept])
        assert all(value > cut.line - 1e-4 for value in cut.counted[cut.kept :]) and cut.refused == 3
        assert cut.mass == pytest.approx(sum(cut.probabilities[: cut.kept]), abs=1e-4)
        assert set(cut.others) == set(cut.others_mass) == {"top-k 50", "top-p 0.9", "min-p 0.1"}
        assert 0.9 <= cut.others_mass["top-p 0.9"] <= 1 and cut.others_mass["top-k 50"] <= 1
