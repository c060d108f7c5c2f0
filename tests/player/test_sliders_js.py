"""A slider asks the method (`engines.Alternatives`). Where it was not asked, in a run that is not over, in a trace of
someone else, after a figure that failed, its view draws what was recorded, and says nothing that is not known."""

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest

from explorer import ASSETS
from explorer.export.bundle import CLIENT, View, module_of, views
from explorer.export.modules import closure
from explorer.figures.handed import shown
from explorer.runs.gallery import gallery

Call = Callable[..., Any]
THEME = json.loads((ASSETS / "theme.json").read_text("utf-8"))
UNKNOWN, LATER = "what it would have been is not known", "what it would be is known after the run"
BARE = {"asked": False}


def asks(view: View) -> bool:
    names = {module.name for module in closure([f"views/{view.file}.js"], module_of)} - {"player/sliding.js"}
    return any(re.search(r"\.(asked|decided)\(", (CLIENT / name).read_text("utf-8")) for name in names)


ASKING = [view for view in views() if asks(view)]


@cache
def traces() -> dict[str, str]:
    return {card.id: shown(gallery().get(card.id)) for card in gallery().cards}


def recorded(view: View) -> list[str]:
    """Runs of the gallery in which the view was asked about something."""
    needed = {need for one in view.needs for need in one.split("+")}
    return [text for text in traces().values() if needed & stops_of(text)]


@cache
def stops_of(text: str) -> set[str]:
    return {name for step in json.loads(text)["figures"].get("stops", ()) for name in step}


@pytest.fixture
def drawn(js: Call) -> Call:
    call = "M.drawn(theme, view, text, given)"
    return lambda view, text, **given: js(
        "./unasked.mjs", call, theme=THEME, view=msgspec.to_builtins(view), text=text, given=given
    )


@pytest.mark.parametrize("view", ASKING, ids=lambda view: view.file)
def test_what_a_step_did_is_drawn_without_asking_as_the_method_answers(drawn: Call, view: View) -> None:
    for text in recorded(view):
        own, kept, bare = (drawn(view, text, **given) for given in ({}, {"moved": "kept"}, BARE))
        for t, (step, answer, without) in enumerate(zip(own, kept, bare, strict=True), 1):
            right, there = Counter(step["lines"]), Counter(answer["lines"])
            assert right <= there, (t, right - there)
            assert not wrong(without["lines"], right), t
            assert not any(without["said"]), "nobody asked"


@pytest.mark.parametrize("view", ASKING, ids=lambda view: view.file)
def test_what_is_not_known_is_said_so_and_is_drawn_as_recorded(drawn: Call, view: View) -> None:
    text = recorded(view)[0]
    own, bare, moved, live = (
        drawn(view, text, **given) for given in ({}, BARE, {**BARE, "moved": "least"}, {**BARE, "over": False})
    )
    for t, (step, without, other, meanwhile) in enumerate(zip(own, bare, moved, live, strict=True), 1):
        assert other["lines"] == without["lines"], t
        assert set(other["said"]) <= {"", UNKNOWN}
        assert set(meanwhile["said"]) <= {"", LATER} and meanwhile["still"], "it moves after the run"
        assert not wrong(meanwhile["lines"], Counter(step["lines"]), LATER), t
    assert any(UNKNOWN in step["told"] for step in moved) and any(LATER in step["told"] for step in live)


def wrong(shown: list[str], right: Counter[str], unknown: str = UNKNOWN) -> list[str]:
    """Lines that are not there where the method is asked."""
    return [line for line in (Counter(shown) - right).elements() if not (unknown in line or unsaid(line, right))]


def unsaid(line: str, right: Counter[str]) -> bool:
    """Whether it leaves out what is not known: a dash, a mark that was not reached, a path that ends before."""
    if line.startswith("path"):
        return any(one.startswith(line.strip()) for one in right)
    pattern = re.sub(r"class=\S*", r"class=\\S*", re.escape(line).replace("–", ".+").replace("unreached", r"\w+"))
    less = "–" in line or "unreached" in line
    return "class=dx-base" in line or (less and any(re.match(pattern, one) for one in right))
