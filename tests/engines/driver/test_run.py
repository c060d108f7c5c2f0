"""The driver: stopping, failing, budgets, seeds, edits. On fake methods, and on the installed ones over tables of
logits."""

import msgspec
import pytest

import engines
from engines.core.method import method
from engines.core.params import Float, max_new_tokens
from engines.core.trace import check_consistency
from engines.driver import run as driver
from engines.driver.run import Run
from tests.engines.fakes import TableCausal, TableMasked, board, commits

MASKED = ["llada", "threshold", "factor", "creditdecoding", "adablock"]
CAUSAL = ["greedy", "token-recycling", "ead"]
EOS = 7


def model_for(slug, **options):
    if slug in MASKED:
        return TableMasked(**options)
    if slug == "ead":
        return {
            "large": TableCausal(seed=1, parameters=30, **options),
            "small": TableCausal(seed=2, scale=0.8, **options),
        }
    return TableCausal(**options)


def decode(slug, *, edits=(), seed=0, eos_ids=(EOS,), **params):
    sizes = {"max_new_tokens": 16, **({"block_length": 4} if slug in MASKED else {})}
    model = model_for(slug, eos_ids=eos_ids, never=eos_ids)  # the end mark comes from edits only
    return engines.run(slug, model, [1, 2, 3], params={**sizes, **params}, seed=seed, edits=edits)


def facts(trace):
    return [
        msgspec.structs.replace(s, model_seconds=0.0, method_seconds=0.0) for s in trace.steps
    ], trace.end.output_ids


def sound(trace):
    check_consistency(trace)
    assert board(trace) == trace.output_ids
    assert trace.end.reason == "complete" and trace.totals.masks_left == 0
    return trace


# --- a method of our own ---------------------------------------------------------------------------------------------


def make(body, **options):
    declared = [max_new_tokens(8), Float("x", 0, 0, 1, help="")]
    return method(
        "fake", title="", family="fake", paper="", summary="", needs="causal", params=declared, emits=set(), **options
    )(body)


def start(body, prompt=(1, 2), **options):
    return Run(make(body), {"target": TableCausal()}, prompt, **options)


def count(model, prompt, p, run):
    cache, ids = model.new_cache(64), list(prompt)
    while len(ids) < len(prompt) + p.max_new_tokens:
        model.extend(ids[cache.length :], cache)
        ids = [*ids, 5]
        ids = run.apply_edit((yield run.step(commits=([len(ids) - 1], [5], "greedy"))), ids, cache)


def test_an_answer_is_no_longer_than_what_its_model_can_write():
    model = TableCausal()
    model.longest_answer = 5
    run = Run(make(count), {"target": model}, (1, 2))
    assert len(list(run)) == run.header.params["max_new_tokens"] == 5
    assert Run(make(count), {"target": model}, (1, 2), params={"max_new_tokens": 3}).header.params == {
        "max_new_tokens": 3,
        "x": 0.0,
    }


def test_a_plain_run_binds_no_method(monkeypatch):
    def never(*_):
        raise AssertionError

    for name in ("BoundMethod", "bind", "announce", "room_left"):
        monkeypatch.setattr(driver, name, never)
    assert len(list(start(count))) == 8


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
    with pytest.raises(engines.UserError, match="not over"):
        one.send(engines.Edit())


def test_closing_before_the_first_step_runs_nothing():
    one = start(count)
    one.close()
    trace = one.trace()
    assert (trace.steps, trace.output_ids, trace.end.wall_seconds, trace.end.reason) == ([], [], 0, "stopped")
    check_consistency(trace)


@pytest.mark.parametrize(
    "error", [RuntimeError("broke"), engines.UserError("a sentence"), MemoryError(), KeyboardInterrupt()]
)
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


def test_a_consumer_that_throws_stops_the_method():
    log = []

    def body(model, prompt, p, run):
        try:
            yield from count(model, prompt, p, run)
        finally:
            log.append("finally")

    engine = make(body)
    one = Run(engine, {"target": TableCausal()}, [1])
    with pytest.raises(ZeroDivisionError):
        try:
            for _ in one:
                1 / 0  # noqa: B018
        finally:
            one.close()
    assert log == ["finally"]


def test_budgets_hold_and_say_so():
    trace = start(count, max_steps=3)
    assert len(list(trace)) == 3 and trace.trace().end.reason == "budget" and "3 steps" in trace.trace().end.message
    assert list(start(count, max_steps=0)) == []
    slow = start(count, max_seconds=0.0)
    assert len(list(slow)) < 8 and slow.trace().end.reason == "budget"


def test_a_run_that_ends_with_its_last_permitted_step_is_complete():
    whole = start(count)
    steps = len(list(whole))
    exact = start(count, max_steps=steps)
    assert len(list(exact)) == steps and exact.end().reason == "complete" and exact.end().message == ""
    assert exact.end().output_ids == whole.end().output_ids
    short = start(count, max_steps=steps - 1)
    assert len(list(short)) == steps - 1 and short.end().reason == "budget"
    late = start(count, max_steps=steps, edits=[(steps - 1, engines.Edit(force={2: 4}))])
    assert len(list(late)) == steps and late.end().reason == "budget"  # the edit would have needed one more


