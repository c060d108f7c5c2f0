"""Visitors who leave, stop or never listen leave the model to the next one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import engines
from explorer.page.feed import MODEL_LOCK
from explorer.page.server import launch
from explorer.runs.gallery import Gallery
from tests.page.conftest import PROMPT, first_model, methods_of
from tests.page.crowd import Noted, measure, noted
from tests.page.serving import numbers_of

pytestmark = [pytest.mark.slow, pytest.mark.timing, pytest.mark.server]


@pytest.fixture
def served(recorded: Path, monkeypatch) -> Iterator[Any]:
    """A page whose runs may take one second, in this process."""
    monkeypatch.setenv("EXPLORER_MAX_SECONDS", "1")
    engines.load_model(first_model("masked"))
    demo = launch(warm=False, traces=Gallery(recorded), quiet=True)
    yield demo
    demo.close(verbose=False)


def test_closed_tabs_and_stops_leave_the_model_to_the_next_visitor(served):
    """`python -m tests.page.crowd 30 50` does more of them."""
    with noted():
        found = measure(served.local_url, numbers_of(served), 3, 5)
    assert [one.how for one in found].count("close") == 3 and len(found) == 8
    assert max(one.after for one in found) <= 1, "one forward may begin between the request and its notice, no more"


def test_a_decode_whose_stream_is_never_read_runs_to_its_budget_and_ends(served):
    """A run of one second at most, although its 64 forwards would take more than six."""
    asked = [methods_of("masked")[0], first_model("masked"), PROMPT, {"max_new_tokens": 64}]
    with noted(), httpx.Client(base_url=served.local_url, timeout=60) as client:
        client.post("/gradio_api/call/decode", json={"data": [*asked, 7, {}]}).raise_for_status()
        until = time.monotonic() + 30
        while not Noted.of(7):
            assert time.monotonic() < until, "the run did not begin"
            time.sleep(0.01)
        following = client.post("/gradio_api/call/decode", json={"data": [*asked, 8, {}]}).json()["event_id"]
        answer = client.get(f"/gradio_api/call/decode/{following}").text
        first, second = Noted.of(7), Noted.of(8)
    assert "event: complete" in answer and '"reason": "budget"' in answer
    assert 1 < len(first) < 30 and first[-1] - first[0] < 2, "it ran to its budget and ended"
    assert first[-1] < second[0], "and the next one began then"
    assert MODEL_LOCK.acquire(timeout=5)
    MODEL_LOCK.release()
