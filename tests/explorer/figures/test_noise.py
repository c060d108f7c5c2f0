"""A ratio of seconds from single runs is no verdict where the machine was busy."""

from __future__ import annotations

import json

import msgspec
import pytest

import engines
from explorer.figures.compare import pace, whole_run
from explorer.figures.noise import LEAST, ROOM, SHARE, explained, stalled, too_busy
from explorer.figures.strip import parts
from explorer.page import tables
from tests.explorer.figures.quiet import quieten

PROMPT = "add: 457 + 86"


@pytest.fixture
def pair():
    """A plain run and one that drafts, with the times of a machine on which every call takes 10 ms."""
    model = engines.load_model("tiny-ar-l", dtype="float32")
    return [
        quieten(engines.run(slug, model, PROMPT, params={"max_new_tokens": 24}))
        for slug in ("greedy", "speculative-sampling")
    ]


def said(trace, control):
    cell = json.loads(tables.results({0: control, 1: trace}))["rows"][1][-1]
    return cell["text"], [part.text for part in parts(trace, control)]


def test_on_a_quiet_machine_there_is_a_ratio(pair):
    control, ours = pair
    assert stalled(control) == stalled(ours) == 0
    ratio = whole_run(ours, control)
    assert ratio <= explained(ours, control) * 1.001 and not too_busy(ours, control)
    table, strip = said(ours, control)
    assert f"{ratio:.2f}×" in table and any(f"{ratio:.2f}×" in text for text in strip)


@pytest.mark.parametrize("which", [0, 1])
def test_one_token_of_two_seconds_makes_no_thirtyfold_speed_up(pair, which):
    control, ours = pair
    pair[which].steps[2].model_seconds = 2.058
    assert stalled(pair[which]) > SHARE and too_busy(ours, control)
    table, strip = said(ours, control)
    assert "too busy" in table and "×" not in table and "faster," not in table, "nor by the median round"
    assert any("too busy" in text for text in strip) and not any("×" in text for text in strip)


def test_a_ratio_that_the_calls_cannot_explain_is_none(pair):
    """All tokens of the control took long: no step stands out, and yet the ratio is the machine's."""
    control, ours = pair
    for step in control.steps:
        step.model_seconds *= 2 * ROOM
    assert stalled(control) == 0 and too_busy(ours, control)
    assert "too busy" in said(ours, control)[0]


def test_a_longer_call_for_more_rows_is_no_noise(pair):
    control, ours = pair
    for step in ours.steps:
        step.model_seconds *= 2.5  # a verifying call of several rows costs more; the ratio falls, and is a ratio
    assert not too_busy(ours, control)


def test_of_other_models_calls_explain_nothing(pair):
    control, ours = pair
    for step in control.steps:
        step.model_seconds *= 100
    assert not too_busy(ours, control, same_model=False)


def test_two_rounds_have_no_usual_one(pair):
    """One slow token of two made a plain call look 1.27 times as fast as a plain token."""
    control, ours = pair
    assert pace(ours, control) is not None
    short = msgspec.structs.replace(control, steps=control.steps[:LEAST])  # the first step reads the prompt
    assert pace(ours, short) is None
    assert pace(msgspec.structs.replace(ours, steps=ours.steps[:LEAST]), control) is None


@pytest.mark.parametrize("which", [0, 1])
def test_other_programs_on_the_processor_make_no_ratio(pair, which):
    def with_times(trace, called, ran, device="cpu"):
        models = [msgspec.structs.replace(model, device=device) for model in trace.header.models]
        end = msgspec.structs.replace(trace.end, called_seconds=called, processor_seconds=ran)
        return msgspec.structs.replace(trace, end=end, header=msgspec.structs.replace(trace.header, models=models))

    def busy(*times):
        traces = list(pair)
        traces[which] = with_times(pair[which], *times)
        return too_busy(traces[1], traces[0])

    pair = [with_times(trace, 1.0, 0.95) for trace in pair]
    assert not busy(1.0, 0.95) and not busy(ROOM * 0.99, 1.0)
    assert busy(ROOM * 1.01, 1.0)
    assert not busy(2.0, 0.0), "older traces do not say"
    assert not busy(2.0, 1.0, "cuda:0"), "the thread waits for the accelerator"
