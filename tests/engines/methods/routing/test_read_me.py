"""Read-ME: masks and permanent channels, a router that reads the past alone, caches on one stream, and what is
refused."""

import random

import pytest
import torch

import engines
from engines.core.kinds.layered import Taps
from engines.methods.routing.read_me.experts import (
    BELADY,
    FREE,
    HIT,
    LOOKAHEAD,
    LRU,
    NEVER,
    RANDOM,
    batch_of,
    channel_ranks,
    label,
    masks,
    permanent,
    served,
)
from engines.models.exits import Past
from engines.models.networks.pregate import router_of
from engines.models.parts import load_part
from tests.engines.fakes import board

MODEL = "tiny-ar-m"


def model():
    return engines.load_model(MODEL, dtype="float32")


def cut():
    return load_part("domain-experts", [model().record])


def decode(prompt="add: 45 + 86", slug="read-me", edits=(), **params):
    return engines.run(slug, model(), prompt, params={"max_new_tokens": 24, **params}, edits=edits)


@pytest.mark.parametrize("keep", [0.5, 0.7, 0.85, 0.95])
def test_own_and_permanent_channels_are_apart_and_make_up_the_mask(keep):
    ranks = cut().tensors["ranks"]
    mask = masks(ranks, keep)
    common, F = permanent(mask), ranks.shape[-1]
    own = mask & ~common
    assert not (own & common).any() and bool(((own | common) == mask).all())
    assert bool((mask.sum(-1) == int(keep * F) - 1).all())
    assert bool(masks(ranks, 1.0).all())


def test_ranks_put_the_busiest_first_and_the_lower_channel_where_equal():
    assert channel_ranks(torch.tensor([[0.2, 0.9, 0.9, 0.1]])).tolist() == [[2, 0, 1, 3]]


def test_each_row_gets_the_channels_of_its_own_expert():
    llm, mask = model(), masks(cut().tensors["ranks"], 0.5)
    ids = llm.tokenizer.encode_prompt("add: 45 + 86")
    experts, seen = [i % len(mask) for i in range(len(ids))], []
    for queued in (experts, [0] * len(ids)):
        taps = Taps(channels=lambda layer, u, m=mask[queued]: u * m[:, layer])
        seen.append(llm.layers(llm.embed(ids), llm.new_cache(len(ids)), 0, llm.num_layers, taps=taps))
    assert torch.allclose(seen[0][0], seen[1][0], atol=1e-5)  # the first token has expert 0 both times
    assert not torch.allclose(seen[0][1], seen[1][1], atol=1e-3)


def test_the_router_sees_earlier_tokens_alone():
    llm, router = model(), router_of(cut())
    ids = llm.tokenizer.encode_prompt("story: Mia, boat")
    with torch.no_grad():
        said, changed = (router(llm.embed(x)) for x in (ids, [*ids[:-1], 30]))
    assert torch.allclose(said[:-1], changed[:-1], atol=1e-5) and not torch.allclose(said[-1], changed[-1], atol=1e-3)


def test_labels_are_shares_and_prefer_the_expert_whose_channels_a_token_uses():
    mask = masks(channel_ranks(torch.rand(3, 40, generator=torch.Generator().manual_seed(0))), 0.5)
    own = mask[2].float()[None] + 0.01
    shares = label(own, mask)
    assert float(shares.sum()) == pytest.approx(1) and int(shares.argmax()) == 2


def test_belady_is_never_beaten_and_nothing_misses_where_all_fit():
    for seed in range(30):
        rng = random.Random(seed)
        stream, c = [rng.randrange(5) for _ in range(60)], rng.randint(1, 4)

        def hits(rule, window=NEVER, stream=stream, c=c):
            return served(stream, c, rule, window, torch.Generator().manual_seed(0)).count(HIT)

        best = hits(BELADY)
        assert best >= max(hits(LRU), hits(RANDOM), *(hits(LOOKAHEAD, w) for w in (0, 1, 4, 16)))
        assert hits(LOOKAHEAD) == best
        assert {served(stream, 5, rule, NEVER, torch.Generator()).count(FREE) for rule in (LRU, BELADY, RANDOM)} == {
            len(set(stream))
        }
        assert served(stream, 5, LRU).count(HIT) == 60 - len(set(stream))


