"""LLaDA's distributions: the schedule is kept whatever the model says."""

import itertools

import pytest

import engines
from engines.core.masks import require_divisor, transfer_schedule
from tests.engines.fakes import TableMasked, board, commits


def decode(seed=0, rng_seed=0, prompt=(1, 2), **params):
    return engines.run(
        "llada", TableMasked(seed=seed), list(prompt), params={"max_new_tokens": 24, **params}, seed=rng_seed
    )


@pytest.mark.parametrize(("b", "steps"), [(24, 5), (8, 12), (1, 24), (8, 48), (24, 1)])
@pytest.mark.parametrize("remasking", ["low_confidence", "random"])
def test_every_block_follows_its_schedule(b, steps, remasking):
    trace = decode(block_length=b, steps=steps, remasking=remasking)
    plan = transfer_schedule(b, steps * b // 24) * (24 // b)
    assert [len(c) for c in commits(trace)] == plan
    assert trace.totals.forwards == steps == len(trace.steps)
    assert trace.totals.masks_left == 0 and board(trace) == trace.output_ids
    written = [p for c in commits(trace) for p in c]
    assert sorted(written) == list(range(2, 26))  # once each: nothing is hidden again
    blocks = [(p - 2) // b for p in written]
    assert blocks == sorted(blocks)


def test_the_schedule_shares_equally_and_the_remainder_comes_first():
    for masks, steps in itertools.product((0, 5, 16), (1, 5, 20)):
        plan = transfer_schedule(masks, steps)
        assert sum(plan) == masks and len(plan) == steps
        assert max(plan) - min(plan) <= 1 and plan == sorted(plan, reverse=True)


@pytest.mark.parametrize("params", [{"block_length": 7}, {"block_length": 8, "steps": 4}, {"block_length": 48}])
def test_sizes_that_do_not_divide_are_refused_with_ones_that_do(params):
    with pytest.raises(engines.UserError, match=r"must divide .*; try "):
        decode(**params)
    require_divisor("a", 3, "b", 12)


def test_random_order_is_the_seeds_and_not_the_models():
    runs = [decode(m, r, remasking="random", block_length=24) for m, r in ((0, 0), (1, 0), (0, 1))]
    orders = [[q for c in commits(trace) for q in c] for trace in runs]
    assert orders[0] == orders[1] != orders[2]
