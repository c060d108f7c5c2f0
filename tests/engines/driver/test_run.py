"""The driver: stopping, failing, budgets, seeds, edits; forks, where a run goes on from one of its steps."""

import copy
from math import inf, nan

import msgspec
import numpy as np
import pytest
import torch

import engines
from engines import Edit, Trace
from engines.core.meter import Meter
from engines.core.method import method
from engines.core.params import Float, max_new_tokens
from engines.core.trace import Commits, check_consistency
from engines.core.user_methods import load_method_file
from engines.driver.run import Run
from tests.engines.fakes import TableCausal, TableMasked, board, commits
from tests.engines.fakes import commits as written
from tests.engines.refusals import refuses

MASKED = ["llada", "threshold", "factor", "creditdecoding", "adablock"]
CAUSAL = ["greedy", "token-recycling", "ead"]
EOS = 7


def model_for(slug, **options):
    if slug in MASKED:
        return TableMasked(**options)
    if slug == "ead":
        large, small = TableCausal(seed=1, parameters=30, **options), TableCausal(seed=2, scale=0.8, **options)
        return {"large": large, "small": small}
    return TableCausal(**options)


def sizes_of(slug):
    return {"max_new_tokens": 16} | ({"block_length": 4} if slug in MASKED else {})


def decode(slug, *, edits=(), eos_ids=(), **params):
    model = model_for(slug, eos_ids=eos_ids, never=eos_ids)  # the end mark comes from edits only
    return engines.run(slug, model, [1, 2, 3], params={**sizes_of(slug), **params}, edits=edits)


def sound(trace):
    check_consistency(trace)
    assert board(trace) == trace.output_ids
    assert trace.end.reason == "complete" and trace.totals.masks_left == 0
    return trace


def start(body, prompt=(1, 2), model=None, **options):
    told = dict.fromkeys(("title", "paper", "summary"), "")
    declared = [max_new_tokens(8), Float("x", 0, 0, 1, help="")]
    decode = method("fake", **told, family="fake", needs="causal", params=declared, emits=set())(body)
    return Run(decode, {"target": model or TableCausal()}, prompt, **options)


def count(model, prompt, p, run):
    cache, ids = model.new_cache(64), list(prompt)
    while len(ids) < len(prompt) + p.max_new_tokens:
        model.extend(ids[cache.length :], cache)
        ids = [*ids, 5]
        ids = run.apply_edit((yield run.step(commits=([len(ids) - 1], [5], "greedy"))), ids, cache)


def test_an_answer_is_no_longer_than_what_its_model_can_write():
    model = TableCausal()
    model.longest_answer = 5
    run = start(count, model=model)
    assert len(list(run)) == run.header.params["max_new_tokens"] == 5
    assert start(count, model=model, params={"max_new_tokens": 3}).header.params == {"max_new_tokens": 3, "x": 0.0}


def test_closing_reaches_the_method():
    log = []

    def body(model, prompt, p, run):
        try:
            yield from count(model, prompt, p, run)
        except GeneratorExit:
            log.append("exit")
            raise
        finally:
            log.append("finally")

    one = start(body)
    next(one)
    one.close()
    one.close()
    assert log == ["exit", "finally"]
    assert list(one) == [] and one.trace().end.reason == "stopped"
    refuses(engines.UserError, "not over", one.send, engines.Edit())
    two = start(body)
    two.close()  # before the first step it runs nothing
    trace = two.trace()
    assert (trace.steps, trace.output_ids, trace.end.wall_seconds, trace.end.reason) == ([], [], 0, "stopped")
    check_consistency(trace)


@pytest.mark.parametrize("error", [RuntimeError("broke"), engines.UserError("a sentence"), KeyboardInterrupt()])
def test_an_exception_ends_the_run_as_failed_and_is_raised(error):
    def body(model, prompt, p, run):
        yield run.step(commits=([2], [5], "greedy"))
        raise error

    one = start(body)
    next(one)
    with pytest.raises(type(error)):
        next(one)
    end = one.trace().end
    assert end.reason == "failed" and end.output_ids == [5]
    assert end.message == ("a sentence" if isinstance(error, engines.UserError) else f"{type(error).__name__}: {error}")
    assert list(one) == []


