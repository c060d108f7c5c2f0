"""Block diffusion behind a cache: where a block stands is told by position ids and by what the cache holds, never by
its width."""

import pytest
import torch
import transformers

import engines
from tests.engines.watching.strangers import MASK, tiny, written


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
@pytest.mark.parametrize("length", [1, 3, 4, 7, 8, 9, 11])
def test_each_block_stands_in_its_place_whatever_the_length_of_the_prompt(length, told, positions):
    model, prompt = Blocks(), list(range(5, 5 + length))
    with engines.watch(model, mask_id=MASK, **({"prompt": prompt} if told else {})) as seen:
        out = block_by_block(model, prompt, positions=positions)
    trace = seen.trace(out)
    assert trace.end.reason == "complete", trace.end.message
    assert [*trace.header.prompt_ids, *trace.end.output_ids] == out[0].tolist()
    filled = [(p, t) for p, t, cause in written(trace) if cause == "filled"]
    if told:
        assert trace.header.prompt_ids == prompt
        assert filled == [(p, int(out[0, p])) for p in range(length, out.shape[1])]
    elif length % 4 != 1:  # a single token behind the last whole block may come from the row before it
        assert filled == [(p, int(out[0, p])) for p in range(length, out.shape[1])]
        given = [(p, t) for p, t, cause in written(trace) if cause == "constraint"]
        assert given == [(p, prompt[p]) for p in range(len(trace.header.prompt_ids), length)]


def test_a_token_that_the_loop_put_in_is_given_where_rows_predict_their_own_place():
    model, prompt = Blocks(), list(range(5, 10))
    with engines.watch(model, mask_id=MASK, shift=False) as seen:
        out = block_by_block(model, prompt)
    assert [one for one in written(seen.trace(out)) if one[2] == "constraint"] == [(4, 9, "constraint")]


def test_a_padded_row_behind_a_cache_of_the_prompt():
    """Position ids that do not count the padding are no places of the board."""
    model, prompt, pad = Blocks(), [0, 0, 0, 7, 8, 9, 10, 11], 3
    cache, x = transformers.DynamicCache(), torch.tensor([prompt + [MASK] * 4])
    with engines.watch(model, mask_id=MASK) as seen, torch.no_grad():
        model(x[:, :8], position_ids=(torch.arange(8) - pad).clamp(min=0)[None], past_key_values=cache)
        for place in range(8, 12):
            at = (torch.arange(8, 12) - pad)[None]
            z = model(x[:, 8:], position_ids=at, past_key_values=cache, keep=False).logits[0]
            z[:, MASK] = -1e9
            x[0, place] = z[place - 8].argmax()
    trace = seen.trace(x)
    assert trace.end.reason == "complete", trace.end.message
    assert written(trace) == [(p, int(x[0, p]), "filled") for p in range(8, 12)]


@pytest.mark.parametrize("hidden", [[MASK] * 8, [1], [9, 9, 9]], ids=["masked", "left out", "another prompt"])
def test_guidance_in_two_calls_behind_two_caches_is_one_step(hidden):
    model, prompt, scale = Blocks(), list(range(5, 13)), 2.0
    caches, x = [transformers.DynamicCache() for _ in range(2)], torch.tensor([prompt + [MASK] * 8])

    def both(start, keep):
        seen, blind = (model(x[:, start : start + 4], past_key_values=cache, keep=keep).logits[0] for cache in caches)
        return blind + scale * (seen - blind)

    with engines.watch(model, mask_id=MASK) as watched, torch.no_grad():
        model(x[:, :8], past_key_values=caches[0])
        model(torch.tensor([hidden]), past_key_values=caches[1])
        for start in (8, 12):
            for place in range(start, start + 4):
                z = both(start, keep=False)
                z[:, MASK] = -1e9
                x[0, place] = z[place - start].argmax()
            both(start, keep=True)
    trace = watched.trace(x)
    assert trace.end.reason == "complete", trace.end.message
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
