"""Will it help on my text: the verdict follows from the seconds, and a busy machine gets none. The clock is ours."""

import threading
from contextlib import contextmanager
from functools import cache
from itertools import cycle
from statistics import median

import msgspec
import pytest

import engines
from engines import UserError
from explorer.bench import chosen
from explorer.bench.advise import Progress, advise, measuring
from explorer.figures.advice import Advice, takes_of, text_of, worded
from explorer.figures.compare import Tie
from explorer.figures.noise import ROOM
from explorer.figures.pairs import near
from explorer.fitting import wants
from tests.explorer.figures.steady import quieten

MODEL, METHOD, CONTROL = "tiny-ar-m", "token-recycling", "greedy"
PROMPT = "story: Mia, boat"


@cache
def model():
    return engines.load_model(MODEL, dtype="float32")


@cache
def recorded(slug, prompt, length, detail):
    return quieten(engines.run(slug, model(), prompt, params={"max_new_tokens": length}, detail=detail))


class Clock:
    """A machine of ours: takes: seconds of the next run, by slug; plain: of the next plain token; lies: by slug the
    method whose run comes in its place; displaced: by number of the run, those during which others had the
    processor."""

    def __init__(self, takes, plain=(0.03,), lies=(), displaced=()):
        self.takes = {slug: cycle(seconds) for slug, seconds in takes.items()}
        self.tokens, self.lies, self.displaced, self.made = cycle(plain), dict(lies), set(displaced), []

    def run(self, slug, prompt, params, detail):
        trace = recorded(self.lies.get(slug, slug), prompt, params["max_new_tokens"], detail)
        if detail == "none":
            self.made.append(slug)
            if len(self.made) in self.displaced:
                end = msgspec.structs.replace(trace.end, processor_seconds=trace.end.called_seconds / (2 * ROOM))
                trace = msgspec.structs.replace(trace, end=end)
        return next(self.takes[slug]) if detail == "none" else 9.0, trace

    def plain(self):
        return next(self.tokens)

    def rows(self, sizes):
        return {n: 0.03 + 0.001 * (n - 1) for n in sizes}


def measured(clock, *prompts, stopped=lambda: False, **options):
    """(the record, what was told on the way, the traces)."""
    options = {"methods": [METHOD], "max_new_tokens": 24, "instrument": clock, "stopped": stopped, **options}
    going, told = measuring(model(), prompts or [PROMPT], **options), []
    while True:
        try:
            told.append(next(going))
        except StopIteration as end:
            return end.value.advice, told, end.value.traces


def judged(ours, control=(1.0,), **more):
    found, _, _ = measured(Clock({CONTROL: control, METHOD: ours}, **more))
    return found.methods[0]


@pytest.mark.parametrize(
    ("ours", "control", "word", "verdict"),
    [
        ([1 / 1.3, 1 / 1.4, 1 / 1.5, 1 / 1.35, 1 / 1.45, 1 / 1.6], [1.0], "helps", "helps: 1.30× to 1.60×"),
        ([1 / 0.8, 1 / 0.95, 1 / 0.9], [1.0], "hurts", "does not help: 0.80× to 0.95×"),
        ([1 / 0.97, 1 / 1.05, 1.0], [1.0], "even", "no difference can be seen: 0.97× to 1.05×"),
        # a machine that gets slower from repeat to repeat hits both alike: pairs are of the same repeat
        ([n / 1.4 for n in range(1, 7)], range(1, 7), "helps", "helps: 1.40× to 1.40×"),
    ],
)
def test_a_verdict_is_where_the_whole_interval_lies(ours, control, word, verdict):
    one = judged(ours, control)
    assert (one.word, one.verdict, one.text) == (word, verdict, "Same text as the control.")
    assert (one.values, one.unit, one.left_out) == (6, "repeat", 0)
    ratios = sorted(b / a for a, b in zip(ours, [*control] * 6, strict=False))
    assert (one.low, one.high) == (pytest.approx(ratios[0]), pytest.approx(ratios[-1]))
    assert one.speed == pytest.approx(median(ratios))


