"""Trace credit: silent with its neutral parameters, who decided, and where a run ends."""

import pytest

import engines
from tests.engines.fakes import TableMasked, board, commits, lane


def decode(seed=0, table=None, slug="creditdecoding", **params):
    given = {"max_new_tokens": 24, "block_length": 8, **params}
    return engines.run(slug, table or TableMasked(seed=seed), [1, 2], params=given)


NEUTRAL = {"credit_alpha": 0.0, "slack": 0.0, "stop_at_end": False}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("theta", [0.0, 0.5, 1.01])
@pytest.mark.parametrize("hot", [{}, {"temperature": 0.8}], ids=str)
def test_its_neutral_parameters_are_the_threshold_decoder_on_ties_and_end_marks_too(seed, theta, hot):
    """Logits of whole numbers tie often; a tie of the best is where dInfer commits several and Fast-dLLM one."""
    for table in (TableMasked(seed=seed, grid=1.0, eos_ids=(4, 5)), TableMasked(seed=seed, eos_ids=(4, 5))):
        plain = decode(table=table, slug="threshold", threshold=theta, **hot)
        ours = decode(table=table, threshold=theta, **NEUTRAL, **hot)
        assert commits(ours) == commits(plain) and ours.totals.forwards == plain.totals.forwards


def test_causes_say_who_decided():
    seen = set()
    for step in (step for seed in range(4) for step in decode(seed, threshold=0.7).steps):
        raw, fused = lane(step, "confidence"), lane(step, "fused")
        for q, cause in zip(step.commits.positions, step.commits.causes, strict=True):
            seen.add(cause)
            sure, lifted = raw[q] - 0.7, fused[q] - 0.7  # as packed: a step is 1 / 254
            assert sure > -0.01 if cause == "threshold" else sure < 0.01
            assert cause == "threshold" or (lifted > -0.01 if cause == "boosted" else lifted < 0.01)
    assert seen == {"threshold", "boosted", "top1"}


@pytest.mark.parametrize("early_stop", [True, False])
def test_an_end_mark_in_a_finished_block_ends_the_run(early_stop):
    stopped = 0
    for seed in range(6):
        trace = decode(table=TableMasked(seed=seed, eos_ids=(4,)), early_stop=early_stop)
        blocks = [trace.output_ids[i : i + 8] for i in (0, 8, 16)]
        first = next((i for i, block in enumerate(blocks) if 4 in block), None)
        if first is None or first == 2:
            continue
        stopped += 1
        rest = [token for block in blocks[first + 1 :] for token in block]
        assert rest == [4 if early_stop else 11] * len(rest)
        assert trace.end.reason == "complete" and board(trace) == trace.output_ids
    assert stopped >= 2
