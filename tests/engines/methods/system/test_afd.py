"""Attention-FFN disaggregation: two processes write what one writes, the order that a pipeline must keep, bytes that
are counted, and a feed-forward process that dies or is not needed any more."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import engines
from engines.methods.system.afd.feeding import Elsewhere, Here
from engines.models.layers import feed_forward

PROMPT = "story: Mia, boat"
SIDES = ("attention", "feed-forward")


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-mfa", kind="split", dtype="float32")


def decode(model, prompt=PROMPT, **params):
    return engines.run("afd", model, prompt, params={"max_new_tokens": 8, **params}, seed=5)


def texts(trace):
    return [(b.id, b.tokens, b.fate) for step in trace.steps for b in step.branches]


@pytest.mark.parametrize(("microbatches", "temperature"), [(1, 0.0), (4, 1.0)])
def test_two_processes_write_what_one_writes(model, microbatches, temperature):
    given = {"microbatches": microbatches, "texts": 2, "temperature": temperature}
    two, one = (decode(model, execution=how, **given) for how in ("two processes", "one process"))
    assert two.output_ids == one.output_ids and texts(two) == texts(one)
    assert [s.facts["processes"] for s in (two.steps[0], one.steps[0])] == [2, 1]
    if not temperature:  # microbatches and texts change nothing on the board
        assert one.output_ids == engines.run("greedy", model, PROMPT, params={"max_new_tokens": 8}).output_ids
        assert {i for i, *_ in texts(one)} == set(range(2)) and one.totals.forwards == len(one.steps)


@pytest.mark.parametrize("name", ["tiny-mha", "tiny-gqa", "tiny-mla"])
def test_every_attention_runs_apart_and_writes_its_own_greedy_text(name):
    twin = engines.load_model(name, kind="split", dtype="float32")
    plain = engines.run("greedy", twin, PROMPT, params={"max_new_tokens": 8})
    assert decode(twin).output_ids == plain.output_ids


@pytest.mark.parametrize("execution", ["two processes", "one process"])
def test_a_part_begins_when_what_it_needs_is_there(model, execution):
    """A microbatch goes through the halves in their order, a side does one thing at a time, in the order of layers and
    microbatches: the pipeline of the report's event model."""
    m, L = 3, model.num_layers
    labels = [f"microbatch {j + 1}, layer {layer + 1}" for layer in range(L) for j in range(m)]
    for step in decode(model, microbatches=m, texts=2, execution=execution).steps:
        own = {side: [i for i in step.intervals if i.track == side] for side in SIDES}
        assert [[i.label for i in own[side]] for side in SIDES] == [labels] * 2
        ways = [[own[side][layer * m + j] for layer in range(L) for side in SIDES] for j in range(m)]
        alone = [sorted(step.intervals, key=lambda i: i.start)] * (execution == "one process")
        for parts in (*ways, *own.values(), *alone):
            assert all(a.end <= b.start for a, b in itertools.pairwise(parts))
        assert all(i.measured and i.end > i.start for i in step.intervals)


def test_a_step_says_how_many_texts_went_on(model):
    """A text that has ended keeps its place in the batch, and gains nothing."""
    prompt = "python: class Robot(size: int, owner: str, label: str)"
    trace = decode(model, prompt, microbatches=1, texts=8, execution="one process", max_new_tokens=20)
    told = [int(step.note.split(" of ")[0]) for step in trace.steps]
    assert told == [sum(bool(branch.tokens) for branch in step.branches) for step in trace.steps]
    assert told[0] == 8 > told[-1], "one has ended before the last step"


def test_bytes_are_counted(model):
    trace = decode(model, microbatches=2, texts=3)
    for step in trace.steps:
        n = len(trace.header.prompt_ids) + step.index
        assert step.facts["kv_bytes"] == n * 4 * 64 * 4  # layers, elements of MFA, bytes
        assert step.facts["kv_bytes_read"] == 6 * step.facts["kv_bytes"] and step.facts["batch"] == 6
        assert step.facts["handed_over"] == 2 * 4 * 6 * 96 * 4
    assert "handed_over" not in decode(model, execution="one process").steps[0].facts


def test_the_process_computes_the_same_numbers_and_ends_with_its_input(model):
    rng = torch.Generator().manual_seed(0)
    u = [torch.randn(3, 96, generator=rng) for _ in range(2)]
    with Elsewhere(model, 2, 4) as far, Here(model) as near:
        folder, process = far.folder.name, far.process
        for layer in range(model.num_layers):
            for one in (far, near):
                for j in range(2):
                    one.give(j, layer, u[j])
            for j in range(2):
                y, began, ended = far.take(j)
                assert torch.equal(y, near.take(j)[0]) and ended > began
        assert process.poll() is None and os.path.isdir(folder)
    assert process.poll() == 0 and not os.path.exists(folder)


def test_a_process_that_dies_is_told_and_leaves_nothing(model):
    far = Elsewhere(model, 1, 2)
    with pytest.raises(engines.UserError, match=r"feed-forward process has ended.*execution=one process"), far:
        far.process.kill()
        far.process.wait()
        far.give(0, 0, torch.zeros(2, 96))
        far.take(0)
    assert far.process.poll() is not None and not os.path.exists(far.folder.name)


def test_a_run_that_is_closed_ends_its_process(model, monkeypatch):
    made = []

    class Noted(Elsewhere):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr("engines.methods.system.afd.Elsewhere", Noted)
    one = engines.stream("afd", model, PROMPT, params={"max_new_tokens": 8})
    next(one)
    assert made[0].process.poll() is None
    one.close()
    assert made[0].process.poll() == 0 and not os.path.exists(made[0].folder.name)


def test_the_process_loads_nothing_of_this_package_and_no_torch():
    code = f"import runpy, sys; runpy.run_path({feed_forward.__file__!r}, run_name='x'); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert "numpy" in found.stdout.split() and not {"torch", "engines", "transformers"} & set(found.stdout.split())
    with np.errstate(over="raise", invalid="raise"):  # numbers far away are quiet there
        assert feed_forward.silu(np.array([-1e4, 0.0, 1e4], np.float32)).tolist() == [0.0, 0.0, 1e4]
