"""Two runs side by side: certificate, near-tie, pace, and when a ratio of seconds is no verdict."""

import json
import re

import msgspec
import pytest

import engines
from explorer.bench import classes
from explorer.export.report import report
from explorer.figures.compare import (
    Difference,
    Pace,
    certificate,
    control_of,
    difference,
    near_tie,
    pace,
    saved_at_end,
    whole_run,
)
from explorer.figures.metrics import measure
from explorer.figures.noise import LEAST, ROOM, SHARE, explained, stalled, too_busy
from explorer.figures.strip import basis_of, parts
from explorer.figures.verdict import cut_at, judge
from explorer.page import tables
from explorer.page.catalogue import Form
from explorer.page.handlers.running import ties
from explorer.page.run_limits import Limits
from explorer.page.tables import against
from tests.engines.fakes import TableCausal
from tests.explorer.figures.steady import quieten

PROMPT = "add: 457 + 86"
HOME = Limits(1000, 100, 60, False)


def model():
    return engines.load_model("tiny-ar-l", dtype="float32")


@pytest.fixture(scope="module")
def pair():
    plain = engines.run("greedy", model(), PROMPT, params={"max_new_tokens": 64})
    return engines.run("speculative-sampling", model(), PROMPT), plain


def test_where_outputs_part_is_told_in_tokens_or_characters_and_as_far_as_both_go(pair):
    ours, control = pair
    assert difference(ours, control) == Difference("token", None, control.totals.tokens, False)
    texts = [part.text for part in parts(ours, control)]
    assert f"same text as {control.header.title}" in texts
    other = engines.Trace.from_json(control.to_json())
    other.end.output_ids[2] = other.end.output_ids[0]
    apart = difference(ours, other)
    assert (apart.unit, apart.at, apart.count, apart.respelled) == ("token", 2, control.totals.tokens, True)
    other.header.missing = ["token_ids"]
    assert difference(ours, other) == Difference("character", None, len(ours.text), False)
    other.end.reason, other.end.text = "stopped", ours.text[:2]
    assert difference(ours, other) == Difference("character", None, 2, True)
    assert f"same text as {control.header.title} as far as both go" in [part.text for part in parts(ours, other)]


def test_a_lossless_run_is_certified(pair):
    ours, control = pair
    held = certificate(ours, control)
    assert (held.at, held.tokens) == (None, control.totals.tokens)
    assert held.sentence == f"Same {held.tokens} tokens (float32)." and near_tie(model(), ours, control) is None
    forged = engines.Trace.from_json(ours.to_json())
    forged.end.output_ids[3] = forged.end.output_ids[0]
    held = certificate(forged, control)
    assert held.at == 3 and held.control and "Parts at token 4" in held.sentence
    tie = near_tie(model(), forged, control)
    assert tie.gap > 1 and tie.alone == pytest.approx(tie.together, abs=1e-3), "the model is sure of its own token"
    assert f"gap {tie.gap:.3f}" in certificate(forged, control, tie).sentence
    stopped = engines.run("speculative-sampling", model(), PROMPT, max_steps=2)
    held = certificate(stopped, control)
    assert (held.at, held.tokens, held.limited) == (None, len(stopped.output_ids), True)
    assert "as far as both go" in held.sentence
    stopped.end.output_ids[2] = stopped.end.output_ids[0]
    assert certificate(stopped, control).at == 2
    longer = engines.run("greedy", model(), PROMPT, params={"max_new_tokens": 100})
    assert not certificate(ours, longer).limited, "asked for more, but both come to their own end"


@pytest.mark.parametrize(
    ("slug", "params", "drawn"),
    [
        ("medusa", {"acceptance": "typical", "max_new_tokens": 16}, False),  # lossless with other parameters alone
        ("speculative-sampling", {"max_new_tokens": 64}, True),
    ],
)
def test_above_temperature_0_no_text_is_promised(pair, slug, params, drawn):
    hot = engines.run(slug, model(), PROMPT, params={"temperature": 1.5, **params})
    cell = json.loads(tables.results({0: pair[1], 1: hot}))["rows"][1][-1]
    assert ("it draws as plain sampling does" in cell["text"]) == drawn == ("sampling" in cell["text"])
    assert "Parts" not in cell["text"] and "mark" not in cell


