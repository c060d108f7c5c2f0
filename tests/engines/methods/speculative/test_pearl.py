"""PEARL: the modes and what they finalise, verified tokens only, and two threads that overlap."""

import itertools
import threading

import pytest
import torch

import engines
from engines.core.trace import Interval
from engines.methods.speculative.pearl import on_two_devices
from tests.engines.fakes import TableCausal, board
from tests.engines.methods.speculative.toys import pair
from tests.golden.checkers.pairs import Script

V, PROMPT = 5, [1, 2, 3]


def scripts(agree):
    """Two models that agree where `agree` says so."""
    return {"target": Script([1] * len(agree)), "draft": Script([1 if same else 2 for same in agree])}


def decode(models, slug="pearl", prompt=PROMPT, seed=0, **params):
    return engines.run(slug, models, prompt, params={"max_new_tokens": 30, **params}, seed=seed)


ABLATIONS = [{}, {"pre_verify": False}, {"post_verify": False}, {"pre_verify": False, "post_verify": False}]


@pytest.mark.parametrize("hot", [-1.0, 0.0, 1.3])
def test_threads_change_nothing_but_the_clock(hot):
    models = pair(3)
    for temperature in (0.0, 0.9):
        one, other = (
            decode(models, temperature=temperature, draft_temperature=hot, execution=e) for e in ("turns", "threads")
        )
        assert one.output_ids == other.output_ids
        assert [(s.forwards, s.facts, s.commits) for s in one.steps] == [
            (s.forwards, s.facts, s.commits) for s in other.steps
        ]


@pytest.mark.parametrize("seed", range(4))
def test_the_modes(seed):
    """Pre finalises one token, post 1 to gamma; a refusal leads to pre, none to post; drafts are kept, thrown away or
    pending."""
    gamma = 4
    agree = (torch.rand(60, generator=torch.Generator().manual_seed(seed)) < 0.75).tolist()
    trace = decode(scripts(agree), prompt=[0], gamma=gamma, max_new_tokens=60)
    drafted = settled = 0
    for step, after in itertools.pairwise(trace.steps[:-2]):  # the last ones are cut by the end of the answer
        n, passed = len(step.commits.tokens), step.tree.emitted_source == "draft"
        tested = len(step.tree.tokens) - 1
        assert (n, tested) == (1, 1) if step.choice.chosen == "pre" else 1 <= n <= gamma == tested
        assert after.choice.chosen == ("post" if passed else "pre") and step.choice.switched == (
            after.choice.chosen != step.choice.chosen
        )
        assert n == step.facts["accepted"] + (not passed)
        assert step.facts["discarded"] <= (0 if passed else gamma if step.choice.chosen == "pre" else 2 * gamma - 1)
        assert step.facts["pending"] == (gamma - 1 if passed else 0)
        drafted, settled = drafted + step.facts["drafted"], settled + step.facts["accepted"] + step.facts["discarded"]
        assert drafted == settled + step.facts["pending"]
    assert {s.choice.chosen for s in trace.steps} == {"pre", "post"}


def test_a_drafter_that_is_the_target_never_stops():
    model = TableCausal(vocab_size=V, memory=None)
    for temperature in (0.0, 1.0):
        trace = decode({"target": model, "draft": model}, gamma=4, temperature=temperature, max_new_tokens=25)
        assert [len(step.commits.tokens) for step in trace.steps] == [1, *[4] * 6]


def test_the_text_holds_verified_tokens_only():
    """Long agreement, then none: whatever is pending when the answer ends is not in it, and an end mark ends it."""
    for length in range(1, 20):
        agree = [True] * 7 + [False] * 40
        assert decode(scripts(agree), prompt=[0], gamma=5, max_new_tokens=length).output_ids == [1] * length
    models = pair(eos_ids=(0, 1))
    trace = decode({"target": models["target"], "draft": models["target"]}, gamma=6)
    assert trace.output_ids[-1] in (0, 1) and not set(trace.output_ids[:-1]) & {0, 1} and len(trace.output_ids) < 30


