"""Chips beside the prompt: each plays a recorded comparison at once and fills the controls, so that Run decodes it
live."""

from __future__ import annotations

from typing import Any

import gradio as gr

from explorer.page.handlers import Handlers
from explorer.page.parts import LIGHT, module
from explorer.runs.scenarios import scenarios


def chips(handlers: Handlers) -> list[tuple[gr.Button, list[str]]]:
    """A button and the runs that it plays, for each scenario whose runs are recorded here; and beside them one that
    puts the slots on a model which reads any text, and the focus into the prompt."""
    found = scenarios([card.id for card in handlers.gallery.cards])
    with gr.Row(elem_id="scenarios"):
        made = [
            (gr.Button(one.title, size="sm", min_width=40, elem_classes=["scenario"]), [*one.traces]) for one in found
        ]
        own = gr.Button("Compare on my text", size="sm", min_width=40)
        own.click(None, js='() => { document.dispatchEvent(new Event("dx-own")); }')
    module("page/chips.js", "page.mountChips()", themed=False, visible="hidden", elem_id="chips")
    return made


def connect(handlers: Handlers, made: list[tuple[gr.Button, list[str]]], outputs: list[Any]) -> None:
    """Let the chips play."""
    for button, names in made:
        button.click(_player(handlers, names), None, outputs, **LIGHT)


def _player(handlers: Handlers, names: list[str]) -> Any:
    def play(request: gr.Request) -> tuple[Any, ...]:
        return handlers.showing.play(names, request)

    return play


def opening() -> gr.HTML:
    """Hidden; lets the recorded runs of a page that was just opened play by themselves."""
    return module("page/opening.js", "page.opening()", themed=False, visible="hidden", elem_id="opening")