def test_a_run_that_ends_with_its_last_permitted_step_is_complete():
    whole = start(count)
    steps = len(list(whole))
    exact = start(count, max_steps=steps)
    assert len(list(exact)) == steps and exact.end().reason == "complete" and exact.end().message == ""
    assert exact.end().output_ids == whole.end().output_ids
    short = start(count, max_steps=steps - 1)
    assert len(list(short)) == steps - 1 and short.end().reason == "budget" and "7 steps" in short.end().message
    late = start(count, max_steps=steps, edits=[(steps - 1, engines.Edit(force={2: 4}))])
    assert len(list(late)) == steps and late.end().reason == "budget"  # the edit would have needed one more
    assert list(start(count, max_steps=0)) == []
    slow = start(count, max_seconds=0.0)
    assert len(list(slow)) < 8 and slow.trace().end.reason == "budget"
    one = start(count, max_seconds=3600)
    for _ in range(8):
        next(one)
    one._max_seconds = -1.0  # the time is up with the last step
    assert list(one) == [] and one.end().reason == "complete"


def test_nothing_is_computed_and_nothing_is_written_after_the_last_permitted_step():
    log = []

    def body(model, prompt, p, run):
        yield run.step(commits=([2], [5], "greedy"))
        log.append("asked")
        try:
            yield run.step(commits=([3], [6], "greedy"))  # without a forward: the budget is of steps
        except Exception:
            log.append("caught")
        finally:
            log.append("finally")

    one = start(body, max_steps=1)
    assert len(list(one)) == 1 and log == ["asked", "finally"]
    assert one.end().reason == "budget" and one.end().output_ids == [5]
    model = TableCausal()
    assert len(list(start(count, model=model, max_steps=3))) == len(model.calls) == 3


def test_times_add_up():
    one = start(count)
    list(one)
    end, sums = one.trace().end, one.trace().totals
    assert 0 <= sums.model_seconds + sums.method_seconds <= end.wall_seconds
    assert 0 <= end.record_seconds <= end.wall_seconds


@pytest.mark.parametrize("prompt", ["", " \n", [], [8], [-1], ["a"], None, 3, [None], "1 \ud800", [float("inf")]])
def test_prompts_that_are_none(prompt):
    refuses(engines.UserError, "", start, count, prompt)


def test_what_is_none_is_refused_before_anything_runs():
    params = {"max_new_tokens": 16}
    with pytest.raises(engines.UserError, match="room for 20"):
        engines.stream("greedy", TableCausal(max_positions=20), [1] * 5, params=params)
    assert engines.run("greedy", TableCausal(max_positions=20), [1] * 4, params=params).totals.tokens == 16
    for seed in (-1, 2**63, 1.5, "1", None, True):
        refuses(engines.UserError, "seed", start, count, seed=seed)
    for model in (None, {}, {"target": None}, {"draft": TableCausal()}):
        refuses(engines.UserError, "role", engines.run, "greedy", model, [1])
    for edit in ((-2, engines.Edit()), (0, {"force": {}}), ("0", engines.Edit())):
        refuses(engines.UserError, "after_step", start, count, edits=[edit])
    for params in ({"no": 1}, {"max_new_tokens": "many"}, {"temperature": 1e9}):
        refuses(engines.UserError, "", decode, "threshold", edits=[(0, engines.Edit(params=params))])