@pytest.mark.parametrize(
    ("ours", "machine"),
    [
        ([0.7], {"plain": [0.03, 0.03, 0.12]}),
        ([0.7], {"displaced": range(1, 99, 2)}),
        ([0.1], {}),  # a ratio that the calls cannot explain is the machine's
    ],
)
def test_a_busy_machine_gets_no_verdict(ours, machine):
    one = judged(ours, **machine)
    assert one.word == "busy" and one.verdict == "this machine is too busy to say"
    if "plain" in machine:
        assert one.left_out > 0 and not one.takes and "drafting" not in one.why, "what its calls cost says nothing then"


def test_methods_take_turns_with_their_control_and_what_was_disturbed_is_made_again():
    clock = Clock({CONTROL: [1.0], METHOD: [1 / 1.4]}, displaced=[3])
    one = measured(clock)[0].methods[0]
    assert (one.word, one.values, one.left_out) == ("helps", 6, 1) and len(clock.made) == 14
    clock = Clock({CONTROL: [1.0], METHOD: [0.8], "prompt-lookup": [0.9]})
    found, told, traces = measured(clock, methods=[METHOD, "prompt-lookup"])
    rounds = [clock.made[i : i + 3] for i in range(0, len(clock.made), 3)]
    assert len(rounds) == 6 and all(sorted(one) == sorted(traces) for one in rounds) and rounds[0] != rounds[1]
    assert told[0] == Progress(engines.get_method(CONTROL).info.title, 0, 21) and told[-1].done == 20
    assert [one.method for one in found.methods] == [METHOD, "prompt-lookup"] and next(iter(traces)) == CONTROL


def test_another_text_is_said_before_any_speed():
    found, _, _ = measured(Clock({CONTROL: [1.0], METHOD: [0.5]}, lies={METHOD: "temperature"}))
    one = found.methods[0]
    assert one.word == "other" and one.verdict == "not the same text" and one.same == 0
    assert one.parts.startswith("Parts at token ") and "gap" in one.parts and not one.tied
    assert found.sentence == "No method here gives the control's text."
    assert one.text.endswith("They are not a near tie: rounding does not explain it.")
    tied = msgspec.structs.replace(one, word="even", tied=True, far=False)
    assert text_of(tied).endswith("rounding decides between them.")
    assert not near(None, "bfloat16")
    assert near(Tie((20.0, 19.875), (20.0, 19.9)), "bfloat16"), "two steps of bfloat16 at 20 are 0.25"
    assert not near(Tie((20.0, 19.875), (20.0, 19.875)), "float32")
    assert near(Tie((20.0, 19.5), (19.7, 19.8)), "float32"), "in one forward the network prefers the other itself"
    assert not near(Tie((20.0, 18.0), (20.1, 18.1)), "bfloat16")


def test_why_and_what_it_takes_are_counted_and_measured():
    one = judged([1 / 0.9])
    trace = recorded(METHOD, PROMPT, 24, "full")
    calls = [step.forwards["target"] for step in trace.steps[1:]]
    tokens = [len(step.commits.positions) for step in trace.steps[1:]]
    assert one.seconds == (1.0, 1 / 0.9) and one.tokens == len(trace.output_ids)
    assert one.tokens_per_call == pytest.approx(sum(tokens) / sum(calls))
    assert one.rows > 1 and one.rows_cost == pytest.approx(1 + (round(one.rows) - 1) / 30)
    assert one.need == pytest.approx(1.0), "on this clock each call takes as long as a plain token"
    assert f"{one.tokens_per_call:.2f} tokens per model call" in one.why and f"{one.rows_cost:.2f}" in one.why
    assert one.takes.startswith("With drafting and checking it pays from 1.00 tokens per call (1.00 to 1.00, ")
    within = msgspec.structs.replace(one, word="even", need_low=1.0, need_high=one.tokens_per_call + 0.1)
    short = msgspec.structs.replace(within, need=2.0, need_low=1.9, need_high=2.1, tokens_per_call=1.2)
    for found, said in ((within, "within that, so they do not tell"), (short, "That is 0.80 more than it writes.")):
        assert said in takes_of(found)
    even = judged([1 / 0.97, 1 / 1.05, 1.0])
    more = msgspec.structs.replace(even, need=1.0, need_low=1.0, need_high=1.0, tokens_per_call=1.2)
    assert even.word == "even" and "It writes more, but whole runs" in takes_of(more)