def test_a_run_whose_time_is_up_with_its_last_step_is_complete(monkeypatch):
    one = start(count, max_seconds=3600)
    for _ in range(8):
        next(one)
    one._max_seconds = -1.0
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
    calls = []
    monkey = model.extend
    model.extend = lambda *a, **k: calls.append(a) or monkey(*a, **k)
    two = Run(make(count), {"target": model}, (1, 2), max_steps=3)
    assert len(list(two)) == 3 and len(calls) == 3 and two.end().reason == "budget"


def test_times_add_up():
    one = start(count)
    list(one)
    end, sums = one.trace().end, one.trace().totals
    assert 0 <= sums.model_seconds + sums.method_seconds <= end.wall_seconds
    assert 0 <= end.record_seconds <= end.wall_seconds


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, "1", None, True])
def test_seeds_that_are_none(seed):
    with pytest.raises(engines.UserError, match="seed"):
        start(count, seed=seed)


@pytest.mark.parametrize("prompt", ["", " \n", [], [8], [-1], ["a"], None, 3, [None], "1 \ud800", [float("inf")]])
def test_prompts_that_are_none(prompt):
    with pytest.raises(engines.UserError):
        start(count, prompt)


def test_room_is_checked_before_anything_runs():
    with pytest.raises(engines.UserError, match="room for 20"):
        engines.stream("greedy", TableCausal(max_positions=20), [1] * 5, params={"max_new_tokens": 16})
    assert (
        engines.run("greedy", TableCausal(max_positions=20), [1] * 4, params={"max_new_tokens": 16}).totals.tokens == 16
    )


@pytest.mark.parametrize("model", [None, {}, {"target": None}, {"draft": TableCausal()}])
def test_missing_models_are_a_sentence(model):
    with pytest.raises(engines.UserError, match="role"):
        engines.run("greedy", model, [1])


@pytest.mark.parametrize("edits", [[(-2, engines.Edit())], [(0, {"force": {}})], [("0", engines.Edit())]])
def test_edits_that_are_none(edits):
    with pytest.raises(engines.UserError, match="after_step"):
        start(count, edits=edits)


@pytest.mark.parametrize(
    "edit",
    [
        engines.Edit(force={3: 8}),
        engines.Edit(force={3: -1}),
        engines.Edit(forbid={3: [10**9]}),
        engines.Edit(forbid={-1: [0]}),
    ],
)
@pytest.mark.parametrize("slug", ["greedy", "threshold"])
def test_edits_with_ids_that_are_none_are_refused_and_the_run_goes_on(slug, edit):
    model = TableMasked(vocab_size=8) if slug == "threshold" else TableCausal(vocab_size=8)
    with pytest.raises(engines.UserError, match="edit"):
        engines.stream(slug, model, [1], edits=[(0, edit)])
    one = engines.stream(slug, model, [1], params={"max_new_tokens": 6})
    next(one)
    with pytest.raises(engines.UserError, match="edit"):
        one.send(edit)
    assert list(one) and one.trace().end.reason == "complete" and one.header.edits == []


# --- edits in the middle of the installed methods --------------------------------------------------------------------


@pytest.mark.parametrize("slug", MASKED + CAUSAL)
@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("offset", [0, 1])
def test_force_at_any_step(slug, after, offset):
    """What is written already, and what is written next: that stands as it was forced when its turn comes."""
    original = decode(slug, eos_ids=())
    at = 3 + offset
    token = (original.output_ids[offset] + 1) % 6
    fork = sound(decode(slug, eos_ids=(), edits=[(after, engines.Edit(force={at: token}))]))
    assert fork.output_ids[offset] == token and len(fork.output_ids) == 16
    assert [facts(fork)[0][i] for i in range(after + 1)] == facts(original)[0][: after + 1]
    again = decode(slug, eos_ids=(), edits=[(e.after_step, e.edit) for e in fork.header.edits])
    assert facts(again) == facts(fork)


@pytest.mark.parametrize("slug", CAUSAL)
def test_forcing_an_end_mark_ends_the_text_there(slug):
    fork = sound(decode(slug, eos_ids=(EOS,), edits=[(1, engines.Edit(force={4: EOS}))]))
    assert fork.output_ids[1] == EOS and len(fork.output_ids) == 2 and fork.totals.tokens == 1
    assert fork.steps[-1].commits.causes[-1] == "forced"


@pytest.mark.parametrize("slug", MASKED)
def test_forcing_an_end_mark_on_a_board(slug):
    fork = sound(decode(slug, edits=[(0, engines.Edit(force={5: EOS}))]))
    assert fork.output_ids[2] == EOS and fork.totals.tokens <= 2