def test_a_batch_holds_what_fits_and_nothing_twice():
    for seed in range(20):
        rng = random.Random(seed)
        queues = [[f"{e}.{i}" for i in range(rng.randint(0, 6))] for e in range(4)]
        capacity, total = rng.randint(1, 12), sum(map(len, queues))
        batch, taken = batch_of(queues, capacity)
        assert len(batch) == len(set(batch)) == min(capacity, total) == sum(n for _, n in taken)
        assert all(name in queues[int(name[0])] for name in batch)


@pytest.mark.parametrize("slots", [1, 2, 8])
def test_the_cache_never_changes_the_text(slots):
    assert decode("story: Mia, boat", slots=slots).output_ids == decode("story: Mia, boat").output_ids


def test_all_channels_are_the_dense_model_and_half_of_them_are_not_promised():
    for prompt in ("add: 45 + 86", "story: Mia, boat"):
        dense = decode(prompt, keep=1.0)
        assert dense.output_ids == decode(prompt, "greedy").output_ids == board(dense)
        assert {s.facts["active_share"] for s in dense.steps} == {1.0}
    half = decode("story: Mia, boat", keep=0.5)
    assert max(s.facts["active_share"] for s in half.steps) < 0.5


def test_the_prompt_is_routed_before_the_model_runs_and_one_expert_serves_all_layers():
    trace = decode("sort: Zoe, Mia, Leo")
    first = trace.steps[0]
    n = len(trace.header.prompt_ids)
    assert next((s.start, s.end) for s in first.spans)[0] == 0 and first.spans[-1].end == n
    for step in trace.steps:
        (routing,) = step.routing
        chosen = routing.chosen.array()
        assert bool((chosen == chosen[:, :1]).all()) and chosen.shape[:2] == (len(routing.positions), 6)
    served_ = [e for s in trace.steps for e in s.routing[0].chosen.array()[:, 0, 0].tolist()]
    assert len(served_) == trace.steps[-1].facts["requests"] == n + len(trace.steps) - 1
    assert trace.steps[-1].facts["hits_lru"] == served(served_, 2, LRU).count(HIT)


def test_what_the_slots_hold_follows_from_the_requests():
    trace = decode("story: Mia, boat", slots=1)
    lanes = [i for s in trace.steps for i in s.intervals if i.track == "lru: 1"]
    names = cut().card["domains"]
    asked = [e for s in trace.steps for e in s.routing[0].chosen.array()[:, 0, 0].tolist()]
    held = [names.index(i.label.split(":")[0]) for i in lanes for _ in range(int(i.start), int(i.end))]
    assert held == asked  # with one slot it holds what was asked for last


def test_an_expert_that_is_none_and_a_model_that_was_not_cut_are_refused():
    with pytest.raises(engines.UserError, match="there are 3 experts"):
        decode(fixed=9)
    with pytest.raises(engines.UserError, match="domain-experts tiny-ar-l"):
        engines.run("read-me", "tiny-ar-l", "add: 4 + 5")


def test_the_router_is_counted_and_reads_only_what_is_new():
    """A row of one layer for each token, once; after an edit those behind it again. Its logits are those of a router
    that reads the whole text."""
    trace = decode(temperature=1.0)
    rows = [len(trace.header.prompt_ids), *[1] * (len(trace.steps) - 1)]
    assert [step.work["router"] for step in trace.steps] == rows
    assert trace.totals.forwards_by_role["router"] == trace.totals.forwards_by_role["target"] == len(trace.steps)
    router, ids = router_of(cut()), [*trace.header.prompt_ids, *trace.output_ids[:-1]]
    e = model().embed(ids)
    past = Past()
    parts = torch.cat([router(e[:5], past), router(e[5:6], past), router(e[6:], past)])
    assert torch.allclose(parts, router(e), atol=1e-5) and past.length == len(ids)
    at = len(trace.header.prompt_ids) + 3
    forced = decode(temperature=1.0, edits=[(8, engines.Edit(force={at: trace.output_ids[0]}))])
    assert forced.steps[9].work["router"] == forced.steps[9].work["target"] // model().num_layers == 1
