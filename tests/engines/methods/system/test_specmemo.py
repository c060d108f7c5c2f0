"""SpecMemo: buffers that are what the account says, one text for every budget, and budgets that are too small."""

import dataclasses
from functools import cache

import pytest
import torch

import engines
from engines.core.kinds import KINDS
from engines.core.meter import Meter
from engines.methods.system.specmemo.plan import TREES, Plan, leaf_paths, live_bytes, shape

MODEL = "tiny-ar-m"
MB = 1_000_000


def model():
    return engines.load_model(MODEL, dtype="float32")


def decode(prompt="story: Mia, boat", slug="specmemo", **params):
    return engines.run(slug, model(), prompt, params={"max_new_tokens": 32, **params})


@cache
def decoded(slug="specmemo", **params):
    """A run that several tests look at."""
    return decode(slug=slug, **params)


def plan(**changed):
    sizes = {"name": "m", "weights": 1000, "kv_row": 64, "number": 2, "V": 50, "n_max": 200, "start": 10, "new": 20}
    return Plan(**{**sizes, "B": 1, "whole": False, **changed})


def arena(step):
    return {i.label: i.end - i.start for i in step.intervals if i.track.startswith("arena:")}


def test_a_smaller_tree_is_part_of_a_larger_one_and_bytes_behind_tensors_are_counted_once():
    before = set()
    for T in TREES:
        parents, ranks = shape(T)
        nodes = [()]
        for parent, rank in list(zip(parents, ranks, strict=True))[1:]:
            nodes.append((*nodes[parent], rank))
        assert len(set(nodes)) == T and before < set(nodes)
        before = set(nodes)
    assert leaf_paths([-1, 0, 0, 1]) == [[0, 2, 2], [0, 1, 3]]
    z = torch.zeros(4, 5)
    assert live_bytes([z, z[1:], z[0].clone()]) == 4 * 25


def test_the_tree_grows_with_the_budget_and_what_fits_is_known_before():
    one = plan()
    totals = [one.total(T) for T in TREES]
    assert totals == sorted(totals)
    for T, total in zip(TREES, totals, strict=True):
        assert one.fit(total / MB, 32) == T == one.fit(0, T)
    assert [one.fit((total - 1) / MB, 32) for total in totals[1:]] == list(TREES[:-1])
    assert one.fit(0, 12) == 12 and one.fit(totals[-1] / MB, 12) == 12
    exact = one.total(4) / MB
    assert one.limit(4, exact) == 20 and one.limit(4, exact - 1e-4) < 20 < one.limit(4, exact + 1e-3)
    assert one.limit(4, 0) == 190
    two = plan(B=2)
    for missing in (0, 1, 500, 2000):
        budget = (two.total(8) - missing) / MB
        shorter = two.shortened(budget, 8)
        assert shorter.total(8) <= budget * MB + 1e-6 and shorter.fit(budget, 8) == 8
        if shorter.new < two.new:  # one token more would be too many
            assert dataclasses.replace(shorter, new=shorter.new + 1).total(8) > budget * MB - 1e-6


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("allocation", ["lean", "reference"])
def test_the_account_is_that_of_the_live_buffers_and_the_cache_is_allocated_once(batch, allocation, monkeypatch):
    from engines.models.layers.slots import SlotLayer

    counted, made, plain = KINDS["causal"].counted(model(), "target", Meter()), [], SlotLayer.lazy_initialization
    cache = counted.new_cache(7)
    counted.extend([5, 6], cache)
    row = cache.bytes // 7
    assert row * 7 == cache.bytes == sum(x.keys.nbytes + x.values.nbytes for x in cache.layers)
    assert counted.position_bytes == row
    monkeypatch.setattr(SlotLayer, "lazy_initialization", lambda *given: (made.append(1), plain(*given))[1])
    trace = decode(batch=batch, allocation=allocation)
    assert len(made) == model().num_layers
    T, start = 16, len(trace.header.prompt_ids)
    positions = batch * counted.max_positions if allocation == "reference" else start + batch * (32 + T)
    for step in trace.steps:
        parts = arena(step)
        assert sum(size for name, size in parts.items() if name.startswith("cache")) == row * positions
        assert parts["weights"] == 4 * counted.record.parameters
        assert step.facts["accounted"] == sum(parts.values()) <= step.facts["planned"]
        assert ("logits by path" in parts) == (allocation == "reference")
        modelled = {i.label for i in step.intervals if not i.measured and i.track.startswith("arena")}
        assert modelled == {"weights", "mask of the tree"}
        assert not any(i.measured for i in step.intervals if "reference" in i.track)
    saved = [step.facts["saved"] for step in trace.steps]
    assert min(saved) > 0.5 if allocation == "lean" else abs(saved[-1]) < 0.1


