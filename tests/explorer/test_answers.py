"""Whatever a server of a known form sends is read as it was put in: each token at its place with its own text, its id
and its probability, how the answer ended, and that others were beside it. Saved answers and running servers alike."""

import copy
import csv
import io
import json
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines import TraceError, read_trace
from explorer.attach import Attached, session
from explorer.attach.client import events
from explorer.export.events import events_csv
from explorer.importers import import_trace
from tests.explorer import answers
from tests.explorer.answers import ANSWERS, NAMED, joined, probability

FORMS = {
    "chat": (answers.openai, {"chat": True}),
    "completions": (answers.openai, {"chat": False}),
    "llama": (answers.llama, {}),
    "sglang": (answers.sglang, {"new": False}),
    "sglang-new": (answers.sglang, {"new": True}),
}


def told(trace):
    """(text, probability) of each token in the order of the places."""
    texts = {piece.id: piece.text for piece in trace.pieces}
    written = [one for step in trace.steps if step.commits for one in zip(*columns(step.commits), strict=True)]
    assert [position for position, _, _ in written] == [*range(len(written))]
    return [(texts[token], p) for _, token, p in written]


def columns(commits):
    return commits.positions, commits.tokens, commits.probabilities or [None] * len(commits.tokens)


def likeliest(trace):
    """The texts of the likeliest tokens at each place that has some."""
    texts = {piece.id: piece.text for piece in trace.pieces}
    of = [step.candidates for step in trace.steps if step.candidates]
    return {
        place: [texts[token] for token in row]
        for one in of
        for place, row in zip(one.positions, one.tokens.array().tolist(), strict=True)
    }


def is_what_was_put_in(trace, put, ids, numbered=False):
    """numbered: whether the likeliest tokens have ids, too; that of the written token is this token."""
    assert read_trace(trace.to_json()) == trace
    assert told(trace) == [(token.text, probability(token)) for token in put.tokens]
    assert trace.text == joined(put.tokens).strip()
    if ids:
        assert trace.output_ids == [token.id for token in put.tokens]
        assert "token_ids" not in trace.header.missing
        rows = csv.DictReader(io.StringIO(events_csv([trace]), newline=""))
        assert [int(row["token"]) for row in rows] == trace.output_ids
    else:
        assert "token_ids" in trace.header.missing
    place = 0
    named = likeliest(trace)
    for event in put.events if len(trace.steps) > 1 else [put.tokens]:
        most = min((len(token.other) for token in event if token.other), default=0)
        for token in event:
            ranked = sorted(token.other, key=lambda one: -one[2])[:most]
            own = [token.text if numbered and i == token.id else text for text, i, _ in ranked]
            assert named.get(place, []) == own
            place += 1
    ends_as_it_did(trace, put)


def ends_as_it_did(trace, put):
    said = f"{trace.end.message} {trace.steps[-1].note}"
    broken = put.error or put.finish == "abort"
    assert trace.end.reason == ("failed" if broken or not (put.finish or put.done) else "complete")
    assert put.error in said
    if put.finish and not put.error:
        assert put.finish in said or {"stop": "eos", "length": "limit"}[put.finish] in said
    assert ("more than one answer" in said) == put.several


def several_at_most(form, put):
    """Answers as the form can hold them."""
    put.several &= form != "sglang-whole"
    put.done &= form in ("chat", "completions")  # llama.cpp ends its own stream without the mark
    return put


SHAPES = {
    "stream": answers.stream,
    "list": lambda put, bodies: json.dumps(bodies),
    "lines": lambda put, bodies: "".join(json.dumps(one, ensure_ascii=False) + put.lines for one in bodies),
}


def names_ids(form, put):
    """Whether (the written, the likeliest) tokens have ids."""
    own = form not in ("chat", "completions")
    return own or put.ids, own


