"""Rows behind a board under position ids of the board look at its places once more and are no part of it."""

import pytest
import torch
from transformers import DynamicCache

from tests.engines.watching.strangers import MASK, followed, tiny

PROMPT = [5, 6, 7]


class TwoWay(torch.nn.Module):
    """Sees what its mask shows, else everything."""

    def __init__(self):
        super().__init__()
        self.inner = tiny("Qwen3", head_dim=8)
        self.config = self.inner.config

    def forward(self, input_ids, attention_mask=None, position_ids=None, past_key_values=None):
        n, held = input_ids.shape[1], past_key_values.get_seq_length() if past_key_values is not None else 0
        see = torch.ones(1, 1, n, held + n, dtype=torch.bool) if attention_mask is None else attention_mask
        more = {"use_cache": False} if past_key_values is None else {"past_key_values": past_key_values}
        out = self.inner(input_ids, attention_mask=see, position_ids=position_ids, **more)
        if past_key_values is not None and held:
            past_key_values.crop(-n)
        return out


@torch.no_grad()
def looked_at_twice(model, size, copies, *, cached=False, pads=0):
    """WINO's loop: a block of masks, and behind it copies of its places that are always masked, whose rows see all
    tokens of the block but their own. One token is masked again."""
    start, n = pads + len(PROMPT), pads + len(PROMPT) + size
    x = torch.tensor([[0] * pads + PROMPT + [MASK] * size * (1 + copies)])
    at = torch.cat([(torch.arange(n) - pads).clamp(min=0), *[torch.arange(start, n) - pads] * copies])[None]
    see = torch.ones(1, 1, x.shape[1], x.shape[1], dtype=torch.bool)
    see[..., n:] = False
    for a in range(n, x.shape[1], size):
        see[..., a : a + size, a : a + size] = True
        see[..., a : a + size, start:n] = ~torch.eye(size, dtype=torch.bool)
    cache, first, again = None, 0, True
    if cached:
        cache, first = DynamicCache(), start
        model(x[:, :start], position_ids=at[:, :start], past_key_values=cache)
    while (x[0, :n] == MASK).any():
        z = model(x[:, first:], see[..., first:, :], at[:, first:], cache).logits[0]
        z[:, MASK] = -1e9
        place = int((x[0, :n] == MASK).nonzero()[0])
        x[0, place] = z[place - first].argmax()
        if again and place == start + 2:
            x[0, start], again = MASK, False
    return x[:, :n]


@pytest.mark.parametrize("size", [3, 6])
@pytest.mark.parametrize("copies", [0, 1, 2])
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("pads", [0, 2])
def test_a_copy_of_the_block_behind_the_board_is_no_part_of_the_answer(size, copies, cached, pads):
    model = TwoWay()
    trace, out = followed(model, lambda: looked_at_twice(model, size, copies, cached=cached, pads=pads), mask_id=MASK)
    assert trace.header.canvas == out.shape[1] and trace.totals.masks_left == 0
    assert trace.output_ids == out[0, pads + 3 :].tolist()
    steps = [step for step in trace.steps if step.commits]
    assert len(steps) == size + 1 and "remasked" in steps[2].commits.causes
    open_places = [len(step.candidates.positions) for step in steps]
    assert open_places == [*range(size, size - 3, -1), size - 2, *range(size - 3, 0, -1)]
    assert ("a second look" in trace.header.departures) == (copies > 0)
    assert steps[0].tokens_fed == (0 if cached else pads + 3) + size * (1 + copies)
