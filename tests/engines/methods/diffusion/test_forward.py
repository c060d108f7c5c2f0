"""Prefix and dual cache: what is fed and what is old, when they change nothing, and what an edit does to them.

`Remembering` looks one step far: the distribution of a position comes from the tokens around it, each as it was when it
was last fed. Between two starts of a block only fed tokens change, so its cached runs must be its plain ones, edits
included; a wrong row or an old token shows at once."""

import pytest
import torch

import engines
from engines.core.kinds import CachedMaskedLM, counted
from engines.core.meter import Meter
from engines.core.trace import Edit
from tests.engines.conftest import GOLDEN
from tests.engines.fakes import Remembering, TableMasked, commits

P, G = 3, 24
L = P + G
KINDS = ["prefix", "dual"]
SLUGS = {
    "threshold": {},
    "factor": {"factor": 0.5},
    "llada": {"steps": 12},
    "dream": {"steps": 12},
    "dream-threshold": {"steps": 12, "threshold": 0.6},
    "learn2pd": {"accept_thres": 1.0, "eotp": False},
}
SLOW = {  # one token per forward, or nearly
    "threshold": {"threshold": 1.01},
    "factor": {"factor": 0.0},
    "dream": {"steps": 24},
    "dream-threshold": {"steps": 24, "threshold": 1.01},
    "learn2pd": SLUGS["learn2pd"],
}


def decode(slug, cache, *, shift=False, seed=0, b=8, edits=(), model=None, **params):
    model = model or Remembering(shift, seed=seed)
    return engines.run(
        slug,
        model,
        [1, 2, 3],
        params={"max_new_tokens": G, "block_length": b, "cache": cache, **{**SLUGS[slug], **params}},
        edits=edits,
    )


def fed(trace):
    return [next((s.start, s.end) for s in step.spans if s.kind == "fed") for step in trace.steps]


def expected(trace, kind, shift):
    """The whole board at the start of every block, then the block with what is behind it, or alone."""
    blocks = [next((s.start, s.end) for s in step.spans if s.kind == "block") for step in trace.steps]
    starts = [i == 0 or blocks[i] != blocks[i - 1] for i in range(len(blocks))]
    return [
        (0, L) if new else (a - shift, b if kind == "dual" else L) for new, (a, b) in zip(starts, blocks, strict=True)
    ]


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slug", SLUGS)
def test_a_short_sighted_model_writes_the_same_with_fewer_tokens(slug, kind, shift):
    for seed, b in enumerate((4, 8, 24)):
        model = Remembering(shift, seed=seed)
        plain, cached = (decode(slug, cache, seed=seed, b=b, model=model) for cache in ("none", kind))
        assert commits(cached) == commits(plain) and cached.totals.forwards == plain.totals.forwards
        assert fed(cached) == expected(cached, kind, shift) == model.fed
        assert [s.tokens_fed for s in cached.steps] == [end - start for start, end in fed(cached)]
        assert cached.totals.tokens_fed < plain.totals.tokens_fed == L * plain.totals.forwards


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("slug", ["dream", "dream-threshold", "dimple"])
def test_one_block_is_fed_whole_once_and_then_the_answer(slug, shift):
    """Dream as it is, and Dimple's prefilling: behind the first forward the answer is fed, and where rows are shifted
    the last prompt token."""
    params = {"max_new_tokens": G, "steps": 12, **({"alg_p_threshold": 0.6} if slug == "dimple" else {})}
    for seed, hot in enumerate(({}, {"temperature": 0.8})):
        model = Remembering(shift, seed=seed)
        given = [{**params, **hot, "cache": cache} for cache in ("none", "prefix")]
        plain, cached = (engines.run(slug, model, [1, 2, 3], params=one) for one in given)
        assert commits(cached) == commits(plain) and len(cached.steps) > 2
        assert fed(cached) == [(0, L), *[(P - shift, L)] * (len(cached.steps) - 1)] == model.fed


@pytest.mark.parametrize(("slug", "steps"), [("dream", 12), ("dream-threshold", 12), ("dream-threshold", 3)])
def test_blocks_are_filled_from_the_left_each_with_its_share_of_the_steps(slug, steps):
    trace = decode(slug, "none", steps=steps)
    blocks = [next((s.start, s.end) for s in step.spans if s.kind == "block") for step in trace.steps]
    written = [(q, block) for c, block in zip(commits(trace), blocks, strict=True) for q in c]
    assert blocks == sorted(blocks) and all(a <= q < b for q, (a, b) in written)
    assert sorted(q for q, _ in written) == list(range(P, L))
    assert slug != "dream" or all(blocks.count(block) == steps // 3 for block in set(blocks))
    whole = commits(decode(slug, "none", b=0, steps=steps))
    assert whole == commits(decode(slug, "none", b=24, steps=steps)) != commits(trace)
    if steps == 3:  # one per block: Fast-dLLM's own rule
        assert commits(trace) == commits(decode("threshold", "none", threshold=0.6))


@pytest.mark.parametrize(
    ("edit", "shift"),
    [
        (Edit(force={4: 7}), False),
        (Edit(remask=[4]), True),
        (Edit(force={20: 7}), True),
        (Edit(remask=[5, 12], force={6: 1}), False),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slug", SLOW)
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
    edits = [(at, Edit(params={"cache": kind})) for at, kind in ((2, "dual"), (4, "prefix"), (5, "none"))]
    trace = decode("threshold", "none", threshold=1.01, edits=edits)
    assert commits(trace) == commits(decode("threshold", "none", threshold=1.01))
    assert [s.tokens_fed for s in trace.steps[:7]] == [L, L, L, L, 8, L - P, L]


def test_what_cannot_be_cached_is_refused_with_a_sentence():
    with pytest.raises(engines.UserError, match=r"encoder.*set cache=none"):
        whole = engines.load_model(GOLDEN / "diffusion" / "stubs" / "a", kind="masked", mask_id=63, shift=False)
        engines.run("threshold", whole, [1, 7, 5], params={"max_new_tokens": 8, "cache": "dual"})
    for slug in ("threshold", "dream", "dream-threshold", "dimple"):
        with pytest.raises(engines.UserError, match="keeps no keys and values"):
            engines.run(slug, TableMasked(), [1, 2, 3], params={"max_new_tokens": G, "cache": "prefix"})
    for slug, cache, params, sentence in (
        ("dream", "none", {"b": 7}, "block_length=7 must divide max_new_tokens=24"),
        ("dream-threshold", "none", {"steps": 4}, "the number of blocks=3 must divide steps=4"),
        ("llada", "dual", {"cfg_scale": 1.0}, "cache=dual and cfg_scale=1 do not go together"),
    ):
        with pytest.raises(engines.UserError, match=sentence):
            decode(slug, cache, **params)


def test_the_meter_counts_what_was_fed_and_edits_reach_every_row():
    meter = Meter(forbidden={5: {7}})
    model = counted(Remembering(), "model", meter)
    assert isinstance(model, CachedMaskedLM)
    cache, x = model.new_cache(8), torch.full((8,), 11)
    whole, part = model.feed(x, cache, 0, 8), model.feed(x, cache, 4, 7)
    assert (meter.forwards, meter.tokens_fed) == ({"model": 2}, 8 + 3)
    assert whole[5, 7] == part[1, 7] == -torch.inf and torch.equal(whole[4:7], part)