@pytest.mark.parametrize("slug", MASKED + CAUSAL)
def test_forcing_the_last_position(slug):
    """Whether or not anything is left to decode, the edit shows on the board."""
    original = decode(slug, eos_ids=())
    for after in {0, len(original.steps) - 2, len(original.steps) - 1}:
        if slug in CAUSAL and after == 0:
            continue
        one = engines.stream(
            slug,
            model_for(slug),
            [1, 2, 3],
            params={"max_new_tokens": 16, **({"block_length": 4} if slug in MASKED else {})},
        )
        for _ in range(after + 1):
            next(one)
        written = len(one.trace().output_ids)
        one.send(engines.Edit(force={3 + (15 if slug in MASKED else min(written, 15)): 6}))
        list(one)
        fork = sound(one.trace())
        assert fork.output_ids[15 if slug in MASKED else min(written, 15)] == 6 and len(fork.output_ids) == 16


@pytest.mark.parametrize("slug", CAUSAL)
def test_several_forced_tokens_follow_each_other(slug):
    assert sound(decode(slug, eos_ids=(), edits=[(2, engines.Edit(force={4: 0, 3: 6, 5: 1}))])).output_ids[:3] == [
        6,
        0,
        1,
    ]
    for wrong in ({3: 6, 5: 1}, {2: 1}, {99: 1}):
        with pytest.raises(engines.UserError, match=r"force|gap"):
            decode(slug, edits=[(1, engines.Edit(force=wrong))])
    with pytest.raises(engines.UserError, match="left to right"):
        decode(slug, edits=[(1, engines.Edit(remask=[4]))])


@pytest.mark.parametrize("slug", CAUSAL)
def test_after_an_edit_a_causal_run_continues_as_from_a_longer_prompt(slug):
    original = decode(slug, eos_ids=())
    fork = decode(slug, eos_ids=(), edits=[(2, engines.Edit(force={5: 6}))])
    prompt = [1, 2, 3, *original.output_ids[:2], 6]
    if slug != "ead":  # whose model choice remembers the entropies before the edit
        assert (
            fork.output_ids[3:] == engines.run(slug, model_for(slug), prompt, params={"max_new_tokens": 13}).output_ids
        )


@pytest.mark.parametrize("slug", MASKED)
def test_hiding_again_in_an_earlier_block(slug):
    original = decode(
        slug, eos_ids=(), **({"threshold": 0.99} if slug in ("threshold", "creditdecoding", "adablock") else {})
    )
    after = next(i for i, c in enumerate(commits(original)) if any(p >= 8 for p in c))  # a later block is under way
    fork = sound(decode(slug, eos_ids=(), edits=[(after, engines.Edit(remask=[3, 6]))]))
    later = [p for s in fork.steps[after + 1 :] for p in s.commits.positions]
    assert {3, 6} <= set(later) and later.count(3) == 2  # hidden, then written
    end = sound(decode(slug, eos_ids=(), edits=[(len(original.steps) - 1, engines.Edit(remask=[3]))]))
    assert len(end.output_ids) == 16
    for position in (0, 2, 19, 10**6):
        with pytest.raises(engines.UserError, match="cannot be edited"):
            decode(slug, edits=[(0, engines.Edit(remask=[position]))])


@pytest.mark.parametrize("slug", ["threshold", "creditdecoding", "adablock"])
def test_parameters_change_in_the_middle(slug):
    def sizes(trace):
        return [len(c) for c in commits(trace)]

    slow = decode(slug, eos_ids=(), threshold=1.0, block_length=16)
    fork = sound(
        decode(slug, eos_ids=(), threshold=1.0, block_length=16, edits=[(2, engines.Edit(params={"threshold": 0.0}))])
    )
    assert sizes(fork)[:3] == sizes(slow)[:3] and len(fork.steps) < len(slow.steps)
    assert fork.header.params["threshold"] == 1.0  # what it began with


@pytest.mark.parametrize(
    ("slug", "name"), [(slug, p.name) for slug in MASKED + CAUSAL for p in engines.get_method(slug).info.params]
)
def test_no_change_of_a_parameter_breaks_a_run(slug, name):
    declared = next(p for p in engines.get_method(slug).info.params if p.name == name)
    values = (
        declared.choices
        or {"bool": [not declared.default], "text": ["x"]}.get(declared.kind)
        or [declared.low, declared.high]
    )
    for value in values:
        try:
            trace = sound(decode(slug, eos_ids=(), edits=[(1, engines.Edit(params={name: value}))]))
        except engines.UserError:
            continue  # refused with a sentence
        assert len(trace.output_ids) <= 16


@pytest.mark.parametrize("params", [{"no": 1}, {"max_new_tokens": "many"}, {"temperature": 1e9}])
def test_bad_parameters_in_an_edit_are_a_sentence(params):
    with pytest.raises(engines.UserError):
        decode("threshold", edits=[(0, engines.Edit(params=params))])