@pytest.mark.parametrize("slug", ["greedy", "threshold"])
def test_edits_with_ids_that_are_none_are_refused_and_the_run_goes_on(slug):
    model = TableMasked(vocab_size=8) if slug == "threshold" else TableCausal(vocab_size=8)
    one = engines.stream(slug, model, [1], params={"max_new_tokens": 6})
    next(one)
    for edit in ({"force": {3: 8}}, {"force": {3: -1}}, {"forbid": {3: [10**9]}}, {"forbid": {-1: [0]}}):
        refuses(engines.UserError, "edit", engines.stream, slug, model, [1], edits=[(0, engines.Edit(**edit))])
        refuses(engines.UserError, "edit", one.send, engines.Edit(**edit))
    assert list(one) and one.trace().end.reason == "complete" and one.header.edits == []


@pytest.mark.parametrize("slug", MASKED + CAUSAL)
def test_forcing_an_end_mark_ends_the_text_there(slug):
    fork = sound(decode(slug, eos_ids=(EOS,), edits=[(1, engines.Edit(force={4: EOS}))]))
    assert fork.output_ids[1] == EOS and fork.totals.tokens <= 1
    if slug in CAUSAL:
        assert len(fork.output_ids) == 2 and fork.steps[-1].commits.causes[-1] == "forced"


@pytest.mark.parametrize("slug", MASKED + CAUSAL)
def test_forcing_the_last_position(slug):
    steps = len(decode(slug).steps)
    for after in {0, steps - 2, steps - 1} - ({0} if slug in CAUSAL else set()):
        one = engines.stream(slug, model_for(slug), [1, 2, 3], params=sizes_of(slug))
        for _ in range(after + 1):
            next(one)
        place = 15 if slug in MASKED else min(len(one.trace().output_ids), 15)
        one.send(engines.Edit(force={3 + place: 6}))
        list(one)
        fork = sound(one.trace())
        assert fork.output_ids[place] == 6 and len(fork.output_ids) == 16


@pytest.mark.parametrize("slug", CAUSAL)
def test_several_forced_tokens_follow_each_other(slug):
    fork = sound(decode(slug, edits=[(2, engines.Edit(force={4: 0, 3: 6, 5: 1}))]))
    assert fork.output_ids[:3] == [6, 0, 1]
    for wrong in ({3: 6, 5: 1}, {2: 1}, {99: 1}):
        refuses(engines.UserError, r"force|gap", decode, slug, edits=[(1, engines.Edit(force=wrong))])
    refuses(engines.UserError, "left to right", decode, slug, edits=[(1, engines.Edit(remask=[4]))])


@pytest.mark.parametrize("slug", CAUSAL[:2])  # ead's choice of a model remembers the entropies before the edit
def test_after_an_edit_a_causal_run_continues_as_from_a_longer_prompt(slug):
    prompt = [1, 2, 3, *decode(slug).output_ids[:2], 6]
    fork = decode(slug, edits=[(2, engines.Edit(force={5: 6}))])
    longer = engines.run(slug, model_for(slug), prompt, params={"max_new_tokens": 13})
    assert fork.output_ids[3:] == longer.output_ids


@pytest.mark.parametrize("slug", MASKED)
def test_hiding_again_in_an_earlier_block(slug):
    original = decode(slug, **({"threshold": 0.99} if slug in ("threshold", "creditdecoding", "adablock") else {}))
    after = next(i for i, c in enumerate(commits(original)) if any(p >= 8 for p in c))  # a later block is under way
    fork = sound(decode(slug, edits=[(after, engines.Edit(remask=[3, 6]))]))
    later = [p for s in fork.steps[after + 1 :] for p in s.commits.positions]
    assert {3, 6} <= set(later) and later.count(3) == 2  # hidden, then written
    end = sound(decode(slug, edits=[(len(original.steps) - 1, engines.Edit(remask=[3]))]))
    assert len(end.output_ids) == 16
    for position in (0, 2, 19, 10**6):
        refuses(engines.UserError, "cannot be edited", decode, slug, edits=[(0, engines.Edit(remask=[position]))])


