"""Generated bad input, the same in every run: whatever comes, there is an answer of one sentence, and neither a crash
nor a trace of the inside."""

import json
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engines
from engines import TraceError
from explorer.links import SLOTS
from explorer.page import tables
from explorer.page.catalogue import Form
from explorer.page.handlers import Handlers
from explorer.page.run_limits import Limits
from explorer.runs.gallery import read_pasted
from tests.page.conftest import desk, first_model, methods_of, visitor
from tests.page.hostile import MARKUP, NUMBERS, ODD, TEXTS, VALUES
from tests.page.mutations import bodies, broken_traces, watched

SLUG, MODEL = methods_of("causal")[0], first_model("causal")
FUZZ = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
INSIDE = ("Traceback", "/engines/", "/explorer/", " object at 0x", 'File "')
LIMITS = Limits(prompt_characters=400, steps=2, seconds=10, public=True, new_tokens=16)


@pytest.fixture(scope="module")
def handlers() -> Handlers:
    return desk(limits=LIMITS)


def check_sentence(text: str) -> None:
    assert text.strip() and len(text) < 4000, text[:200]
    assert not any(word in text for word in INSIDE), text


def status_of(outputs: Any) -> dict[str, Any]:
    said = json.loads(outputs[1])
    assert "<" not in outputs[1]
    check_sentence(said["text"])
    return said


@settings(FUZZ, max_examples=200)
@given(text=broken_traces(bodies()))
def test_a_broken_trace_or_record_is_opened_or_refused_with_a_sentence(handlers, text):
    who = visitor()
    handlers.closed(who)
    with watched() as errors:
        said = status_of(handlers.take_in(text, who))
    assert errors == [], f"refused only by the last resort: {errors[0].exc_info}"
    assert said["kind"] in ("ok", "error") and len(said["text"]) < 600
    if said["kind"] == "ok":  # then everything else about it works as well
        tables.numbers(handlers.sessions.of("visitor").traces)
        handlers.curves(who)
        for save in (handlers.save_json, handlers.save_html):
            assert json.loads(save("all", who)[0])["files"]


@settings(FUZZ, max_examples=60)
@given(text=st.one_of(TEXTS, VALUES, VALUES.map(json.dumps), st.sampled_from(["[" * 100_000, '{"header":' * 5000])))
def test_what_is_no_trace_at_all_is_refused(text):
    with pytest.raises(TraceError) as caught:
        read_pasted(text)
    check_sentence(str(caught.value))


PARTS = st.tuples(st.sampled_from(["run", "gallery", "step", "of", "clock", "lane", "x"]), TEXTS)
QUERIES = st.one_of(
    TEXTS, VALUES, st.lists(PARTS, max_size=25).map(lambda parts: "?" + urlencode(parts, errors="replace"))
)


@settings(FUZZ, max_examples=80)
@given(query=QUERIES)
def test_every_link_is_followed_or_refused(handlers, query):
    answer = handlers.follow(query, visitor())
    if isinstance(answer[1], str):
        status_of(answer)


PROMPTS = st.one_of(st.sampled_from([*MARKUP, *ODD]), st.text(max_size=80))


def slots(handlers: Handlers) -> st.SearchStrategy[list[Any]]:
    """The forms of all slots: real ones with some of their values spoilt, or anything at all."""
    good = msgspec.to_builtins(handlers.catalogue.form(Form(SLUG, MODEL, {})))
    spoilt_params = st.dictionaries(st.one_of(st.sampled_from(sorted(good["params"])), TEXTS), VALUES, max_size=3)
    forms = st.one_of(
        spoilt_params.map(lambda bad: {**good, "params": {**good["params"], **bad}}),
        st.dictionaries(st.one_of(st.sampled_from(sorted(good)), TEXTS), VALUES, max_size=2).map(
            lambda bad: good | bad
        ),
    )
    sent = st.one_of(forms.map(json.dumps), forms, VALUES)
    return st.lists(sent, min_size=SLOTS, max_size=SLOTS) | st.lists(VALUES, max_size=6)


@settings(FUZZ, max_examples=120)
@given(data=st.data())
def test_whatever_arrives_at_run_is_answered(handlers, data):
    prompt, seed = data.draw(st.one_of(TEXTS, VALUES)), data.draw(st.one_of(st.just(0), NUMBERS, VALUES))
    count = data.draw(st.one_of(st.sampled_from([1, "1", "2", "٣", "²", "1e0"]), VALUES))
    answers = list(handlers.run(visitor(), prompt, seed, count, *data.draw(slots(handlers))))
    last = status_of(next(one for one in reversed(answers) if isinstance(one[1], str)))
    assert "error of ours" not in last["text"]
    assert handlers.sessions.of("visitor").running is None
    for one in answers:
        if isinstance(one[0], str):
            assert "<" not in one[0] and json.loads(one[0])
            one[0].encode()


@settings(FUZZ, max_examples=60)
@given(method=VALUES, model=VALUES, prompt=PROMPTS, params=VALUES, seed=VALUES, form=VALUES)
def test_whatever_arrives_at_the_public_endpoint_is_answered(handlers, method, model, prompt, params, seed, form):
    good = {"method": SLUG, "model": MODEL, "prompt": "sort: Mia", "params": {"max_new_tokens": 2}, "seed": 0}
    bad = {"method": method, "model": model, "prompt": prompt, "params": params, "seed": seed}
    for asked in (*({**good, name: value} for name, value in bad.items()), {"prompt": "sort: Mia", "form": form}):
        try:
            trace = engines.read_trace(json.dumps(handlers.decode(**asked)))
        except Exception as error:
            assert type(error).__name__ == "Error", f"{type(error).__name__}: {error}"  # gr.Error with a sentence
            check_sentence(str(error))
        else:
            assert trace.header.prompt == asked["prompt"]


@settings(FUZZ, max_examples=60)
@given(what=VALUES, names=st.lists(TEXTS, max_size=3))
def test_small_handlers_take_anything(handlers, what, names):
    stranger = visitor()
    status_of(handlers.save_json(what, stranger))
    status_of(handlers.save_html(what, stranger))
    status_of(handlers.play(names, stranger))
    status_of(handlers.stop(stranger))
