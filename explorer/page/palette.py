"""Below the prompt: a scene to draw, where a chosen model sees scenes, and a sentence where the prompt is none of what
the chosen models know, with the offer of one that can answer it.

The prompt's text is the truth: the browser reads the cells from it and writes them into it; which scene a number stands
for, and which of our tasks a prompt asks, is said here."""

import json
from typing import Any

import gradio as gr

from engines import tasks
from explorer.page.parts import LAST, asked, fresh, module


def section(prompt: gr.Textbox) -> None:
    """The palette. The browser tells it of every change of the prompt; it asks the server only of one that names a
    scene by its number, while it is seen."""
    drawn = module(
        "page/palette.js",
        "page.mountPalette(element, props, watch, trigger)",
        words=json.dumps(tasks.scene_words()),
        elem_id="palette",
    )
    prompt.change(None, js='() => { document.dispatchEvent(new Event("dx-prompt")); }', api_visibility="private")
    drawn.submit(answer, drawn, drawn, **LAST)


def answer(value: Any) -> str:
    """The component's value for the one that it sent: JSON of {text}. Anything else may come from anyone, and names no
    scene."""
    return look(asked(value).get("text"))


def look(prompt: Any) -> str:
    """As the component's value: the prompt, and the description of the scene that it names by its number."""
    text = prompt if isinstance(prompt, str) else ""
    return fresh(text=text[:100], scene=tasks.numbered_scene(text) if len(text) <= 100 else "")


def elsewhere(prompt: gr.Textbox) -> None:
    """The sentence, with the button that changes the slots; looked at again whenever the prompt changes."""
    line = module(
        "page/otherprompt.js",
        "page.mountElsewhere(element, props, watch)",
        value=task_of(prompt.value),
        elem_id="elsewhere",
    )
    prompt.change(task_of, prompt, line, **LAST)


def task_of(prompt: Any) -> str:
    """What a prompt asks, as the component's value: a task's slug, "" where it is none of ours, None where nothing is
    asked."""
    given = isinstance(prompt, str) and prompt.strip() != ""
    known = tasks.recognise(prompt) if given else None
    return fresh(task=None if not given else known.task if known else tasks.picture_asked(prompt))