def test_a_control_has_prompt_model_and_forwards_of_its_run_or_its_other_rounding_is_told(pair):
    ours, control = pair
    other = engines.run("greedy", engines.load_model("tiny-ar-m", dtype="float32"), PROMPT)
    elsewhere = engines.run("greedy", model(), "add: 1 + 2")
    assert control_of(ours, {0: ours, 1: other, 2: elsewhere, 3: control}) is control
    assert control_of(ours, {0: ours, 1: other, 2: elsewhere}) is control_of(control, {0: ours, 1: control}) is None
    mine, invariant = (engines.Trace.from_json(one.to_json()) for one in pair)
    for one in (mine, invariant):
        one.header.models[0].options = {"row_invariant": True}
    shown = {0: control, 1: invariant, 2: mine, 3: ours}
    assert control_of(mine, shown) is invariant and control_of(ours, shown) is control
    assert control_of(mine, {0: control, 2: mine}) is control
    mine.end.output_ids[3] = mine.end.output_ids[0]
    rounded, broken = against(mine, control, None, 0), against(mine, invariant, None, 0)
    assert "Only one of the two has row-invariant forwards" in rounded["text"] and "mark" not in rounded
    assert "Only one of the two" not in broken["text"] and broken["mark"] == "wrong"
    texts = {0: control, 1: mine}
    plans = [Form(one.header.method, "tiny-ar-l", {}) for one in texts.values()]
    assert not ties(plans, texts, HOME), "the logits of one network explain no other's choice"
    mine.header.models[0].options = {}
    assert list(ties(plans, texts, HOME)) == [1]


def test_the_pace_is_what_the_steps_measured(pair):
    """Times set by hand: a round of 40 ms that gains 2 tokens against 30 ms per plain token."""
    ours, control = (engines.Trace.from_json(t.to_json()) for t in pair)
    for trace, seconds in ((ours, 0.04), (control, 0.03)):
        quieten(trace, seconds)
    found = pace(ours, control)
    gained = sum(len(s.commits.positions) for s in ours.steps[1:]) / (len(ours.steps) - 1)
    assert found.break_even == pytest.approx(4 / 3) and found.gained == gained
    assert found.speed == pytest.approx(gained * 0.75) and "1.33 tokens" in found.sentence
    paces = {"faster": found, "slower, 0.90×": Pace(0.04, 0.03, 1.2, 5), "as fast": Pace(0.03, 0.03, 1.0, 5)}
    for said, one in paces.items():
        assert one.sentence.startswith(f"After the prompt, by the median round: {said}")
    assert pace(control, control) is None
    told = [f"Tokens per second of the whole run, prompt included: {whole_run(ours, control):.2f}×.", found.sentence]
    cell = json.loads(tables.results({0: control, 1: ours}))["rows"][1][-1]
    assert [part["text"] for part in cell["parts"][1:]] == told and cell["run"] == 1, "two ratios, each with its name"
    gain, slow, plain = (float(x) for x in re.findall(r"[0-9.]+", cell["parts"][2]["receipt"]["terms"]))
    assert gain / (slow / plain) == pytest.approx(found.speed, abs=0.02), "the terms give the ratio"
    rates = [{m.name: m for m in measure(one)}["tokens_per_second"].value for one in (ours, control)]
    assert whole_run(ours, control) == pytest.approx(rates[0] / rates[1])