def saved_streams(form, put, shape):
    made, how = FORMS[form]
    several_at_most(form, put).done &= shape == "stream"
    text = SHAPES[shape](put, made(put, False, **how))
    is_what_was_put_in(import_trace(text), put, *names_ids(form, put))


def live_streams(form, put, cuts):
    made, how = FORMS[form]
    several_at_most(form, put).first = False  # the first that comes is read
    put.several &= put.finish != "abort" or "sglang" not in form  # nothing is read behind an error
    data = answers.stream(put, made(put, False, **how)).encode()
    ends = [0, *sorted(at % (len(data) + 1) for at in cuts), len(data)]
    chunks = [data[a:b] for a, b in pairwise(ends)]
    client = SimpleNamespace(
        ask=lambda path: None, close=lambda: None, times={}, post=lambda path, body: events(iter(chunks))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "Client", lambda *_: client)
        run = Attached("http://127.0.0.1:1", prompt="Hello", api=form.partition("-")[0])
        assert [*run] == run.trace().steps
    is_what_was_put_in(run.trace(), put, *names_ids(form, put))
    return run


def whole_bodies(form, put):
    made, how = FORMS[form]
    put.error, put.events, put.done = "", [put.tokens], False
    put.several &= form in ("chat", "completions", "llama")
    bodies = made(put, True, **how)
    if form == "llama" and not put.finish:
        put.finish = "stop"  # it says that it stopped
    trace = import_trace(json.dumps(bodies[0] if len(bodies) == 1 else bodies))
    is_what_was_put_in(trace, put, *names_ids(form, put))


def echoed_prompts(put, prompt, whole):
    put.prompt, put.several, put.error = prompt, False, ""
    put.done &= not whole
    put.events = [put.tokens] if whole else put.events
    bodies = answers.openai(put, whole, chat=False, echo=True)
    text = json.dumps(bodies[0]) if whole else answers.stream(put, bodies)
    if not (put.ids or whole or put.finish or put.done):  # it does not say how long its prompt is
        with pytest.raises(TraceError, match="echo"):
            import_trace(text)
        return
    trace = import_trace(text)
    is_what_was_put_in(trace, put, put.ids)
    assert trace.header.prompt == joined(prompt)


CUTS = st.lists(st.integers(0, 10_000), max_size=8)
PROMPT = st.lists(NAMED, min_size=1, max_size=3)
FORM, WHOLE = st.sampled_from([*FORMS]), st.sampled_from(["chat", "completions", "llama", "sglang"])
SHAPE = st.sampled_from(["stream", "list", "lines"])
USUAL, MANY = settings(deadline=None), settings(max_examples=10_000, deadline=None)


@USUAL
@given(FORM, ANSWERS, SHAPE)
def test_a_saved_stream_is_what_was_put_in(form, put, shape):
    saved_streams(form, put, shape)


@USUAL
@given(FORM, ANSWERS, CUTS)
def test_a_live_stream_is_what_was_put_in(form, put, cuts):
    live_streams(form, put, cuts)


@USUAL
@given(WHOLE, ANSWERS)
def test_a_whole_answer_is_what_was_put_in(form, put):
    whole_bodies(form, put)


@USUAL
@given(ANSWERS, PROMPT, st.booleans())
def test_an_echoed_prompt_is_no_part_of_what_was_written(put, prompt, whole):
    echoed_prompts(put, prompt, whole)


@pytest.mark.streams
@MANY
@given(FORM, ANSWERS, SHAPE, CUTS)
def test_many_streams_are_what_was_put_in(form, put, shape, cuts):
    saved_streams(form, copy.deepcopy(put), shape)
    live_streams(form, put, cuts)


@pytest.mark.streams
@MANY
@given(WHOLE, ANSWERS, PROMPT, st.booleans())
def test_many_whole_answers_and_echoes_are_what_was_put_in(form, put, prompt, whole):
    whole_bodies(form, copy.deepcopy(put))
    echoed_prompts(put, prompt, whole)