def test_every_budget_that_can_hold_it_gives_the_greedy_text():
    greedy, free = decoded("greedy").output_ids, decoded()
    least = decoded(nodes=1).steps[0].facts["planned"] / MB
    trees = []
    for budget in (least + 0.01, least + 0.1, 0):
        trace = decode(budget=budget)
        assert trace.output_ids == greedy == free.output_ids
        assert all(s.facts["accounted"] <= budget * MB for s in trace.steps if budget)
        trees.append(trace.steps[0].facts["T"])
    assert trees == sorted(trees) and trees[0] == 1 and trees[-1] == 16
    alone = decode(budget=least + 0.01)
    assert all(len(step.commits.tokens) == 1 for step in alone.steps)  # one token a call
    assert len(free.steps) < len(alone.steps)


def test_a_budget_that_keeps_the_tree_shortens_the_answer():
    """The text is the beginning of the greedy one, as long as the budget holds, and the tree is whole."""
    greedy, free = decoded("greedy").output_ids, decoded()
    whole = free.steps[0].facts["planned"] / MB
    lengths = []
    for less in (0.0, 0.02, 0.05):
        trace = decode(budget=round(whole - less, 3) + 0.001, keeps="tree")
        assert trace.output_ids == greedy[: len(trace.output_ids)]
        assert {step.facts["T"] for step in trace.steps} == {16}
        assert all(step.facts["accounted"] <= (whole - less + 0.002) * MB for step in trace.steps)
        lengths.append(len(trace.output_ids))
    assert lengths == sorted(lengths, reverse=True) and lengths[0] == len(greedy) > lengths[-1] > 0
    assert decode(keeps="tree").output_ids == greedy  # without a limit nothing is shortened
    with pytest.raises(engines.UserError, match=r"a tree of 16 nodes and one new token need .* MB with the weights"):
        decode(budget=round(decoded(nodes=1).steps[0].facts["planned"] / MB - 0.05, 2), keeps="tree")


def test_a_fork_with_another_budget_shrinks_the_tree_and_keeps_the_text():
    free = decoded()
    least = decoded(nodes=1).steps[0].facts["planned"] / MB
    fork = engines.fork(free, 6, edit=engines.Edit(params={"budget": round(least + 0.1, 2)}))
    assert {step.facts["T"] for step in fork.steps[:6]} == {16}
    assert fork.steps[-1].facts["T"] < 16 and fork.output_ids == free.output_ids


def test_a_budget_below_the_weights_is_refused_before_any_forward(monkeypatch):
    weights, called = 4 * model().record.parameters / MB, []
    monkeypatch.setattr(type(model()), "extend", lambda *given, **named: called.append(1))
    with pytest.raises(engines.UserError, match=r"the weights of tiny-ar-m alone are .* Give at least .* MB"):
        decode(budget=round(weights - 0.5, 2))
    with pytest.raises(engines.UserError, match=r"positions and plain decoding need .* MB with the weights"):
        decode(budget=weights + 0.05)
    assert not called