def test_the_ablations():
    """Without pre-verify every block that follows a refusal goes to the target untested; without post-verify the block
    written meanwhile is lost."""
    agree = [i % 6 != 5 for i in range(80)]
    without_pre, without_post = (
        decode(scripts(agree), prompt=[0], gamma=3, max_new_tokens=40, **given) for given in ABLATIONS[1:3]
    )
    waited = [s for s in without_pre.steps if "target" not in s.forwards]
    assert waited and all(s.commits is None and s.choice.chosen == "pre" for s in waited)
    assert all(
        len(s.tree.tokens) == 5
        for s, before in zip(without_pre.steps[1:], without_pre.steps, strict=False)
        if before in waited
    )
    post = [s for s in without_post.steps if s.choice.chosen == "post"]
    assert post and all(s.facts["pending"] == 0 and s.facts["discarded"] >= 3 for s in post[:-1])
    assert any(
        len(s.commits.tokens) == 3 and s.facts["accepted"] == 2 for s in post
    )  # both pending tokens and one more of the target's own
    never, always = (({}, {"pre_verify": False}), [False] * 60), (({}, {"post_verify": False}), [True] * 60)
    for settings, agree in (never, always):
        full, less = (
            len(decode(scripts(agree), prompt=[0], gamma=3, max_new_tokens=40, **given).steps) for given in settings
        )
        assert full < less


def test_the_drafter_reads_each_token_of_an_agreement_once():
    models = scripts([True] * 60)
    assert decode(models, prompt=[0], gamma=4, max_new_tokens=33).totals.tokens_fed <= 2 * (33 + 2 * 4)


# --- clocks


def test_the_two_device_clock():
    calls = [Interval("draft", 1.0, 1.2, "a"), Interval("draft", 1.5, 1.8, "b"), Interval("target", 1.8, 2.6, "c")]
    laid, end = on_two_devices(calls, 10.0)
    assert [(i.start, i.end) for i in laid] == [
        (10.0, pytest.approx(10.2)),
        (pytest.approx(10.2), pytest.approx(10.5)),
        (10.0, pytest.approx(10.8)),
    ]
    assert end == pytest.approx(10.8) and not any(i.measured for i in laid) and on_two_devices([], 3.0) == ([], 3.0)


def met(extend, both):
    """The same, its first call going on only once the other model's has begun."""
    first = iter([True])

    def waits(*given, **named):
        if next(first, False):
            both.wait(timeout=30)
        return extend(*given, **named)

    return waits


def test_lanes_of_turns_and_threads(ar, monkeypatch):
    """Turns: measured calls never overlap, the scheduled ones of both models begin together. Threads: measured only,
    and they do overlap."""
    models, prompt = (
        {"target": ar, "draft": engines.load_model("tiny-ar-s", dtype="float32")},
        "sort: Zoe, Mia, Leo, Ada",
    )
    turns = decode(models, prompt=prompt, execution="turns")
    both = threading.Barrier(2)  # on a busy machine two short calls need not meet by themselves
    for model in models.values():
        monkeypatch.setattr(model, "extend", met(model.extend, both))
    threads = decode(models, prompt=prompt, execution="threads")
    assert turns.output_ids == threads.output_ids
    for step in turns.steps:
        measured = sorted((i for i in step.intervals if i.measured), key=lambda i: i.start)
        assert all(a.end <= b.start for a, b in itertools.pairwise(measured)) and len(measured) == sum(
            step.forwards.values()
        )
        begins = {}
        for i in (i for i in step.intervals if not i.measured):
            begins.setdefault(i.track, i.start)
        assert len(begins) == 2 and len(set(begins.values())) == 1
    assert all(i.measured for step in threads.steps for i in step.intervals)
    overlaps = 0
    for step in threads.steps:
        (verifying,) = [i for i in step.intervals if i.track == "target"]
        overlaps += any(
            i.start < verifying.end and verifying.start < i.end for i in step.intervals if i.track == "draft"
        )
    assert overlaps > 0


def test_an_edit_forgets_what_is_pending():
    models = pair(6, memory=1)
    edits = [(1, engines.Edit(force={4: 0})), (3, engines.Edit(params={"temperature": 0.5}))]
    trace = engines.run("pearl", models, PROMPT, params={"max_new_tokens": 12}, edits=edits)
    assert (
        trace.output_ids[1] == 0
        and board(trace) == trace.output_ids
        and trace.steps[2].choice.chosen == trace.steps[4].choice.chosen == "pre"
    )
