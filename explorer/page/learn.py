"""The Learn tab: lessons on recorded runs, and the glossary. What it shows is sent when the tab is opened."""

from typing import Any

import gradio as gr
import msgspec

from explorer.page import files
from explorer.page.parts import LIGHT, fresh, module
from explorer.page.tables import paper_link
from explorer.papers.lessons import glossary, in_view, lessons, subjects
from explorer.papers.schema import Lesson
from explorer.runs.gallery import gallery

USUAL = "confidence"  # what a player shows where nothing else is asked for


def lane(lesson: Lesson) -> str:
    """The scores that a lesson looks at: the first of those its stops speak of that a player would not show by itself;
    "" where none is named."""
    named = [claim.lane for stop in lesson.stops for claim in stop.check.lanes]
    return next((name for name in named if name != USUAL), named[0] if named else "")


def payload() -> dict[str, Any]:
    """{lessons, glossary} for the module: each lesson with what its method declares and what its run was and promised
    with its parameters, without the claims for the tests. A lesson whose method or run is not installed is left out."""
    about, cards = subjects(), {card.id: card for card in gallery().cards}
    entries = []
    for lesson in lessons():
        subject, card = about.get(lesson.method), cards.get(lesson.trace)
        if subject and card:
            content = msgspec.to_builtins(lesson) | {
                "stops": [{"step": stop.step, "say": stop.say} for stop in lesson.stops],
                "caveat": in_view(lesson.caveat),
            }
            told_of = {
                "lane": lane(lesson),
                "lossless": card.lossless,
                "dtypes": list(card.dtypes),
                **subject._asdict(),
                "address": paper_link(subject.paper),
            }
            runs = [
                {"id": run.id, "file": files.address(gallery().path(run.id)), "caption": run.caption or run.title}
                for run in (card, cards.get(card.beside))
                if run
            ]
            entries.append(content | told_of | {"runs": runs, "prompt": card.prompt, "models": " + ".join(card.models)})
    return {"lessons": entries, "glossary": [msgspec.to_builtins(entry) for entry in glossary()]}


def section(tab: gr.Tab) -> None:
    """Build the tab. Its content is sent once, when it is opened first."""
    sent = gr.State(False)
    box = module("learn/learn.js", "page.learn(element, props, watch)", elem_id="lessons")
    tab.select(lambda before: (gr.skip() if before else fresh(**payload()), True), sent, [box, sent], **LIGHT)
