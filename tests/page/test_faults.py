"""What fails or is stopped at the worst moment leaves the next visitor's run and the reader of the page whole."""

import json
import random
import threading
import time

import httpx
import pytest

import engines
from engines import UserError
from explorer.page import feed
from explorer.page.feed import MODEL_LOCK
from explorer.page.parts import fresh
from explorer.page.run_limits import check_seed, short
from explorer.page.server import launch
from explorer.runs.gallery import Gallery
from tests.page.conftest import PROMPT, Slow, desk, first_model, methods_of, visitor
from tests.page.soak import run as sent


@pytest.fixture
def begun(monkeypatch) -> list[tuple[int, float]]:
    """When each forward began, behind the seed of its run; each takes 0.1 s more."""
    engines.load_model(first_model("masked"))
    real, found = engines.stream, []

    class Noted(Slow):
        def __iter__(self):
            return self

        def __next__(self):
            found.append((self.run.header.seed, time.monotonic()))
            return super().__next__()

    monkeypatch.setattr(engines, "stream", lambda *a, **k: Noted(real(*a, **k), 0.1))
    Slow.running = 0
    return found


def test_a_run_whose_journal_or_stream_cannot_be_opened_ends_in_a_sentence(monkeypatch):
    def full():
        raise OSError("no space left on device")

    monkeypatch.setattr(feed.STREAMS, "open", full)
    *_, (bus, status, _) = desk().run(visitor(), *sent())
    assert "failed with an error of ours" in status and json.loads(bus)["batches"] == []


def test_figures_that_fail_keep_no_run_from_its_end(monkeypatch):
    monkeypatch.setattr(feed, "of_run", lambda trace: 1 / 0)
    told = [json.loads(bus).get("batches", []) for bus, *_ in desk().run(visitor(), *sent()) if isinstance(bus, str)]
    ended = [batch for batches in told for batch in batches if batch.get("state") == "done"]
    assert ended and "key" not in ended[-1]["figures"], "the counts of its last steps are there"


@pytest.mark.timing
def test_stops_and_closed_pages_at_any_moment_free_the_model_within_one_forward(begun):
    handlers, chance = desk(), random.Random(0)
    for number, end in enumerate([*[handlers.stop] * 8, *[handlers.closed] * 4]):
        who = visitor(f"visitor {number}")
        going = threading.Thread(target=lambda who=who: list(handlers.run(who, *sent())), daemon=True)
        going.start()
        time.sleep(chance.uniform(0, 0.4))
        asked = time.monotonic()
        end(who)
        going.join(60)
        assert sum(at > asked for _, at in begun) <= 1, "one may begin between the request and its notice, no more"
        assert Slow.running == 0 and MODEL_LOCK.acquire(timeout=10)
        MODEL_LOCK.release()


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.server
def test_a_decode_whose_stream_is_never_read_runs_to_its_budget_and_ends(recorded, monkeypatch, begun):
    """A run of one second at most, although its 64 forwards would take more than six."""
    monkeypatch.setenv("EXPLORER_MAX_SECONDS", "1")
    demo = launch(warm=False, traces=Gallery(recorded), quiet=True)
    asked = [methods_of("masked")[0], first_model("masked"), PROMPT, {"max_new_tokens": 64}]
    with httpx.Client(base_url=demo.local_url, timeout=60) as client:
        client.post("/gradio_api/call/decode", json={"data": [*asked, 7, {}]}).raise_for_status()
        until = time.monotonic() + 30
        while not begun:
            assert time.monotonic() < until, "the run did not begin"
            time.sleep(0.01)
        following = client.post("/gradio_api/call/decode", json={"data": [*asked, 8, {}]}).json()["event_id"]
        answer = client.get(f"/gradio_api/call/decode/{following}").text
    demo.close(verbose=False)
    first, second = ([at for one, at in begun if one == seed] for seed in (7, 8))
    assert "event: complete" in answer and '"reason": "budget"' in answer
    assert 1 < len(first) < 30 and first[-1] - first[0] < 2, "it ran to its budget and ended"
    assert first[-1] < second[0], "and the next one began then"


def test_a_stop_before_the_first_turn_waits_for_nobody():
    """Gradio may cancel a run whose generator it never asks again and never closes."""
    handlers, who = desk(), visitor()
    run = handlers.run(who, *sent())
    next(run)
    said = json.loads(handlers.stop(who)[1])
    assert "Stopped before anything was decoded" in said["text"]
    assert not handlers.session(who).busy
    assert all('"running"' not in str(one) for one in run), "what goes on after all decodes nothing"


def test_half_of_a_character_never_reaches_an_answer():
    assert json.loads(fresh(text="\ud800x"))["text"] == "?x"
    assert short("\ud800") == "?"
    with pytest.raises(UserError, match="lone surrogate"):
        desk().limits.check_prompt("a \udfff")
    with pytest.raises(UserError) as refusal:
        check_seed("\ud800")
    str(refusal.value).encode()