def test_a_stop_judges_what_there_is():
    clock = Clock({CONTROL: [1.0], METHOD: [0.8]})
    found, _, _ = measured(clock, stopped=lambda: len(clock.made) >= 5)
    one = found.methods[0]
    assert found.ended == "stopped" and one.word == "few" and one.values == 2
    assert one.verdict == "too few repeats to say: 2 of at least 6"
    clock = Clock({CONTROL: [1.0], METHOD: [1 / 1.2, 1 / 1.4, 1 / 1.3]})
    found, _, _ = measured(clock, stopped=lambda: len(clock.made) >= 6)
    one = found.methods[0]
    assert (one.word, one.values, one.level) == ("few", 3, 0.75) and "seems to help on this text here" in found.sentence
    assert one.verdict == "seems to help: 1.20× to 1.40× in 3 repeats"
    nothing, _, traces = measured(Clock({}), stopped=lambda: True)
    assert nothing.sentence == "Stopped before any method could be compared." and not traces
    late, _, _ = measured(Clock({CONTROL: [1.0], METHOD: [0.8]}), seconds=1e-9)
    assert late.ended == "time" and "not even one run" in late.sentence


def test_the_record_names_its_conditions_and_is_json_and_its_interval_is_over_six_prompts():
    prompts = [f"story: {name}, boat" for name in ("Mia", "Leo", "Ada", "Tom", "Eva", "Ben")]
    found, _, _ = measured(Clock({CONTROL: [1.0], METHOD: [1 / 1.3]}), *prompts)
    one = found.methods[0]
    assert (found.repeats, one.unit, one.values, one.prompts) == (3, "prompt", 6, 6)
    assert one.low <= one.speed <= one.high
    assert msgspec.json.decode(msgspec.json.encode(found), type=Advice) == found
    for said in (MODEL, "float32", "thread", "6 prompts", "batch 1", "at most 24 new tokens", found.machine):
        assert said in found.conditions
    half = msgspec.structs.replace(found, model=msgspec.structs.replace(found.model, dtype="bfloat16"))
    assert "promises" not in found.conditions and "no method promises the same text" in worded(half).conditions


def test_this_machines_own_clock_measures_a_model_with_one_lock_around_its_calls():
    lock, held, told = threading.Lock(), [], []

    @contextmanager
    def guard():
        assert lock.acquire(timeout=5), "it was taken twice"
        held.append(True)
        yield
        lock.release()

    going = measuring(model(), [PROMPT], [METHOD], max_new_tokens=4, guard=guard)
    for _ in going:
        assert not lock.locked(), "between two runs others may go on"
    assert len(held) > 28
    params = {METHOD: {"template": "7"}}
    found = advise(model(), PROMPT, [METHOD], params=params, max_new_tokens=4, progress=told.append)
    one = found.methods[0]
    assert one.params == {"template": "7"} and one.label == "Token Recycling (template=7)"
    assert found.plain_seconds > 0 and found.row_seconds[1] > 0 and found.ended == "complete" and len(told) >= 14


def test_methods_are_chosen_by_what_they_need_and_what_was_measured():
    found = chosen.chosen(model())
    assert [bool(wants(info)) for info in found] == [False, False, True]
    assert all(info.lossless and info.baseline for info in found)
    alone = chosen.chosen(engines.load_model("tiny-ar-s"))
    assert alone and not any(wants(info) for info in alone), "it has no draft and no trained part"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"methods": ["greedy"]}, "'greedy' is a control itself"),
        ({"methods": ["stand"], "params": {"stand": {"temperature": 1}}}, "leave it at 0"),
        ({"methods": ["medusa"], "model": "tiny-ar-s"}, "lossless methods that fit it: "),
        ({"params": {"medusa": {"x": 1}}}, "parameters are given for 'medusa'"),
        ({"methods": ["rapid"]}, "give it eta=0.0"),
        ({"seconds": 0}, "seconds=0 is not allowed"),
        ({"repeats": 3}, "repeats=3 gives no interval"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(options, says):
    given = {"model": model(), "methods": [METHOD], **options}
    with pytest.raises(UserError, match=says):
        advise(given.pop("model"), PROMPT, given.pop("methods"), **given)