def test_the_benchmark_by_class_measures_what_it_says():
    table, seen = TableCausal(memory=1, vocab_size=6), []
    table.tokenizer.encode_prompt = lambda text: [1, 2, 3]
    asked = {"repeats": 2, "max_new_tokens": 20, "progress": lambda *n: seen.append(n)}
    found = classes.bench_classes([("token-recycling", {})], table, {"a": ["x", "y"], "b": ["z"]}, **asked)
    assert seen[-1] == (3, 3) and found.control == "greedy" and found.classes() == ["a", "b"]
    assert [(s.group, s.prompts, s.same) for s in found.scores] == [("a", 2, 2), ("b", 1, 1)]
    run = engines.run("token-recycling", table, [1, 2, 3], params={"max_new_tokens": 20})
    alone = found.scores[1]
    assert alone.tokens_per_forward == pytest.approx(20 / run.totals.forwards) and alone.slowest == alone.fastest
    assert classes.rows(found)[0]["same text"] == "3 of 3"


def test_a_method_is_faster_only_where_its_interval_says_so_and_the_verdict_says_why_it_loses():
    """The median over nine classes, whose interval goes from the second least to the second most."""
    sure, unsure, slow = (0.9, 1.1, *[1.2] * 7), (0.8, 0.9, *[1.2] * 7), (1.3, 0.8, *[0.7] * 7)
    scores = [
        classes.Score(name, {}, f"class {i}", 2, speed, speed, speed, 3.0, 8.0, 2)
        for name, speeds in (("unsure", unsure), ("sure", sure), ("slow", slow))
        for i, speed in enumerate(speeds)
    ]
    found = classes.Bench([], "greedy", "", {}, 8, 1, {1: 0.04, 4: 0.05, 12: 0.07}, scores)
    lines = {line["method"]: line for line in classes.rows(found)}
    assert lines["sure"]["median class"] == lines["unsure"]["median class"] == "1.20×"
    assert (lines["sure"]["95 %"], lines["unsure"]["95 %"]) == ("1.10-1.20", "0.90-1.20")
    assert lines["sure"]["verdict"] == "faster" and lines["slow"]["verdict"].startswith("slower: drafting costs more")
    assert lines["unsure"]["verdict"] == "not told apart from the control"
    assert [found.break_even(n) for n in (8, 1, 99)] == pytest.approx([1.5, 1, 1.75])
    one = classes.Score("m", {}, "chat", 1, 0.8, 0.8, 0.8, 1.2, 8.0, 1)
    (line,) = classes.rows(msgspec.structs.replace(found, scores=[one]))
    assert line["95 %"] == "-" and line["verdict"].endswith("; 1 classes are too few for an interval")
    assert line["verdict"].startswith("slower: its forwards of about 8 rows pay from 1.50 tokens on")


def test_what_the_rule_for_the_end_saves_is_told_apart_from_what_the_method_saves():
    """Without credit the method is its control with such a rule, so all that it saves is the rule's."""
    calls = lambda run: run.totals.forwards  # noqa: E731
    prompt = "sort: Mia, Leo, Ada"
    control = engines.run("threshold", "tiny-dlm", prompt)
    rule = engines.run("creditdecoding", "tiny-dlm", prompt, params={"credit_alpha": 0.0})
    without = engines.run("creditdecoding", "tiny-dlm", prompt, params={"credit_alpha": 0.0, "stop_at_end": False})
    assert calls(rule) < calls(control)
    assert saved_at_end(rule, control) == (calls(control) - calls(rule), calls(control))
    assert saved_at_end(without, control) is None and calls(without) == calls(control)
    told = against(rule, control, None, 0)
    assert f"{calls(control) - calls(rule)} of its {calls(control)} model calls" in told["text"]
    assert "end mark" not in against(without, control, None, 0)["text"]
    assert "wrote only what is" in parts(rule, control)[-1].text, "in the sentence that counts the calls"
    assert "end mark" not in parts(without, control)[-1].text + parts(control, control)[-1].text


def ended(trace, reason: str):
    return msgspec.structs.replace(trace, end=msgspec.structs.replace(trace.end, reason=reason, message="It broke."))


def row(traces, at):
    found = json.loads(tables.results(traces))
    return dict(zip(found["columns"], found["rows"][at], strict=True))


