"""Block diffusion behind a cache: where a block stands is told by position ids and by what the cache holds, never by
its width."""

import pytest
import torch
import transformers

import engines
from tests.engines.watching.strangers import MASK, followed, tiny, written


class Blocks(torch.nn.Module):
    """A block model that is told with `keep` whether its rows stay in the cache."""

    def __init__(self):
        super().__init__()
        self.inner = tiny("Qwen3", head_dim=8)
        self.config = self.inner.config

    def forward(self, input_ids, position_ids=None, past_key_values=None, keep=True):
        held = past_key_values.get_seq_length()
        mask = torch.ones(1, 1, input_ids.shape[1], held + input_ids.shape[1], dtype=torch.bool)
        out = self.inner(input_ids, attention_mask=mask, position_ids=position_ids, past_key_values=past_key_values)
        if not keep:
            past_key_values.crop(-input_ids.shape[1])
        return out


@torch.no_grad()
def block_by_block(model, prompt, *, blocks=2, size=4, positions=True):
    """SDAR's loop: whole blocks of the prompt, then each block until it has no masks, and once more to keep it."""
    cache, whole = transformers.DynamicCache(), len(prompt) // size * size
    length = whole + (blocks + (whole < len(prompt))) * size
    x = torch.tensor([prompt + [MASK] * (length - len(prompt))])

    def feed(start, end, **more):
        at = {"position_ids": torch.arange(start, end)[None]} if positions else {}
        return model(x[:, start:end], past_key_values=cache, **at, **more).logits[0]

    if whole:
        feed(0, whole)
    for start in range(whole, length, size):
        while (x[0, start : start + size] == MASK).any():
            z = feed(start, start + size, keep=False)
            z[:, MASK] = -1e9
            place = start + int((x[0, start : start + size] == MASK).nonzero()[0])
            x[0, place] = z[place - start].argmax()
        feed(start, start + size)
    return x


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("length", [1, 3, 4, 7, 9])
def test_each_block_stands_in_its_place_whatever_the_length_of_the_prompt(length, told, positions):
    model, prompt = Blocks(), list(range(5, 5 + length))
    given = {"prompt": prompt} if told else {}
    trace, out = followed(model, lambda: block_by_block(model, prompt, positions=positions), mask_id=MASK, **given)
    filled = [(p, t) for p, t, cause in written(trace) if cause == "filled"]
    if told or length % 4 != 1:  # a single token behind the last whole block may come from the row before it
        assert filled == [(p, int(out[0, p])) for p in range(length, out.shape[1])]
        put_in = [(p, t) for p, t, cause in written(trace) if cause == "constraint"]
        assert put_in == [(p, prompt[p]) for p in range(len(trace.header.prompt_ids), length)]
    assert not told or trace.header.prompt_ids == prompt


def test_a_token_that_the_loop_put_in_is_given_where_rows_predict_their_own_place():
    model = Blocks()
    trace, _ = followed(model, lambda: block_by_block(model, list(range(5, 10))), mask_id=MASK, shift=False)
    assert [one for one in written(trace) if one[2] == "constraint"] == [(4, 9, "constraint")]


def test_a_padded_row_behind_a_cache_of_the_prompt():
    """Position ids that do not count the padding are no places of the board."""
    model, prompt, pad, cache = Blocks(), [0, 0, 0, 7, 8, 9, 10, 11], 3, transformers.DynamicCache()

    def loop():
        x = torch.tensor([prompt + [MASK] * 4])
        model(x[:, :8], position_ids=(torch.arange(8) - pad).clamp(min=0)[None], past_key_values=cache)
        for place in range(8, 12):
            at = (torch.arange(8, 12) - pad)[None]
            z = model(x[:, 8:], position_ids=at, past_key_values=cache, keep=False).logits[0]
            z[:, MASK] = -1e9
            x[0, place] = z[place - 8].argmax()
        return x

    trace, x = followed(model, loop, mask_id=MASK)
    assert written(trace) == [(p, int(x[0, p]), "filled") for p in range(8, 12)]


@pytest.mark.parametrize("hidden", [[MASK] * 8, [1], [9, 9, 9]], ids=["masked", "left out", "another prompt"])
def test_guidance_in_two_calls_behind_two_caches_is_one_step(hidden):
    model, prompt, caches = Blocks(), list(range(5, 13)), [transformers.DynamicCache() for _ in range(2)]

    def loop():
        x = torch.tensor([prompt + [MASK] * 8])
        model(x[:, :8], past_key_values=caches[0])
        model(torch.tensor([hidden]), past_key_values=caches[1])
        for start in (8, 12):
            for place in range(start, start + 5):  # and once more to keep it
                keep, block = place == start + 4, x[:, start : start + 4]
                shown, blind = (model(block, past_key_values=cache, keep=keep).logits[0] for cache in caches)
                z = blind + 2.0 * (shown - blind)
                z[:, MASK] = -1e9
                if not keep:
                    x[0, place] = z[place - start].argmax()
        return x

    trace, x = followed(model, loop, mask_id=MASK)
    assert written(trace) == [(p, int(x[0, p]), "filled") for p in range(8, 16)]
    assert all(step.forwards == {"model": 2} for step in trace.steps) and len(trace.steps) == 1 + 2 * 5
    assert "guidance" in trace.header.departures and not trace.steps[1].commits.probabilities


def test_another_prompt_with_a_cache_of_its_own_is_no_guidance():
    model = Blocks()
    with engines.watch(model, mask_id=MASK) as seen:
        block_by_block(model, list(range(5, 13)))
        out = block_by_block(model, list(range(20, 28)))
    trace = seen.trace(out)
    assert trace.end.reason == "failed" and "another prompt began" in trace.end.message