@pytest.mark.parametrize(
    ("slug", "declared"),
    [(slug, p) for slug in MASKED + CAUSAL for p in engines.get_method(slug).info.params],
    ids=lambda one: getattr(one, "name", one),
)
def test_no_change_of_a_parameter_breaks_a_run(slug, declared):
    others = {"bool": [not declared.default], "text": ["x"]}.get(declared.kind)
    for value in declared.choices or others or [declared.low, declared.high]:
        try:
            trace = sound(decode(slug, edits=[(1, engines.Edit(params={declared.name: value}))]))
        except engines.UserError:
            continue  # refused with a sentence
        assert len(trace.output_ids) <= 16


P = 3  # prompt tokens
TARGET, MODEL = TableCausal(eos_ids=(EOS,), never=(EOS,)), TableMasked(eos_ids=(EOS,), never=(EOS,))


def causal(slug="greedy", **options):
    return engines.run(slug, TARGET, [1, 2, 3], params={"max_new_tokens": 12}, **options)


def masked(slug="llada", seed=0, **params):
    return engines.run(slug, MODEL, [1, 2, 3], params={"max_new_tokens": 16, "block_length": 4, **params}, seed=seed)


def fork(trace, step, **options):
    made = engines.fork(trace, step, model=TARGET if trace.header.canvas is None else MODEL, **options)
    check_consistency(engines.Trace.from_json(made.to_json()))
    assert board(made) == made.output_ids
    return made


@pytest.mark.parametrize("make", [causal, masked])
def test_every_step_can_be_forked_and_the_trace_says_from_where(make):
    trace, edit = make(), engines.Edit(forbid={P + 15: [0]})
    assert trace.header.origin is None
    for step in range(len(trace.steps) + 1):
        made = fork(trace, step, edit=edit)
        assert written(made)[:step] == written(trace)[:step]
        head = trace.header
        assert made.header.origin == engines.Origin(engines.digest(trace), step, head.method, head.title, edit)
        assert made.header.edits[0].after_step == step - 1 if made.header.edits else step == len(trace.steps)
    made = fork(trace, 0, edit=engines.Edit(force={P: 5}))  # before the first step
    first = made.steps[0].commits
    assert (first.positions[0], first.tokens[0], first.causes[0]) == (P, 5, "forced")
    assert made.output_ids[0] == 5 and len(made.output_ids) == len(trace.output_ids) and made.end.reason == "complete"


def test_a_fork_of_a_fork_keeps_the_edits_that_came_before_it():
    trace = masked()
    one = fork(trace, 4, edit=engines.Edit(force={P + 9: 5}))
    two = fork(one, 8, edit=engines.Edit(force={P + 10: 6}))
    assert [e.after_step for e in two.header.edits] == [3, 7] and two.output_ids[9:11] == [5, 6]
    earlier = fork(two, 6, edit=engines.Edit(force={P + 10: 4}))
    assert [e.after_step for e in earlier.header.edits] == [3, 5] and earlier.output_ids[9:11] == [5, 4]
    assert not earlier.end.message
    trace = masked()
    made = fork(trace, 0, method="threshold", params={"block_length": 4})
    assert made.header.method == "threshold" and made.header.origin.method == "llada" and made.header.edits == []
    assert made.output_ids == masked("threshold").output_ids


def test_changed_parameters_act_from_the_fork_on():
    trace = masked("threshold", threshold=1.01)
    made = fork(trace, 4, params={"threshold": 0.0})
    assert written(made)[:4] == written(trace)[:4] and len(written(made)[4]) > 1
    assert made.header.params == trace.header.params and not made.end.message
    assert made.header.edits[0].edit.params == {"threshold": 0.0}
    made = fork(masked(), 4, params={"block_length": 8, "temperature": 0.5})
    assert made.end.message == "The method did not look at block_length again after the change: it had no effect."
    short = engines.run("llada", MODEL, [1, 2, 3], params=masked().header.params, max_steps=5)
    assert fork(short, 5).output_ids == masked().output_ids, "a run that its budget stopped goes on"