def test_a_failed_run_gets_no_verdict_and_gives_none(pair):
    ours, control = pair
    failed = ended(ours, "failed")
    for one in (failed, ended(ours, "stopped")):
        assert judge(ours) is not None and judge(one) is None
        assert row({0: control, 1: one}, 1)["Task check"]["text"] == "not finished"
    assert row({0: control, 1: failed}, 1)["Against its control"]["text"] == "failed: no verdict"
    said = [part.text for part in parts(failed, control)]
    assert not any("same text" in one or "parts from" in one or "second" in one for one in said)
    broken = ended(control, "failed")
    assert control_of(ours, {0: broken, 1: ours}) is None and basis_of([broken, ours]) is ours
    assert "It broke." in report([failed, control])


def test_an_answer_that_its_limit_cut_says_so(pair):
    short, whole = engines.run("greedy", model(), PROMPT, params={"max_new_tokens": 3}), pair[1]
    assert cut_at(short) == 3 and cut_at(whole) is None
    assert "cut at 3 tokens: raise max_new_tokens" in row({0: short}, 0)["Output"]["text"]
    assert "cut at" not in row({0: whole}, 0)["Output"]["text"]
    assert "Cut at 3 tokens: raise max_new_tokens." in report([short, whole])
    assert cut_at(ended(short, "stopped")) is None


@pytest.fixture
def quiet(pair):
    """The control and ours, with the times of a machine on which every call takes 10 ms."""
    return [quieten(engines.Trace.from_json(one.to_json())) for one in reversed(pair)]


def said(trace, control):
    cell = json.loads(tables.results({0: control, 1: trace}))["rows"][1][-1]
    return cell["text"], [part.text for part in parts(trace, control)]


def test_on_a_quiet_machine_there_is_a_ratio(quiet):
    control, ours = quiet
    assert stalled(control) == stalled(ours) == 0
    ratio = whole_run(ours, control)
    assert ratio <= explained(ours, control) * 1.001 and not too_busy(ours, control)
    table, strip = said(ours, control)
    assert f"{ratio:.2f}×" in table and any(f"{ratio:.2f}×" in text for text in strip)
    short = msgspec.structs.replace(ours, steps=ours.steps[:LEAST])  # the first reads the prompt
    assert pace(ours, control) and pace(short, control) is None, "two rounds have no usual one"


@pytest.mark.parametrize("which", [0, 1])
def test_one_token_of_two_seconds_makes_no_thirtyfold_speed_up(quiet, which):
    control, ours = quiet
    quiet[which].steps[2].model_seconds = 2.058
    assert stalled(quiet[which]) > SHARE and too_busy(ours, control)
    table, strip = said(ours, control)
    assert "too busy" in table and "×" not in table and "faster," not in table, "nor by the median round"
    assert any("too busy" in text for text in strip) and not any("×" in text for text in strip)


def test_a_ratio_that_the_calls_cannot_explain_is_none(quiet):
    """All tokens of the control took long: no step stands out, and yet the ratio is the machine's."""
    control, ours = quiet
    for step in control.steps:
        step.model_seconds *= 2 * ROOM
    assert stalled(control) == 0 and too_busy(ours, control) and not too_busy(ours, control, same_model=False)
    assert "too busy" in said(ours, control)[0]


@pytest.mark.parametrize("which", [0, 1])
def test_other_programs_on_the_processor_make_no_ratio(quiet, which):
    def busy(called, ran, device="cpu"):
        trace = quiet[which]
        trace.header.models[0].device = device
        trace.end.called_seconds, trace.end.processor_seconds = called, ran
        return too_busy(quiet[1], quiet[0])

    assert not busy(ROOM * 0.99, 1.0)
    assert busy(ROOM * 1.01, 1.0)
    assert not busy(2.0, 0.0), "older traces do not say"
    assert not busy(2.0, 1.0, "cuda:0"), "the thread waits for the accelerator"
