"""A sentence before Run where a prompt is none of what the chosen models know, and the offer of one that can answer it.
Which of our tasks a prompt asks is said here; what follows from it, in the browser."""

from __future__ import annotations

from typing import Any

import gradio as gr

from engines import tasks
from explorer.page.parts import LAST, fresh, module


def section(prompt: gr.Textbox) -> None:
    """The sentence, with the button that changes the slots; looked at again whenever the prompt changes."""
    line = module(
        "page/form.js",
        "page.mountElsewhere(element, props, watch)",
        value=look(prompt.value),
        themed=False,
        elem_id="elsewhere",
    )
    prompt.change(look, prompt, line, **LAST)


def look(prompt: Any) -> str:
    """What a prompt asks, as the component's value: a task's slug, "" where it is none of ours, None where nothing is
    asked."""
    asked = isinstance(prompt, str) and prompt.strip() != ""
    known = tasks.recognise(prompt) if asked else None
    return fresh(task=None if not asked else known.task if known else tasks.picture_asked(prompt))
