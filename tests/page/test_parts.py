"""The parts behind the page, without a browser."""

import copy
import json
import threading
import time

import pytest

from engines import TraceError, UserError
from engines.core.alternatives import Stops
from engines.methods.sampling.adadec import Pause
from explorer.page import tables
from explorer.page.catalogue import Catalogue, Form, updates
from explorer.page.feed import Feed, message
from explorer.page.form import read
from explorer.page.parts import asked
from explorer.page.run_limits import Limits, check_seed
from explorer.page.sessions import MAX_SESSIONS, Job, Sessions
from explorer.runs.gallery import Gallery
from tests.page.conftest import HOSTILE, PROMPT, first_model, methods_of

LIMITS = Limits(prompt_characters=1000, steps=5, seconds=60, public=False)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.read(public=False)


def test_every_parameter_of_every_method_is_offered_and_a_slot_reads_back_what_it_shows(catalogue):
    told = {method["slug"]: method["params"] for method in json.loads(catalogue.offered())["methods"]}
    assert list(told) == list(catalogue.methods)
    for info in catalogue.methods.values():
        assert [(p["name"], p["default"]) for p in told[info.slug]] == [(p.name, p.default) for p in info.params]
        shown = catalogue.form(Form(info.slug, "some-model", {}))
        assert catalogue.read_form(read(shown.text())) == Form(
            info.slug, "some-model", {p.name: p.default for p in info.params}
        )


def test_what_is_sent_and_is_no_request_asks_for_nothing():
    for sent in ("[1]", "{", None, 7, "[" * 100_000, "x" * 400_000, '{"a": "' + "x" * 4000 + '"}'):
        assert asked(sent, 100_000 if sent == "[" * 100_000 else 4000) == {}
    assert asked('{"a": 1}') == {"a": 1}


def test_slots_open_with_the_settings_of_the_opening_traces(catalogue, traces):
    plans = catalogue.defaults(traces[:2])
    assert [(p.method, p.params) for p in plans[:2]] == [(t.header.method, t.header.params) for t in traces[:2]]
    assert len(plans) == 4 and len({p.method for p in catalogue.defaults([])}) == 4


def test_a_slot_is_refused_before_a_model_is_loaded(catalogue):
    for model, params, said in (
        ("tiny-ar-s", {}, "needs a masked model, which tiny-ar-s is not or has not"),
        ("tiny-dlm", {"threshold": 9.0}, "threshold=.* is out of range"),
        ("tiny-dlm", {"no_such": 1}, "unknown parameter 'no_such'"),
        (" ", {}, "no model is chosen"),
    ):
        with pytest.raises(UserError, match=said):
            catalogue.read_form(Form("threshold", model, params))
    lacks = "needs a layered model and its vision-drafts, which tiny-ar-l is not or has not; choose one of tiny-vlm"
    with pytest.raises(UserError, match=lacks):  # it is a layered one
        catalogue.read_form(Form("msd", "tiny-ar-l", {}))


def test_opened_runs_become_settings_where_they_can_run(catalogue, traces):
    plan = catalogue.repeat(traces[0])
    assert plan == Form(traces[0].header.method, traces[0].header.models[0].name, traces[0].header.params)
    alone = updates(catalogue, {0: traces[0]}, 1, {})
    assert alone[:3] == [traces[0].header.prompt, traces[0].header.seed, "1"] and len(alone) == 3 + 4
    assert read(alone[3]) == Form(plan.method, plan.model, traces[0].header.params)
    beside = updates(catalogue, {1: traces[1]}, 2, {})
    assert beside[2] == "2" and read(beside[4]).method == traces[1].header.method
    assert [one for at, one in enumerate(beside) if at not in (2, 4)] == [None] * 5
    longer = Catalogue.read(public=False, new_tokens=7).form(plan)
    assert longer.params == {**plan.params, "max_new_tokens": 7}, "no longer than what may run here"
    foreign = copy.deepcopy(traces[0])
    foreign.header.models[0].name = "unheard-of"
    assert catalogue.repeat(foreign) is None
    assert catalogue.repeat(foreign, {"unheard-of": "/a/folder"}).model == "/a/folder"


def going(feed: Feed, kind: str, tokens: int, steps: int = 100):
    """The messages of a run of the first method and model of that kind."""
    plan = Form(methods_of(kind)[0], first_model(kind), {"max_new_tokens": tokens})
    for text in feed.messages(plan, PROMPT, 0, Limits(1000, steps, 60, False)):
        yield json.loads(text)["batches"][0]


def test_batches_are_numbered_hold_no_markup_and_rebuild_the_trace():
    text = message({"slot": 0, "message": HOSTILE})
    assert "<" not in text and json.loads(text)["batches"][0]["message"] == HOSTILE
    feed = Feed(Job(), 0, "title")
    batches = [feed.queued(), *going(feed, "causal", 16)]
    assert [b["seq"] for b in batches] == list(range(len(batches)))
    steps = [step["index"] for b in batches for step in b.get("steps", [])]
    assert steps == list(range(len(feed.trace.steps)))
    assert {p["id"] for b in batches for p in b.get("pieces", [])} == {p.id for p in feed.trace.pieces}
    assert batches[-1]["state"] == "done" and batches[-1]["end"]["text"] == feed.trace.text


def test_a_method_is_not_asked_what_else_it_would_have_decided_before_its_run_has_ended(monkeypatch):
    over, feed = [], Feed(Job(), 0, "title")
    answer = {"threshold": Stops([0], [True])}
    monkeypatch.setattr(Pause, "alternatives", lambda *_: over.append(feed.trace is not None) or answer)
    plan = Form("adadec", first_model("causal"), {"max_new_tokens": 8})
    *batches, last = (json.loads(text)["batches"][0] for text in feed.messages(plan, PROMPT, 0, LIMITS))
    assert over == [True] * len(last["figures"]["stops"]) and len(over) == len(feed.trace.steps) > 3
    assert not any("stops" in batch["figures"] for batch in batches)


