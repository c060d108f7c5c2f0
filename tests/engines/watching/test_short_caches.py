"""Caches that hold fewer rows than the text has: a call goes on behind the last row that is there, whatever was dropped
before it; only a cache that was cropped takes the text back."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DynamicCache

import engines
from tests.engines.watching.strangers import PLAIN, best, followed, tiny, written

PROMPT = [5, 6, 7, 8, 9, 10]


@pytest.fixture(scope="module")
def model():
    return tiny()


def keep(cache, rows):
    """Leaves these rows in the cache."""
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys[:, :, rows], layer.values[:, :, rows]


def sinks(n, recent=3):
    return [0, 1, *range(max(2, n - recent), n)]


def heavy(n):
    """Every second one, and the newest."""
    return [*range(0, n - 1, 2), n - 1]


def only(n):
    return [n - 1]


@torch.no_grad()
def streamed(model, prompt, policy, *, n=7, positions=None, when=range(9)):
    """Greedy decoding; after the calls of `when` the cache is left with the rows of `policy`. positions: those of the
    text, those in the cache, or none."""
    text, cache, fed = list(prompt), DynamicCache(), list(prompt)
    for step in range(n):
        start = {"text": len(text) - len(fed), "cache": cache.get_seq_length()}.get(positions)
        at = {} if start is None else {"position_ids": torch.arange(start, start + len(fed))[None]}
        fed = best(model(torch.tensor([fed]), past_key_values=cache, **at))[0].tolist()
        text += fed
        if step in when:
            keep(cache, policy(cache.get_seq_length()))
    return torch.tensor([text])


@pytest.mark.parametrize("policy", [sinks, heavy, only])
@pytest.mark.parametrize("positions", [None, "text", "cache"])
@pytest.mark.parametrize("when", [range(9), range(1), range(3, 9)], ids=["all", "prompt", "late"])
def test_a_cache_that_drops_old_rows_is_no_other_prompt(model, policy, positions, when):
    """Sinks and a window, heavy hitters, a prompt that is compressed once."""
    trace, out = followed(model, lambda: streamed(model, PROMPT, policy, positions=positions, when=when))
    assert trace.header.prompt_ids == PROMPT and len(trace.steps) == 7
    assert written(trace) == [(p, t, "written") for p, t in enumerate(out[0].tolist()) if p >= 6]
    assert all(p > 0.1 for step in trace.steps for p in step.commits.probabilities)


class Rolling(torch.nn.Module):
    """Takes and gives tuples of keys and values, of which it keeps the newest few; hidden: in a box that says their
    number alone."""

    def __init__(self, size, hidden=False):
        super().__init__()
        self.inner, self.size, self.hidden = tiny(), size, hidden
        self.config = self.inner.config

    def forward(self, input_ids, past_key_values=None):
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(past_key_values or ()):
            cache.update(keys, values, layer)
        out = self.inner(input_ids, past_key_values=cache)
        kept = [(layer.keys[:, :, -self.size :], layer.values[:, :, -self.size :]) for layer in cache.layers]
        out.past_key_values = Held(kept) if self.hidden else tuple(kept)
        return out


class Held:
    """Rows that nobody sees."""

    def __init__(self, rows):
        self._rows = rows

    def __iter__(self):
        return iter(self._rows)

    def get_seq_length(self):
        return self._rows[0][0].shape[2]


@pytest.mark.parametrize("size", [4, 6, 8])
@pytest.mark.parametrize("hidden", [False, True])
def test_a_rolling_buffer_that_stays_as_long_as_it_is(size, hidden):
    model = Rolling(size, hidden)

    def loop():
        x, cache, fed = torch.tensor([PROMPT]), None, torch.tensor([PROMPT])
        for _ in range(6):
            out = model(fed, cache)
            cache, fed = out.past_key_values, best(out)
            x = torch.cat([x, fed], 1)
        return x

    trace, out = followed(model, loop)
    assert written(trace) == [(p, t, "written") for p, t in enumerate(out[0].tolist()) if p >= 6]


@torch.no_grad()
def drafted(model, oracle, prompt, plan, policy):
    """Drafts behind a cache that drops old rows: of each call how many drafts are right and how many there are."""
    text, cache, fed = list(prompt), DynamicCache(), list(prompt)
    kept = []
    for right, size in plan:
        more = list(text)
        for _ in range(size):
            more.append(int(best(oracle(torch.tensor([more]), use_cache=False))))
        drafts = more[len(text) :][: min(right, size)]
        drafts += [3] * (size - len(drafts))
        z = model(torch.tensor([fed + drafts]), past_key_values=cache).logits[0, len(fed) - 1 :].argmax(-1).tolist()
        n = next((i for i, token in enumerate(drafts) if token != z[i]), len(drafts))
        cache.crop(n - len(drafts))
        text, fed, kept = [*text, *drafts[:n], z[n]], [z[n]], [*kept, n]
        keep(cache, policy(cache.get_seq_length()))
    return text, kept


@pytest.mark.parametrize("policy", [sinks, heavy, only])
def test_drafts_behind_a_cache_that_drops_old_rows(model, policy):
    with engines.watch(model, prompt=PROMPT) as seen:
        text, kept = drafted(model, tiny(), PROMPT, [(0, 0), (2, 3), (0, 2), (1, 1), (3, 3)], policy)
    trace = seen.trace([text])
    assert trace.end.reason == "complete" and 0 < sum(kept) < 9
    assert [(p, t) for p, t, _ in written(trace)] == list(enumerate(text))[6:]
    assert [cause for _, _, cause in written(trace)].count("accepted") == sum(kept)


def test_keys_that_the_loop_turned_are_those_of_no_older_row(model):
    """A window whose rotations are counted anew each time, by the loop; several tokens at once are not guessed."""

    def turned():
        text, cache, fed = list(PROMPT), DynamicCache(), torch.tensor([PROMPT])
        for _ in range(5):
            fed = best(model(fed, past_key_values=cache))
            text.append(int(fed))
            keep(cache, sinks(cache.get_seq_length()))
            for layer in cache.layers:
                layer.keys = layer.keys * 1.01
        return torch.tensor([text])

    trace, out = followed(model, turned)
    assert written(trace) == [(p, t, "written") for p, t in enumerate(out[0].tolist()) if p >= 6]


@pytest.mark.parametrize("late", [False, True])
def test_a_cache_that_was_cropped_takes_the_text_back(model, late):
    """Also one that had dropped old rows before."""
    cache = DynamicCache()
    with engines.watch(model) as seen, torch.no_grad():
        for fed in (PROMPT, [20], [21], [22]):
            model(torch.tensor([fed]), past_key_values=cache)
            if late:
                keep(cache, sinks(cache.get_seq_length(), 4))
        cache.crop(-2)
        model(torch.tensor([[23]]), past_key_values=cache)
    trace = seen.trace([*PROMPT, 20, 23, 24])
    found = [(p, t) for p, t, _ in written(trace)]
    assert found == [(6, 20), (7, 21), (8, 22), (7, -1), (7, 23), (8, 24)] and "prompt" not in trace.end.message


STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6)
PROMPTS = st.lists(st.integers(3, 38), min_size=2, max_size=7)
POLICIES = st.sampled_from([sinks, heavy, only, range])


def is_read_as_drafted(model, prompt, plan, policy):
    with engines.watch(model, prompt=prompt) as seen:
        text, kept = drafted(model, tiny(), prompt, plan, policy)
    trace = seen.trace([text])
    assert trace.end.reason == "complete", trace.end.message
    assert [(p, t) for p, t, _ in written(trace)] == list(enumerate(text))[len(prompt) :]
    assert [cause for _, _, cause in written(trace)].count("accepted") == sum(kept)


@given(PROMPTS, STEPS, POLICIES)
@settings(PLAIN, max_examples=100)
def test_every_loop_of_drafts_is_read_whatever_its_cache_drops(model, prompt, plan, policy):
    is_read_as_drafted(model, prompt, plan, policy)


@pytest.mark.loops
@given(PROMPTS, STEPS, POLICIES)
@settings(PLAIN, max_examples=6000)
def test_many_loops_of_drafts_are_read_whatever_their_cache_drops(model, prompt, plan, policy):
    is_read_as_drafted(model, prompt, plan, policy)
