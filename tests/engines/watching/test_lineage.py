"""Which beam grew from which is told where it was seen, and nothing that rests on it where it was not."""

import math

import pytest
import torch
import transformers
from transformers.cache_utils import DynamicCache, QuantizedLayer

import engines
from tests.engines.watching.strangers import V, said, tiny, written

PROMPT = [5, 6, 7, 8, 5, 6, 7, 8, 5, 6]
OTHER = [9, 10, 11, 12, 9, 10, 11, 12, 9, 10]


def wavering(*names, **more):
    """A network that is not sure, so that beams take each other's place."""
    model = tiny(*names, **more)
    with torch.no_grad():
        model.lm_head.weight.div_(30)
    return model


def ends(trace):
    """The text of each branch by what the steps tell, with what became of it."""
    texts, last = {}, {}
    for step in trace.steps:
        before = dict(texts)
        for one in step.branches or []:
            grown = before.get(one.parent if one.parent >= 0 else one.id, [])
            texts[one.id], last[one.id] = [*grown, *one.tokens], one.fate
    return [(texts[number], fate) for number, fate in last.items()]


def searched(model, prompts, **more):
    x = torch.tensor(prompts)
    more |= {"num_beams": 3, "max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
    with engines.watch(model) as seen:
        out = model.generate(x, attention_mask=torch.ones_like(x), **more)
    return seen.traces(out), out.tolist()


@pytest.mark.parametrize("prompts", [[PROMPT], [PROMPT, OTHER]], ids=["one", "two"])
@pytest.mark.parametrize("returned", [1, 2])
@pytest.mark.parametrize("cache", [{}, {"cache_implementation": "static"}, {"use_cache": False}], ids=str)
@pytest.mark.parametrize("window", [None, 6])
def test_beams_are_seen_in_every_cache_that_keeps_the_newest_row(prompts, returned, cache, window):
    """Behind a sliding window, too, whose cache holds fewer rows than the text has."""
    model = wavering("Mistral", sliding_window=window)
    traces, out = searched(model, prompts, num_return_sequences=returned, **cache)
    assert len(traces) == len(prompts)
    for trace, prompt, text in zip(traces, prompts, out[::returned], strict=True):
        assert trace.header.prompt_ids == prompt and prompt + trace.output_ids == text
        assert [text for text, fate in ends(trace) if fate == "chosen"] == [trace.output_ids[:-1]]
        assert "grew from which" not in said(trace)
        for step, token in zip(trace.steps, trace.output_ids, strict=True):
            with torch.no_grad():
                z = model(torch.tensor([[*prompt, *trace.output_ids[: step.index]]])).logits[0, -1]
            assert step.commits.probabilities == [pytest.approx(float(z.softmax(-1)[token]), abs=1e-4)]


def mamba():
    torch.manual_seed(0)
    config = transformers.MambaConfig(vocab_size=V, hidden_size=16, num_hidden_layers=1, state_size=4)
    return transformers.MambaForCausalLM(config).eval()


@pytest.mark.parametrize("prompts", [[PROMPT], [PROMPT, OTHER]], ids=["one", "two"])
@pytest.mark.parametrize("returned", [1, 3])
def test_no_branches_sums_or_probabilities_where_the_cache_is_a_state(prompts, returned):
    traces, out = searched(mamba(), prompts, num_return_sequences=returned)
    if returned == 1:
        assert [t.header.prompt_ids + t.output_ids for t in traces] == out
    for trace in traces:
        assert not any(step.branches for step in trace.steps)
        told = [p for step in trace.steps if step.commits for p in step.commits.probabilities]
        assert len(told) <= 1  # behind the prompt, where all beams are the same
        assert "grew from which is not known" in said(trace) or "does not fit" in said(trace)


class Hidden(torch.nn.Module):
    """Takes a cache in a box, which says its length and nothing else."""

    def __init__(self, model):
        super().__init__()
        self.inner, self.config = model, model.config

    def forward(self, input_ids, cache):
        return self.inner(input_ids, past_key_values=cache.held).logits


class Box:
    def __init__(self, held):
        self.held, self.get_seq_length = held, held.get_seq_length


@torch.no_grad()
def beams(model, call, cache, n=4, size=3):
    """Beam search by hand. Returns the texts, best first."""
    z = call(torch.tensor([PROMPT] * size)).log_softmax(-1)[:, -1]
    sums, texts = z[0].topk(size)
    texts = [[int(token)] for token in texts]
    for _ in range(n):
        z = call(torch.tensor([text[-1:] for text in texts]))[:, -1].log_softmax(-1)
        sums, at = (sums[:, None] + z).flatten().topk(size)
        grew = at // z.shape[1]
        cache.reorder_cache(grew)
        texts = [[*texts[a], int(token)] for a, token in zip(grew, at % z.shape[1], strict=True)]
    return [PROMPT + text for text in texts]


@pytest.mark.parametrize("detail", ["full", "light"])
def test_a_cache_that_shows_no_keys_tells_no_branches(detail):
    model, cache = Hidden(wavering()), DynamicCache()
    with engines.watch(model, detail=detail) as seen:
        texts = beams(model, lambda ids: model(ids, Box(cache)), cache)
    trace = seen.trace([texts[0]])
    assert [t for _, t, _ in written(trace)] == texts[0][len(PROMPT) :]
    assert not any(step.branches for step in trace.steps) and "grew from which is not known" in said(trace)
    assert [bool(step.commits.probabilities) for step in trace.steps] == [detail == "full", *[False] * 4]


class Packing(QuantizedLayer):
    """Packs its rows away as soon as there are three; what is packed is not rounded here."""

    def __init__(self):
        super().__init__(residual_length=3)

    def _quantize(self, tensor, axis):
        return tensor

    def _dequantize(self, packed):
        return packed


def test_a_cache_that_packs_its_rows_away_tells_no_branches():
    """The newest row is seen in some calls and not in others."""
    model, cache = wavering(), DynamicCache()
    cache.layers = [Packing() for _ in range(2)]
    with engines.watch(model) as seen:
        texts = beams(model, lambda ids: model(ids, past_key_values=cache).logits, cache)
    trace = seen.trace([texts[0]])
    assert trace.end.reason == "complete" and trace.output_ids == texts[0][len(PROMPT) :]
    assert not any(step.branches for step in trace.steps) and "grew from which is not known" in said(trace)


@pytest.mark.parametrize("detail", ["full", "light"])
def test_without_an_output_the_likeliest_path_is_shown_where_it_is_known(detail):
    model, cache = wavering(), DynamicCache()
    with engines.watch(model, detail=detail) as seen:
        beams(model, lambda ids: model(ids, past_key_values=cache).logits, cache)
    trace = seen.traces()[0]
    assert (len(trace.output_ids) > 0) == (detail == "full") == ("largest sum of log" in said(trace))
    assert math.isfinite(trace.totals.model_seconds)