def test_a_budget_ends_a_run_with_a_sentence():
    feed = Feed(Job(), 0, "title")
    *_, last = going(feed, "masked", 32, steps=5)
    assert len(feed.trace.steps) == 5 and last["state"] == "done" and "budget" in last["message"]


def test_closing_a_feed_early_seals_its_trace(slowly):
    job = Job()
    feed = Feed(job, 0, "title")
    run = going(feed, "masked", 32)
    next(run), next(run)
    run.close()
    assert feed.trace.end.reason == "stopped" and json.loads(job.last[-1])["batches"][0]["state"] == "stopped"
    assert slowly.running == 0 and not decoding()


def decoding() -> bool:
    """Whether a run goes on in its thread."""
    return any(thread.name == "decode" for thread in threading.enumerate())


def test_the_run_goes_on_while_a_message_is_taken_and_no_step_is_lost(slowly):
    """Whoever takes the messages is slow: the run ends in its own time, and the last message holds what was made
    meanwhile."""
    feed = Feed(Job(), 0, "title")
    run = going(feed, "causal", 6)
    batches = [next(run), next(run)]  # the header and the first step
    until = time.monotonic() + 60
    while slowly.running and decoding():
        assert time.monotonic() < until
        time.sleep(0.05)
    batches += run
    steps = [step["index"] for b in batches for step in b.get("steps", [])]
    assert steps == list(range(len(feed.trace.steps))) and len(steps) > 2
    assert {p["id"] for b in batches for p in b.get("pieces", [])} == {p.id for p in feed.trace.pieces}
    assert len(batches) <= 4 and batches[-1]["state"] == "done" and feed.trace.end.reason == "complete"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (UserError("the disk of the model is full."), "The disk of the model is full."),
        (RuntimeError("secret"), "an error of ours"),
    ],
)
def test_what_goes_wrong_in_the_middle_of_a_run_is_said(slowly, monkeypatch, fault, said):
    real = slowly.__next__

    def fail(run):
        if len(run.steps) == 2:
            raise fault
        return real(run)

    monkeypatch.setattr(slowly, "__next__", fail)
    feed = Feed(Job(), 0, "title")
    *_, last = going(feed, "causal", 6)
    assert last["state"] == "failed" and said in last["message"] and "secret" not in last["message"]
    assert len(feed.trace.steps) == 2 and slowly.running == 0


def test_newcomers_end_no_run_and_no_open_page_and_cost_whoever_has_most_sessions():
    """Else the numbers of a page would be those of the opening, and not of what stands beside them."""
    sessions, opened = Sessions({}), {"open"}
    sessions.is_open = opened.__contains__
    job, sweep = sessions.of("runs", "a").begin(), sessions.of("sweeps", "a").begin_sweep()
    shown, looks = sessions.of("open", "a"), sessions.of("looks", "b")
    for number in range(3 * MAX_SESSIONS):
        sessions.of(str(number), "crowd")
    assert not job.stop.is_set() and sessions.of("runs").job is job
    assert not sweep.stop.is_set() and sessions.of("sweeps").sweeping is sweep
    assert sessions.of("looks") is looks and len(sessions) == MAX_SESSIONS
    job.finished.set(), sweep.finished.set()
    for number in range(3 * MAX_SESSIONS):
        sessions.of(f"visitor {number}", f"address {number}")
    assert sessions.of("open", "a") is shown and sessions.of("runs").job is None and len(sessions) == MAX_SESSIONS
    opened.clear()
    for number in range(MAX_SESSIONS):
        sessions.of(f"later {number}", f"address {number}")
    assert sessions.of("open", "a") is not shown


def test_callers_without_a_session_share_nothing_and_dropping_one_stops_its_run():
    sessions = Sessions({})
    job = sessions.of(None).begin()
    assert sessions.of(None).job is None and sessions.of("").job is None and not job.stop.is_set()
    assert len(sessions) == 0
    job = sessions.of("other").begin()
    sessions.drop("other")
    assert job.stop.is_set() and sessions.of("other").job is None


def test_the_gallery_names_what_it_cannot_read(recorded, traces):
    gallery = Gallery(recorded)
    assert list(gallery.broken) == ["9-broken"] and len(gallery.cards) == 3
    for card, trace in zip(gallery.cards, traces, strict=True):
        assert (card.tokens, card.steps) == (trace.totals.tokens, len(trace.steps))
        assert gallery.get(card.id) == trace
    assert [t.header.prompt for t in gallery.opening().values()] == [PROMPT, PROMPT]
    with pytest.raises(TraceError, match="no recorded trace"):
        gallery.get("../../etc/passwd")


def test_only_recognised_prompts_are_marked(traces):
    assert tables.verdict(traces[0])["text"] != "not a checked task"
    other = copy.deepcopy(traces[0])
    other.header.prompt = "Tell me a story"
    assert tables.verdict(other) == {"text": "not a checked task", "quiet": True}


def test_odd_seeds_are_refused_and_only_arxiv_numbers_become_links():
    for seed in (None, -1, 1.5, True, "x", float("nan"), float("inf"), 2**60):
        with pytest.raises(UserError, match="whole number"):
            check_seed(seed)
    assert tables.paper_link("arXiv:2502.09992") == "https://arxiv.org/abs/2502.09992"
    for paper in ("javascript:alert(1)", "", "arXiv:x/../y"):
        assert tables.paper_link(paper) is None