def test_a_masked_method_keeps_the_board_and_a_fixed_schedule_shrinks_with_it():
    trace = masked("threshold", threshold=1.01)
    for step in (1, 6, 11):
        made = fork(trace, step, method="llada", params={"block_length": 4})
        assert len(made.steps) == len(trace.steps), "one token per forward before and after: no forward is idle"
        assert all(len(one) == 1 for one in written(made))
    half = fork(trace, 6, method="llada", params={"block_length": 4, "steps": 8})
    assert [len(one) for one in written(half)[6:]] == [2, 2, 2, 2, 2]
    made = fork(masked(), 4, method="llada", params={"block_length": 16, "steps": 4})  # the same method begins anew
    assert [len(one) for one in written(made)[4:]] == [4, 4, 4] and not made.end.message
    assert made.header.title == "LLaDA base, then LLaDA base"
    trace = masked("threshold", threshold=1.01)
    last = len(trace.steps) - 1
    place = trace.steps[last].commits.positions[0]
    made = fork(trace, last, method="llada", params={"block_length": 4}, edit=engines.Edit(force={place: 4}))
    assert made.output_ids[place - P] == 4
    assert not made.steps[last].forwards and "completed the answer" in made.steps[last].note


def test_a_live_run_can_switch():
    one = engines.stream("greedy", TARGET, [1, 2, 3], params={"max_new_tokens": 12})
    for _ in range(3):
        next(one)
    step = one.send(engines.Edit(method="token-recycling"))
    assert step.tree is not None and one.header.title.endswith("then Token Recycling")
    list(one)
    assert board(one.trace()) == one.trace().output_ids and len(one.trace().output_ids) == 12


def test_a_replay_that_parts_says_where():
    trace = causal()
    was = trace.steps[3].commits
    other = Commits(was.positions, [(was.tokens[0] + 1) % 7], ["greedy"])
    trace.steps[3] = msgspec.structs.replace(trace.steps[3], commits=other)
    made = fork(trace, 6, edit=engines.Edit(forbid={P + 11: [0]}))
    assert made.header.origin.diverged == 3
    assert made.end.message.startswith("the replay diverged from the recording at step 4 (“·")
    assert f"at position {P + 3}" in made.end.message
    assert not fork(trace, 3).end.message, "what came after the fork is not compared"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"step": 99}, "this run has 12 steps"),
        ({"step": 1.5}, "whole number"),
        ({"edit": engines.Edit(remask=[P])}, "no masks"),
        ({"edit": engines.Edit(force={0: 1})}, "cannot be forced"),
        ({"edit": engines.Edit(force={P: 10**6})}, "not in the vocabulary"),
        ({"params": {"max_new_tokens": 40}}, "settled when a run begins"),
        ({"method": "threshold"}, "needs a masked model and this run has a causal one"),
        ({"method": "speculative-sampling"}, "role 'draft'"),
        ({"method": "token-recycling", "params": {"nothing": 1}}, "unknown parameter"),
        ({"step": 12, "method": "token-recycling"}, "nothing is left"),
        ({"model": None}, "'table', which is not available here"),
    ],
)
def test_forks_that_cannot_be(options, sentence):
    refuses(engines.UserError, sentence, engines.fork, causal(), **{"step": 4, "model": TARGET, **options})
    refuses(engines.UserError, "detail=none", engines.fork, causal(detail="none"), 2, model=TARGET)


