"""Trace credit: bounded, local to its block, silent with its neutral parameters."""

import math

import pytest
import torch

import engines
from engines.methods.diffusion.creditdecoding import accumulate
from tests.engines.fakes import TableMasked, board, commits, lane


def model(seed=0, **options):
    return TableMasked(seed=seed, **options)


def decode(seed=0, table=None, slug="creditdecoding", **params):
    return engines.run(slug, table or model(seed), [1, 2], params={"max_new_tokens": 24, "block_length": 8, **params})


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("gamma", [0.0, 0.2, 1.0, 2.0])
def test_credit_stays_within_its_bounds(beta, gamma):
    rng = torch.Generator().manual_seed(0)
    C = torch.zeros(5, 7)
    steady = torch.randn(5, 7, generator=rng)
    for turn in range(200):
        z = steady if turn % 2 else steady + 0.1 * torch.randn(5, 7, generator=rng)
        accumulate(C, z, torch.tensor([True, True, False, True, True]), beta, gamma)
        assert (C >= 0).all() and ((1 + 1e-4) / (1 - beta) >= C).all()
    assert (C[2] == 0).all() and (C[[0, 1, 3, 4]].max(-1).values > 0).all()


NEUTRAL = {"credit_alpha": 0.0, "slack": 0.0, "stop_at_end": False}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("theta", [0.0, 0.5, 1.01])
@pytest.mark.parametrize("hot", [{}, {"temperature": 0.8}], ids=str)
def test_its_neutral_parameters_are_the_threshold_decoder_on_ties_and_end_marks_too(seed, theta, hot):
    """Logits of whole numbers tie often; a tie of the best is where dInfer commits several and Fast-dLLM one."""
    for table in (model(seed, grid=1.0, eos_ids=(4, 5)), model(seed, eos_ids=(4, 5))):
        plain = decode(table=table, slug="threshold", threshold=theta, **hot)
        ours = decode(table=table, threshold=theta, **NEUTRAL, **hot)
        assert commits(ours) == commits(plain) and ours.totals.forwards == plain.totals.forwards


def test_the_neutral_setting_needs_all_three():
    """Negative control: with any one of them as in dInfer some run differs."""
    for name in NEUTRAL:
        kept = {k: v for k, v in NEUTRAL.items() if k != name}
        tables = [model(seed, grid=1.0, eos_ids=(4, 5)) for seed in range(8)]
        assert any(commits(decode(table=t, **kept)) != commits(decode(table=t, slug="threshold")) for t in tables)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("alpha", "beta"), [(0.7, 0.8), (4.0, 0.5), (2.0, 0.0)])
def test_what_the_lanes_show_is_within_the_distribution(seed, alpha, beta):
    trace = decode(seed, credit_alpha=alpha, decay_beta=beta)
    bound, blocks = alpha * math.log1p(1 / (1 - beta)), []
    for step in trace.steps:
        credit, fused = lane(step, "credit"), lane(step, "fused")
        assert all(0 <= c <= bound * 1.01 for c in credit.values())
        a, b = step.spans[0].start, step.spans[0].end
        assert all(a <= q < b for q in credit)
        best = max(fused.values())
        assert all(fused[q] >= min(0.9, best) - 1 / 127 for q in step.commits.positions)
        if (a, b) not in blocks:  # a new block starts at zero: only this forward's evidence, at most q^gamma = 1
            blocks.append((a, b))
            assert all(c <= alpha * math.log(2) * 1.01 for c in credit.values())
    assert all(commits(trace)) and board(trace) == trace.output_ids and trace.totals.masks_left == 0


def test_causes_say_who_decided():
    seen = set()
    for seed in range(4):
        for step in decode(seed, threshold=0.7).steps:
            raw, fused = lane(step, "confidence"), lane(step, "fused")
            for q, cause in zip(step.commits.positions, step.commits.causes, strict=True):
                seen.add(cause)
                sure, lifted = raw[q] - 0.7, fused[q] - 0.7  # as packed: a step is 1 / 254
                if cause == "threshold":
                    assert sure > -0.01
                else:
                    assert sure < 0.01 and (lifted > -0.01 if cause == "boosted" else lifted < 0.01)
    assert seen == {"threshold", "boosted", "top1"}


@pytest.mark.parametrize("early_stop", [True, False])
def test_an_end_mark_in_a_finished_block_ends_the_run(early_stop):
    stopped = 0
    for seed in range(6):
        trace = decode(table=model(seed, eos_ids=(4,)), early_stop=early_stop)
        blocks = [trace.output_ids[i : i + 8] for i in (0, 8, 16)]
        first = next((i for i, block in enumerate(blocks) if 4 in block), None)
        if first is None or first == 2:
            continue
        stopped += 1
        rest = [token for block in blocks[first + 1 :] for token in block]
        assert rest == [4 if early_stop else 11] * len(rest)
        assert trace.end.reason == "complete" and board(trace) == trace.output_ids
    assert stopped >= 2
