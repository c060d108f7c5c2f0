"""Rows of several texts in one sequence are told as such, whatever says it; padding, trees and a second look are not
taken for them."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DynamicCache

import engines
from tests.engines.watching.strangers import MASK, PLAIN, followed, tiny, written
from tests.engines.watching.test_blocks import Blocks


class Store:
    """Where all requests' keys are; it does not say how many."""


class Packed(torch.nn.Module):
    """Requests one behind the other in a row, as continuous batching feeds them, each with keys of its own."""

    def __init__(self, requests):
        super().__init__()
        self.inner = tiny()
        self.config = self.inner.config
        self.held = [DynamicCache() for _ in range(requests)]
        self.ends, self.store = [], Store()

    def forward(self, input_ids, cache=None, **more):
        rows = [
            self.inner(input_ids[:, a:b], past_key_values=held).logits
            for held, (a, b) in zip(self.held, pairwise(self.ends), strict=True)
        ]
        wanted = "logits_to_keep" in more or "logits_indices" in more
        return torch.cat([row[:, -1:] if wanted else row for row in rows], 1)


@torch.no_grad()
def packed(model, requests, tells, steps=3):
    """Greedy decoding of several requests at once. tells: the arguments that say which row is whose."""
    rows = [list(one) for one in requests]
    fed, held = [list(one) for one in requests], [0] * len(requests)
    for _ in range(steps):
        sizes = [len(one) for one in fed]
        model.ends = [0, *torch.tensor(sizes).cumsum(0).tolist()]
        n, ends = sum(sizes), torch.tensor(model.ends)
        sees = torch.block_diag(*(torch.ones(k, a + k).tril(a) for a, k in zip(held, sizes, strict=True)))
        numbers = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))[None]
        known = {
            "position_ids": torch.cat([torch.arange(a, a + k) for a, k in zip(held, sizes, strict=True)])[None],
            "attention_mask": ((1 - sees) * torch.finfo(torch.float32).min)[None, None],
            "numbered": numbers + 1,
            "cu_seq_lens_q": ends.int(),
            "cumulative_seqlens_q": torch.cat([ends, ends[-1:]]).int(),
            "seq_idx": numbers.int(),
            "logits_to_keep": (ends[1:] - 1).tolist(),
            "logits_indices": ends[1:] - 1,
        }
        told = {name.replace("numbered", "attention_mask"): known[name] for name in tells}
        z = model(torch.tensor([[token for one in fed for token in one]]), cache=model.store, **told)[0]
        said = z.argmax(-1)[-len(sizes) :] if len(z) < n else z.argmax(-1)[ends[1:] - 1]
        held = [a + k for a, k in zip(held, sizes, strict=True)]
        fed = [[int(token)] for token in said]
        rows = [row + one for row, one in zip(rows, fed, strict=True)]
    return rows


ALL = ("position_ids", "attention_mask", "cu_seq_lens_q", "logits_to_keep")
TELLS = [
    ALL,
    *((name,) for name in ALL),
    *((name,) for name in ("numbered", "cumulative_seqlens_q", "seq_idx", "logits_indices")),
]


def are_refused(requests, tells, steps):
    model = Packed(len(requests))
    with engines.watch(model) as seen:
        packed(model, requests, tells, steps)
    with pytest.raises(engines.UserError, match="one at a time"):
        seen.traces()


@pytest.mark.parametrize("tells", TELLS, ids="+".join)
@pytest.mark.parametrize("sizes", [(2, 3), (2, 2), (3, 2, 3)], ids=str)
def test_requests_that_are_packed_into_a_row_are_not_one_text(sizes, tells):
    are_refused([range(5, 5 + size) for size in sizes], tells, 3)


REQUESTS = st.lists(st.lists(st.integers(3, 38), min_size=2, max_size=6), min_size=2, max_size=4)
RUNS = (REQUESTS, st.sampled_from(TELLS), st.integers(1, 4))


@given(*RUNS)
@settings(PLAIN, max_examples=100)
def test_no_requests_in_a_row_are_one_answer(requests, tells, steps):
    are_refused(requests, tells, steps)


@pytest.mark.loops
@given(*RUNS)
@settings(PLAIN, max_examples=4000)
def test_of_many_requests_in_a_row_none_are_one_answer(requests, tells, steps):
    are_refused(requests, tells, steps)


@pytest.mark.parametrize("tells", [*TELLS[:-4], TELLS[-3], TELLS[-2]], ids="+".join)
def test_one_request_alone_is_read(tells):
    model = Packed(1)
    trace, out = followed(model, lambda: torch.tensor(packed(model, [[5, 6, 7]], tells)))
    assert written(trace) == [(p, t, "written") for p, t in enumerate(out[0].tolist()) if p > 2]


def test_a_second_request_that_joins_ends_the_reading():
    model = Packed(2)
    with engines.watch(model) as seen, torch.no_grad():
        model.held, model.ends = model.held[:1], [0, 3]
        model(torch.tensor([[5, 6, 7]]), model.store, position_ids=torch.arange(3)[None])
        model.held, model.ends = [*model.held, DynamicCache()], [0, 1, 3]
        model(torch.tensor([[20, 8, 9]]), model.store, position_ids=torch.tensor([[3, 0, 1]]))
    trace = seen.traces()[0]
    assert trace.end.reason == "failed" and "begin again at row 1" in trace.end.message and len(trace.steps) == 1


@pytest.mark.parametrize("padding", [[0, 0, 0], [1, 1, 1]])
@pytest.mark.parametrize("cached", [False, True])
def test_padding_on_the_left_is_no_other_text(padding, cached):
    model, cache, mask = tiny(), DynamicCache(), [0, 0, 0, 1, 1, 1]

    def loop():
        x, fed, n = torch.tensor([[0, 0, 0, 5, 6, 7]]), 0, 3
        for _ in range(4):
            at = torch.tensor([[*padding, *range(x.shape[1] - n)]])[:, fed:]
            seen = torch.tensor([mask + [1] * (x.shape[1] - 6)])
            more = {"past_key_values": cache} if cached else {"use_cache": False}
            z = model(x[:, fed:], attention_mask=seen, position_ids=at, **more).logits
            fed = x.shape[1] if cached else 0
            x = torch.cat([x, z[:, -1:].argmax(-1)], 1)
        return x

    trace, out = followed(model, loop)
    assert written(trace) == [(p, t, "written") for p, t in enumerate(out[0].tolist()) if p > 5]


@pytest.mark.parametrize("pads", [0, 2])
def test_boards_that_are_packed_are_not_one_board(pads):
    """And a board with padding on the right is one."""
    inner, n = Blocks().inner, 4

    class Board(torch.nn.Module):
        config = inner.config

        def forward(self, input_ids, attention_mask):
            return inner(input_ids, attention_mask=attention_mask, use_cache=False)

    model, row = Board(), [5, 6, MASK, MASK]
    ids = [*row, *([0] * pads or [7, 8, MASK, MASK])]
    sees = torch.block_diag(torch.ones(n, n), torch.eye(pads) if pads else torch.ones(n, n)).bool()[None, None]
    with engines.watch(model, mask_id=MASK) as seen, torch.no_grad():
        model(torch.tensor([ids]), sees)
    if not pads:
        with pytest.raises(engines.UserError, match="several texts"):
            seen.trace()
        return
    assert seen.trace([[5, 6, 9, 10, 0, 0]]).output_ids[:2] == [9, 10]
