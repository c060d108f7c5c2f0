"""Prefix and dual cache: what is fed and what is old, when they change nothing, and what an edit does to them.

`Remembering` looks one step far: the law of a position comes from the tokens around it, each as it was when it was last fed. Between two starts of
a block only fed tokens change, so its cached runs must be its plain ones, edits included; a wrong row or an old token shows at once.
"""

import pytest
import torch

import engines
from engines.core.counting import counted
from engines.core.events import Edit
from engines.core.models import CachedMaskedLM, Meter
from tests.engines.conftest import GOLDEN
from tests.engines.fakes import TableMasked, TokenCache, commits, lane

P, G = 3, 24
L = P + G
KINDS = ["prefix", "dual"]
SLUGS = {"threshold": {}, "factor": {"factor": 0.5}, "llada": {"steps": 12}}
SLOW = {"threshold": {"threshold": 1.01}, "factor": {"factor": 0.0}, "llada": {"steps": 24}}  # one token per forward, or nearly


class Remembering(TableMasked):
    """Feeds parts of a board. `fed`: the ranges; with `shift` the first row of a part is worthless, and certain of token 0."""

    def __init__(self, shift=False, **table):
        super().__init__(**table)
        self.shift, self.fed = shift, []

    def new_cache(self, capacity):
        return TokenCache(capacity)

    def feed(self, x, cache, start, end):
        if end - start < len(x) != cache.length:
            raise ValueError("the whole board first")
        self.fed.append((start, end))
        cache.tokens[start:end] = x[start:end].tolist()
        z = self(torch.tensor(cache.tokens))[start:end]
        if self.shift and start:
            z[0] = torch.where(torch.arange(self.vocab_size) == 0, 99.0, -torch.inf)
        return z


def decode(slug, cache, *, shift=False, seed=0, b=8, edits=(), model=None, **params):
    model = model or Remembering(shift, seed=seed)
    return engines.run(slug, model, [1, 2, 3], params={"max_new_tokens": G, "block_length": b, "cache": cache, **{**SLUGS[slug], **params}}, edits=edits)


def fed(trace):
    return [next((s.start, s.end) for s in step.spans if s.kind == "fed") for step in trace.steps]


def expected(trace, kind, shift):
    """The whole board at the start of every block, then the block with what is behind it, or alone."""
    blocks = [next((s.start, s.end) for s in step.spans if s.kind == "block") for step in trace.steps]
    starts = [i == 0 or blocks[i] != blocks[i - 1] for i in range(len(blocks))]
    return [(0, L) if new else (a - shift, b if kind == "dual" else L) for new, (a, b) in zip(starts, blocks, strict=True)]


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slug", SLUGS)
def test_a_short_sighted_model_writes_the_same_with_fewer_tokens(slug, kind, shift):
    for seed in range(3):
        for b in (4, 8, 24):
            model = Remembering(shift, seed=seed)
            plain, cached = (decode(slug, cache, seed=seed, b=b, model=model) for cache in ("none", kind))
            assert commits(cached) == commits(plain) and cached.totals.forwards == plain.totals.forwards
            assert fed(cached) == expected(cached, kind, shift) == model.fed
            assert [s.tokens_fed for s in cached.steps] == [end - start for start, end in fed(cached)]
            assert cached.totals.tokens_fed < plain.totals.tokens_fed == L * plain.totals.forwards


@pytest.mark.parametrize("kind", KINDS)
def test_fed_and_old_positions_make_up_the_board(kind):
    for step in decode("threshold", kind, shift=True).steps:
        spans = sorted((s.start, s.end, s.kind) for s in step.spans if s.kind in ("fed", "cache"))
        assert [a for a, _, _ in spans] == [0, *(b for _, b, _ in spans[:-1])] and spans[-1][1] == L
        assert {s.label for s in step.spans if s.kind != "block"} == {kind}
        shown = lane(step, "confidence")
        start, end = next((a, b) for a, b, what in spans if what == "fed")
        assert all(start <= q < end for q in shown)


@pytest.mark.parametrize("edit", [Edit(force={4: 7}), Edit(remask=[4]), Edit(force={20: 7}), Edit(remask=[5, 12], force={6: 1})], ids=str)
@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slug", SLUGS)
def test_an_edit_behind_the_cache_feeds_the_whole_board(slug, kind, shift, edit):
    """In the middle of the second block, before and behind it: an old token would be seen by its neighbours."""
    plain, cached = (decode(slug, cache, shift=shift, edits=[(10, edit)], **SLOW[slug]) for cache in ("none", kind))
    assert commits(cached) == commits(plain)
    touched = [*edit.force, *edit.remask]
    outside = min(touched) < P + 8 or (kind == "dual" and max(touched) >= P + 16)
    assert (fed(cached)[11] == (0, L)) == outside
    if outside:
        assert "the whole board is fed" in cached.steps[11].note


def test_a_cache_can_be_switched_on_and_off_on_the_way():
    edits = [(2, Edit(params={"cache": "dual"})), (4, Edit(params={"cache": "prefix"})), (5, Edit(params={"cache": "none"}))]
    trace = decode("threshold", "none", threshold=1.01, edits=edits)
    assert commits(trace) == commits(decode("threshold", "none", threshold=1.01))
    assert [s.tokens_fed for s in trace.steps[:7]] == [L, L, L, L, 8, L - P, L]


def stub(name):
    return engines.load_model(str(GOLDEN / "diffusion" / "stubs" / name), kind="masked", mask_id=63, shift=False)


@pytest.mark.parametrize("kind", KINDS)
def test_one_block_differs_only_behind_its_first_forward_and_one_forward_not_at_all(kind):
    """Invariant 6 of the card, on a trained network."""
    model, prompt = stub("l"), [1, 7, 15, 14, 9, 15, 5]

    def run(cache, b, theta):
        params = {"max_new_tokens": 32, "block_length": b, "threshold": theta, "cache": cache}
        return engines.run("threshold", model, prompt, params=params)

    plain, cached = run("none", 32, 0.8), run(kind, 32, 0.8)
    assert cached.steps[0].commits == plain.steps[0].commits and cached.steps[0].scores == plain.steps[0].scores
    assert cached.steps[1].scores != plain.steps[1].scores  # the prompt's keys and values are old
    plain, cached = run("none", 8, 0.0), run(kind, 8, 0.0)
    assert [s.commits for s in cached.steps] == [s.commits for s in plain.steps] and cached.totals.tokens_fed == plain.totals.tokens_fed


def test_what_cannot_be_cached_is_refused_with_a_sentence():
    with pytest.raises(engines.UserError, match=r"encoder.*set cache=none"):
        engines.run("threshold", stub("a"), [1, 7, 5], params={"max_new_tokens": 8, "cache": "dual"})
    with pytest.raises(engines.UserError, match="keeps no keys and values"):
        decode("threshold", "prefix", model=TableMasked())
    with pytest.raises(engines.UserError, match=r"cache=dual and cfg_scale=1 do not go together"):
        decode("llada", "dual", cfg_scale=1.0)


def test_the_meter_counts_what_was_fed_and_edits_reach_every_row():
    meter = Meter(forbidden={5: {7}})
    model = counted(Remembering(), "model", meter)
    assert isinstance(model, CachedMaskedLM)
    cache, x = model.new_cache(8), torch.full((8,), 11)
    whole, part = model.feed(x, cache, 0, 8), model.feed(x, cache, 4, 7)
    assert (meter.forwards, meter.tokens_fed) == ({"model": 2}, 8 + 3)
    assert whole[5, 7] == part[1, 7] == -torch.inf and torch.equal(whole[4:7], part)
