"""PEARL: verified tokens only, the ablations, two threads that overlap. The modes are golden cases."""

import itertools
import threading

import pytest
import torch

import engines
from tests.engines.fakes import TableCausal
from tests.engines.methods.speculative.toys import pair
from tests.golden.checkers.pairs import Script


def decode(models, prompt=(1, 2, 3), edits=(), **params):
    prompt = prompt if isinstance(prompt, str) else list(prompt)
    return engines.run("pearl", models, prompt, params={"max_new_tokens": 30, **params}, edits=edits)


def scripted(agree, **params):
    """Two models that agree where `agree` says so."""
    models = {"target": Script([1] * len(agree)), "draft": Script([1 if same else 2 for same in agree])}
    return decode(models, prompt=[0], **params)


@pytest.mark.parametrize("hot", [-1.0, 0.0, 1.3])
def test_threads_change_nothing_but_the_clock(hot):
    for temperature in (0.0, 0.9):
        one, other = (
            decode(pair(3), temperature=temperature, draft_temperature=hot, execution=e) for e in ("turns", "threads")
        )
        said = [[(s.forwards, s.facts, s.commits) for s in trace.steps] for trace in (one, other)]
        assert one.output_ids == other.output_ids and said[0] == said[1]


def test_what_is_drafted_is_accepted_thrown_away_or_pending():
    gamma = 4
    agree = (torch.rand(60, generator=torch.Generator().manual_seed(0)) < 0.75).tolist()
    drafted = settled = 0
    trace = scripted(agree, gamma=gamma, max_new_tokens=60)
    for step in trace.steps[:-2]:  # the last ones are cut by the end of the answer
        passed = step.tree.emitted_source == "draft"
        assert step.facts["pending"] == (gamma - 1 if passed else 0)
        drafted, settled = drafted + step.facts["drafted"], settled + step.facts["accepted"] + step.facts["discarded"]
        assert drafted == settled + step.facts["pending"]
    assert {s.choice.chosen for s in trace.steps} == {"pre", "post"}


def test_a_drafter_that_is_the_target_never_stops_and_reads_each_token_once():
    model = TableCausal(vocab_size=5, memory=None)
    for temperature in (0.0, 1.0):
        trace = decode({"target": model, "draft": model}, gamma=4, temperature=temperature, max_new_tokens=25)
        assert [len(step.commits.tokens) for step in trace.steps] == [1, *[4] * 6]
    assert scripted([True] * 60, gamma=4, max_new_tokens=33).totals.tokens_fed <= 2 * (33 + 2 * 4)


def test_the_text_holds_verified_tokens_only():
    """Long agreement, then none: whatever is pending when the answer ends is not in it, and an end mark ends it."""
    for length in range(1, 20):
        assert scripted([True] * 7 + [False] * 40, gamma=5, max_new_tokens=length).output_ids == [1] * length
    target = pair(eos_ids=(0, 1))["target"]
    trace = decode({"target": target, "draft": target}, gamma=6)
    assert trace.output_ids[-1] in (0, 1) and not set(trace.output_ids[:-1]) & {0, 1} and len(trace.output_ids) < 30


def test_the_ablations():
    """Without pre-verify blocks behind a refusal go untested; without post-verify those written meanwhile are lost."""

    def run(agree, **given):
        return scripted(agree, gamma=3, max_new_tokens=40, **given).steps

    now_and_then = [i % 6 != 5 for i in range(80)]
    steps = run(now_and_then, pre_verify=False)
    waited = [s for s in steps if "target" not in s.forwards]
    assert waited and all(s.commits is None and s.choice.chosen == "pre" for s in waited)
    assert all(len(s.tree.tokens) == 5 for before, s in itertools.pairwise(steps) if before in waited)
    post = [s for s in run(now_and_then, post_verify=False) if s.choice.chosen == "post"]
    assert post and all(s.facts["pending"] == 0 and s.facts["discarded"] >= 3 for s in post[:-1])
    assert any(len(s.commits.tokens) == 3 and s.facts["accepted"] == 2 for s in post)  # both pending and one of its own
    assert len(run([False] * 60)) < len(run([False] * 60, pre_verify=False))
    assert len(run([True] * 60)) < len(run([True] * 60, post_verify=False))


def met(extend, both):
    """The same, its first call going on only once the other model's has begun."""
    first = iter([True])

    def waits(*given, **named):
        if next(first, False):
            both.wait(timeout=30)
        return extend(*given, **named)

    return waits


def test_lanes_of_turns_and_threads(ar, monkeypatch):
    """Turns: measured calls never overlap, scheduled ones begin together. Threads: measured only, and overlapping."""
    models = {"target": ar, "draft": engines.load_model("tiny-ar-s", dtype="float32")}
    prompt = "sort: Zoe, Mia, Leo, Ada"
    turns = decode(models, prompt=prompt, execution="turns")
    both = threading.Barrier(2)  # on a busy machine two short calls need not meet by themselves
    for model in models.values():
        monkeypatch.setattr(model, "extend", met(model.extend, both))
    threads = decode(models, prompt=prompt, execution="threads")
    assert turns.output_ids == threads.output_ids
    for step in turns.steps:
        measured = sorted((i for i in step.intervals if i.measured), key=lambda i: i.start)
        assert all(a.end <= b.start for a, b in itertools.pairwise(measured))
        assert len(measured) == sum(step.forwards.values())
        begins = {}
        for i in (i for i in step.intervals if not i.measured):
            begins.setdefault(i.track, i.start)
        assert len(begins) == 2 and len(set(begins.values())) == 1
    assert all(i.measured for step in threads.steps for i in step.intervals)
    overlaps = 0
    for step in threads.steps:
        (verifying,) = [i for i in step.intervals if i.track == "target"]
        drafting = [i for i in step.intervals if i.track == "draft"]
        overlaps += any(i.start < verifying.end and verifying.start < i.end for i in drafting)
    assert overlaps > 0
