"""Lean Attention: every tile once, exact triples, the library's text by every schedule, real threads with their
flags, and bad input."""

import itertools
import math

import pytest
import torch

import engines
from engines.core.kinds.layered import AttentionInputs
from engines.methods.system.lean_attention.attention import Work
from engines.methods.system.lean_attention.partition import (
    SCHEDULES,
    lean,
    makespan,
    ranges,
    schedule,
    timeline,
)
from tests.engines.fakes import board

MODEL = "tiny-ar-m"


def decode(prompt="add: 45 + 86", slug="lean-attention", on=MODEL, **params):
    return engines.run(slug, engines.load_model(on, dtype="float32"), prompt, params={"max_new_tokens": 24, **params})


@pytest.mark.parametrize(("t", "G"), [([7] * 5, 8), ([1, 9, 3], 4), ([5], 1), ([1] * 4, 4)])
def test_every_tile_is_owned_once_and_loads_differ_by_one(t, G):
    pieces = lean(t, G)
    owned = sorted((p.problem, i) for p in pieces for i in range(p.first, p.end))
    assert owned == [(problem, i) for problem, each in enumerate(t) for i in range(each)]
    assert pieces == sorted(pieces, key=lambda p: (p.worker, p.problem, p.first))
    loads = [end - first for first, end in ranges(sum(t), G)]
    assert max(loads) - min(loads) <= 1 and makespan(pieces) == max(loads) == math.ceil(sum(t) / G)


def problem(N=100, g=3, r=3, e=8, dtype=torch.float64, sees=None):
    generator = torch.Generator().manual_seed(N)
    q, K, V = (torch.randn(*shape, generator=generator, dtype=dtype) for shape in ((g * r, 1, e), (g, N, e), (g, N, e)))
    return AttentionInputs(0, q * 4, K, V, 0.3, torch.ones(1, N, dtype=torch.bool) if sees is None else sees)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize(("W", "b"), [(1, 16), (8, 16), (108, 3), (5, 512)])
def test_the_output_is_that_of_attention(kind, W, b, dtype):
    given = problem(dtype=dtype)
    work = Work(given, schedule(kind, [math.ceil(100 / b)] * 3, W), b)
    found = work.run(kind, 1, None)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        given.queries[None], given.keys[None], given.values[None], scale=0.3, enable_gqa=True
    )[0]
    slack = 1e-5 if dtype == torch.float32 else 1e-12
    assert float((found - wanted).abs().max()) < slack and work.error() < slack


def test_positions_that_are_not_seen_count_for_nothing_even_a_whole_tile_of_them():
    sees = torch.ones(1, 100, dtype=torch.bool)
    sees[0, :40] = False  # a window: the first two tiles are out of sight
    given = problem(sees=sees)
    pieces = schedule("lean", [7] * 3, 8)
    for worker in range(8):  # does one thing at a time
        own = sorted(times for piece, times in zip(pieces, timeline(pieces), strict=True) if piece.worker == worker)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(own))
    work = Work(given, pieces, 16)
    seen = AttentionInputs(0, given.queries, given.keys[:, 40:], given.values[:, 40:], 0.3, sees[:, 40:])
    other = Work(seen, schedule("plain", [4] * 3, 8), 16)
    assert torch.allclose(work.run("lean", 1, None), other.run("plain", 1, None), atol=1e-12)
    assert work.error() < 1e-12


@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize("workers", [2, 108])
def test_the_text_is_the_librarys_by_every_schedule(kind, workers):
    given = {"prompt": "story: Mia, boat", "max_new_tokens": 10}
    ours = decode(**given, schedule=kind, workers=workers)
    assert ours.output_ids == decode(**given, slug="greedy").output_ids == board(ours)
    for step in ours.steps:
        assert step.facts["max_error"] < 1e-5
        assert step.facts["makespan_lean"] == math.ceil(step.facts["tiles"] / min(workers, step.facts["tiles"]))


@pytest.mark.parametrize("kind", SCHEDULES)
def test_threads_give_the_same_and_share_the_pieces(kind):
    one, many = (decode(schedule=kind, workers=5, threads=n, max_new_tokens=6) for n in (1, 3))
    assert one.output_ids == many.output_ids
    for a, b in zip(one.steps, many.steps, strict=True):
        labels = [sorted(i.label for i in s.intervals if i.unit == "seconds") for s in (a, b)]
        assert labels[0] == labels[1] and all(i.measured for s in (a, b) for i in s.intervals if i.unit == "seconds")
        assert {i.track for i in b.intervals if i.unit == "seconds"} <= {f"thread {i + 1}" for i in range(3)}


def test_a_host_merges_behind_the_last_piece_of_its_head_and_the_two_clocks_never_mix():
    for step in decode(workers=6, threads=2, max_new_tokens=8).steps:
        done = {i.label: i for i in step.intervals if i.unit == "seconds"}
        for label, merged in ((k, v) for k, v in done.items() if k.startswith("merge")):
            head = label.split(", ")[1]
            assert all(v.end <= merged.end for k, v in done.items() if k.startswith(f"{head},"))
    for step in decode(schedule="plain", max_new_tokens=8).steps:
        units = {(i.track.split(": ")[0], i.unit, i.measured) for i in step.intervals}
        assert units == {*((kind, "tiles", False) for kind in SCHEDULES), ("thread 1", "seconds", True)}
        found = {i.track.split(": ")[0] for i in step.intervals if ", m " in i.label}
        assert found == {"plain"}  # only what was carried out has found something


def test_a_failing_piece_ends_the_run_and_does_not_hang():
    from concurrent.futures import ThreadPoolExecutor

    given = problem()
    work = Work(given, schedule("lean", [7] * 3, 8), 16)
    work.K = work.K[:, :, :3]  # does not fit the queries
    with ThreadPoolExecutor(2) as pool, pytest.raises((RuntimeError, KeyError)):
        work.run("lean", 2, pool)


def test_bad_input_is_a_sentence():
    with pytest.raises(engines.UserError, match="give an even number"):
        decode(workers=7, grid="as published")
    with pytest.raises(engines.UserError, match="the model has 6; give one from 1 to 6"):
        decode(layer=99)


@pytest.mark.smollm2
def test_every_layer_of_smollm2_writes_the_librarys_text():
    prompt = "Tell me a fairy tale about a fox. " * 3
    ours = decode(prompt, on="smollm2", tile=16, workers=8, max_new_tokens=6)
    assert ours.output_ids == decode(prompt, "greedy", on="smollm2", max_new_tokens=6).output_ids
    assert all(s.facts["max_error"] < 1e-5 for s in ours.steps)
