"""What fails or is stopped at the worst moment leaves the next visitor's run and the reader of the page whole."""

from __future__ import annotations

import json

import pytest

from engines import UserError
from explorer.page.limits import check_seed, short
from explorer.page.parts import fresh
from tests.page.conftest import desk, visitor
from tests.page.soak import run as sent


def test_a_stop_before_the_first_turn_waits_for_nobody():
    """Gradio may cancel a run whose generator it never asks again and never closes."""
    handlers, who = desk(), visitor()
    run = handlers.running.run(who, *sent())
    next(run)
    said = json.loads(handlers.running.stop(who)[1])
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