METHOD = '''
from engines.kit import MaskedLM, Params, Recorder, Steps, mask_positions, max_new_tokens, method, torch

@method("moving-board", title="Moving board", family="diffusion", paper="", summary="Takes out and puts in.",
        needs="masked", params=[max_new_tokens()], emits={"commits"})
def decode(model: MaskedLM, prompt: torch.Tensor, p: Params, run: Recorder) -> Steps:
    """Writes from the left; its third forward removes the second token and puts two masks in its place."""
    x, start = run.canvas(p.max_new_tokens), len(prompt)
    while len(masks := mask_positions(x, model.mask_id)):
        best = model(x)[masks[:1]].argmax(-1)
        if run.steps == 2:
            mask = torch.tensor([model.mask_id] * 2)
            x = torch.cat([x[: start + 1], mask, x[start + 2 :]])
            edit = yield run.step(
                commits=([start + 1, start + 2], mask, "edited"), removed=[start + 1], inserted=[start + 1, start + 2]
            )
        else:
            x[masks[:1]] = best
            edit = yield run.step(commits=(masks[:1], best, "top1"))
        x = run.apply_edit(edit, x)
'''


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Trace:
    path = tmp_path_factory.mktemp("moving") / "moving.py"
    path.write_text(METHOD)
    load_method_file(path)
    return engines.run("moving-board", "tiny-dlm", "sort: Mia, Leo, Ada", params={"max_new_tokens": 8})


def test_a_longer_board_is_decoded_stored_and_forked(made):
    start = len(made.header.prompt_ids)
    assert len(made.output_ids) == 9 and len(made.steps) == 11
    assert (made.steps[2].commits.removed, made.steps[2].commits.inserted) == ([start + 1], [start + 1, start + 2])
    assert Trace.from_json(made.to_json()).steps == made.steps
    assert engines.fork(made, 4).output_ids == made.output_ids
    forced = engines.fork(made, 4, edit=Edit(force={start + 8: made.output_ids[0]}))
    assert forced.output_ids[8] == made.output_ids[0] and len(forced.output_ids) == 9
    with pytest.raises(engines.UserError, match=f"the answer has positions {start} to {start + 8}"):
        engines.fork(made, 4, edit=Edit(force={start + 9: 3}))
    taken = engines.fork(made, 4, method="threshold")  # another method takes over a board that became longer
    assert len(taken.output_ids) == 9 and taken.output_ids[:1] == made.output_ids[:1]
    assert made.header.mask_id not in taken.output_ids


@pytest.mark.parametrize("value", [nan, inf])
@pytest.mark.parametrize(
    ("method", "name"),
    [
        *((one, "tiny-ar-s") for one in ("greedy", "temperature", "beam", "prompt-lookup")),
        *((one, "tiny-dlm") for one in ("threshold", "llada")),
    ],
)
def test_logits_that_are_no_numbers_end_a_run_in_a_sentence(method, name, value, monkeypatch):
    """togethercomputer/OpenChatKit#86, DLLXW/baby-llama2-chinese#33, baichuan-inc/Baichuan2#315."""
    calls = []

    def broken(plain):
        def call(self, *given, **named):
            result = plain(self, *given, **named)
            calls.append(1)
            if len(calls) > 1:
                getattr(result, "logits", result)[..., -1, 3] = value
            return result

        return call

    made = copy.copy(engines.load_model(name))
    kind = type(made)
    way = "extend" if made.record.kind == "causal" else "__call__"
    made.__class__ = type("Broken", (kind,), {way: broken(getattr(kind, way))})
    run = engines.stream(method, made, "sort: Mia, Leo, Ada" if name == "tiny-dlm" else "add: 1 + 1")
    refuses(engines.UserError, r"model in step \d+ are not numbers", list, run)
    trace = run.trace()
    assert trace.end.reason == "failed" and "NaN, infinity" in trace.end.message
    assert all(np.isfinite(p) for s in trace.steps if s.commits for p in s.commits.probabilities if p is not None)


def test_a_mask_of_some_tokens_is_legal_and_one_of_all_is_none():
    meter = Meter(step=3)
    for z in ([[-inf, 0.0]], [[0.0, -inf], [-inf, 1.0]], [[-1e38, -1e38]]):
        meter.check_numbers(torch.tensor(z), "target")
    meter.check_numbers(torch.empty(0, 5), "draft")
    for z in ([[-inf, -inf]], [[0.0, 1.0], [-inf, -inf]], [[0.0, nan]], [[0.0, 1.0], [inf, 0.0]]):
        refuses(engines.UserError, "of the draft model in step 3 are no", meter.check_numbers, torch.tensor(z), "draft")
