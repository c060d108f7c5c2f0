"""Read-ME: experts' channels, the router, caches on one stream. Masks, ranks and batches are golden cases."""

import random

import pytest
import torch

import engines
from engines.core.kinds.layered import Taps
from engines.methods.routing.read_me.experts import (
    FREE,
    HIT,
    LOOKAHEAD,
    LRU,
    NEVER,
    RANDOM,
    Cache,
    channel_ranks,
    label,
    masks,
)
from engines.models.networks.exits import Past
from engines.models.networks.pregate import router_of
from engines.models.parts import load_part
from tests.engines.fakes import board

STORY = "story: Mia, boat"


def served(requests, c, rule, window=NEVER, rng=None):
    cache = Cache(c, rule, window, rng)
    return [cache.ask(expert, requests[i + 1 :]) for i, expert in enumerate(requests)]


def model():
    return engines.load_model("tiny-ar-m", dtype="float32")


def cut():
    return load_part("domain-experts", [model().record])


def decode(prompt="add: 45 + 86", slug="read-me", edits=(), **params):
    return engines.run(slug, model(), prompt, params={"max_new_tokens": 24, **params}, edits=edits)


def asked_for(trace):
    """The experts of all rows, in order; one serves all layers of a row."""
    chosen = [step.routing[0].chosen.array() for step in trace.steps]
    assert all(bool((rows == rows[:, :1]).all()) and rows.shape[1] == 6 for rows in chosen)
    return [expert for rows in chosen for expert in rows[:, 0, 0].tolist()]


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
    ids = llm.tokenizer.encode_prompt(STORY)
    with torch.no_grad():
        said, changed = (router(llm.embed(x)) for x in (ids, [*ids[:-1], 30]))
    assert torch.allclose(said[:-1], changed[:-1], atol=1e-5) and not torch.allclose(said[-1], changed[-1], atol=1e-3)


def test_labels_are_shares_and_prefer_the_expert_whose_channels_a_token_uses():
    mask = masks(channel_ranks(torch.rand(3, 40, generator=torch.Generator().manual_seed(0))), 0.5)
    shares = label(mask[2].float()[None] + 0.01, mask)
    assert float(shares.sum()) == pytest.approx(1) and int(shares.argmax()) == 2


def test_looking_at_the_whole_future_is_never_beaten_and_nothing_misses_where_all_fit():
    for seed in range(30):
        rng = random.Random(seed)
        stream, c = [rng.randrange(5) for _ in range(60)], rng.randint(1, 4)

        def hits(rule, window=NEVER, stream=stream, c=c):
            return served(stream, c, rule, window, torch.Generator().manual_seed(0)).count(HIT)

        best = hits(LOOKAHEAD)
        assert best >= max(hits(LRU), hits(RANDOM), *(hits(LOOKAHEAD, w) for w in (0, 1, 4, 16)))
        for rule in (LRU, LOOKAHEAD, RANDOM):
            all_fit = served(stream, 5, rule, NEVER, torch.Generator())
            assert (all_fit.count(FREE), all_fit.count(HIT)) == (len(set(stream)), 60 - len(set(stream)))


def test_the_cache_never_changes_the_text_and_what_it_holds_follows_from_the_requests():
    one, *others = (decode(STORY, slots=slots) for slots in (1, 2, 8))
    assert all(trace.output_ids == one.output_ids for trace in others)
    lanes, names = [i for s in one.steps for i in s.intervals if i.track == "lru: 1"], cut().card["domains"]
    held = [names.index(i.label.split(":")[0]) for i in lanes for _ in range(int(i.start), int(i.end))]
    assert held == asked_for(one)  # with one slot it holds what was asked for last


def test_all_channels_are_the_dense_model_and_half_of_them_are_not_promised():
    for prompt in ("add: 45 + 86", STORY):
        dense = decode(prompt, keep=1.0)
        assert dense.output_ids == decode(prompt, "greedy").output_ids == board(dense)
        assert {s.facts["active_share"] for s in dense.steps} == {1.0}
    assert max(s.facts["active_share"] for s in decode(STORY, keep=0.5).steps) < 0.5


def test_the_prompt_is_routed_before_the_model_runs():
    trace = decode("sort: Zoe, Mia, Leo")
    n, spans, last = len(trace.header.prompt_ids), trace.steps[0].spans, trace.steps[-1].facts
    assert spans[0].start == 0 and spans[-1].end == n
    experts = asked_for(trace)
    assert len(experts) == last["requests"] == n + len(trace.steps) - 1
    assert last["hits_lru"] == served(experts, 2, LRU).count(HIT)


def test_an_expert_that_is_none_and_a_model_that_was_not_cut_are_refused():
    with pytest.raises(engines.UserError, match="there are 3 experts"):
        decode(fixed=9)
    with pytest.raises(engines.UserError, match="domain-experts tiny-ar-l"):
        engines.run("read-me", "tiny-ar-l", "add: 4 + 5")


def test_the_router_is_counted_and_reads_only_what_is_new():
    """A row of one layer for each token, once; its logits are those of a router that reads the whole text."""
    trace = decode(temperature=1.0)
    prompt, steps = trace.header.prompt_ids, trace.steps
    assert [step.work["router"] for step in steps] == [len(prompt), *[1] * (len(steps) - 1)]
    assert trace.totals.forwards_by_role["router"] == trace.totals.forwards_by_role["target"] == len(steps)
    router, e, past = router_of(cut()), model().embed([*prompt, *trace.output_ids[:-1]]), Past()
    parts = torch.cat([router(e[:5], past), router(e[5:6], past), router(e[6:], past)])
    assert torch.allclose(parts, router(e), atol=1e-5) and past.length == len(e)
    edits = [(8, engines.Edit(force={len(prompt) + 3: trace.output_ids[0]}))]
    work = decode(temperature=1.0, edits=edits).steps[9].work
    assert work["router"] == work["target"] // model().num_layers == 1
