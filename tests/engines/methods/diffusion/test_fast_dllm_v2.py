"""Fast-dLLM v2: the block cache feeds less, finished blocks stay, edits reach into them. The loop is golden."""

from functools import cache
from pathlib import Path

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.methods.diffusion._open_block import propose
from engines.methods.diffusion.fast_dllm_v2 import TOP_P
from tests.engines.fakes import commits

STUB = Path(__file__).parents[3] / "golden" / "diffusion" / "stubs" / "q"  # blocks of 8
MASK, B = 63, 8
PROMPTS = {"short": [1, 7, 10, 11, 5], "longer": [1, 17, 13, 11, 7, 9, 16, 11, 6, 6, 5]}


@cache
def stub():
    return engines.load_model(STUB, kind="block", mask_id=MASK)


def decode(prompt="longer", edits=(), **params):
    return engines.run(
        "fast-dllm-v2", stub(), PROMPTS[prompt], params={"max_new_tokens": 24, "threshold": 0.8, **params}, edits=edits
    )


def fed(trace):
    return [next((s.start, s.end) for s in step.spans if s.kind == "fed") for step in trace.steps]


def test_the_block_cache_feeds_fewer_tokens():
    plain, patched = (decode("short", small_block_size=4, use_block_cache=on) for on in (False, True))
    assert plain.totals.forwards == patched.totals.forwards and patched.totals.tokens_fed < plain.totals.tokens_fed
    assert any(s.kind == "stale" for step in patched.steps for s in step.spans)


@pytest.mark.parametrize("params", [{"small_block_size": 2}, {"small_block_size": 4, "use_block_cache": True}], ids=str)
def test_committed_tokens_never_change_and_sub_blocks_are_filled_from_the_left(params):
    seen = set()
    trace = decode("longer", **params)
    for step, now in zip(trace.steps, commits(trace), strict=True):
        assert not seen & set(now or ())
        seen |= set(now or ())
        for sub in (s for s in step.spans if s.kind == "sub-block"):
            assert all(sub.start <= q < sub.end for q in now)
            assert seen >= set(range(11, sub.start))


def test_it_ends_at_the_end_mark_and_the_canvas_is_whole_blocks_and_long_enough():
    trace = decode("short", max_new_tokens=48)
    end = trace.output_ids.index(62)
    assert trace.end.reason == "complete" and MASK not in trace.output_ids[:end] and trace.totals.tokens == end
    assert max(b for _, b in fed(trace)) <= -(-(5 + end + 1) // B) * B < 5 + len(trace.output_ids)
    for length in (1, 8, 9):
        trace = decode("longer", max_new_tokens=length)
        assert (len(trace.output_ids) + 11) % B == 0 and length <= len(trace.output_ids) < length + B


def test_edits_reach_into_finished_blocks():
    one = engines.stream("fast-dllm-v2", stub(), PROMPTS["longer"], params={"max_new_tokens": 24, "threshold": 0.8})
    steps = [next(one) for _ in range(8)]
    assert steps[-1].spans[0].start >= 16  # the block of position 16 is open, that of 12 is stored
    later = [one.send(engines.Edit(force={12: 20}, remask=[16])), *one]
    trace = one.trace()
    assert trace.output_ids[1] == 20 and trace.end.reason == "complete"
    stored = [s.start for step in later for s in step.spans if s.kind == "fed" and s.label == "stored"]
    assert stored.count(8) == 1  # the changed block is fed again before anything looks at it
    assert decode(edits=[(e.after_step, e.edit) for e in trace.header.edits]).output_ids == trace.output_ids


def test_a_sub_block_that_does_not_fit_is_refused():
    with pytest.raises(UserError, match=r"small_block_size=3 must divide the model's block size of 8; try 1, 2, 4, 8"):
        decode(small_block_size=3)


def test_sampling_keeps_to_the_likely_tokens():
    z = torch.tensor([[2.0, 1.0, 0.0, -6.0]]).repeat(400, 1)
    tokens, chance = propose(z, 1.0, 0, TOP_P, torch.Generator().manual_seed(0))
    distribution = z[0, :3].softmax(-1)  # the fourth token lies behind 95 % of the mass
    assert set(tokens.tolist()) == {0, 1, 2} and torch.allclose(chance, distribution[tokens])
    assert float((tokens == 0).float().mean()) == pytest.approx(float(distribution[0]), abs=0.08)
