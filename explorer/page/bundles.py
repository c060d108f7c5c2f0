"""Ninety controls as one value.

Whatever is an output of an event once is told the status of every later event of the page, and every input is told at the first message of its event:
with the ninety controls of the slots that was 20 ms of the browser for each message. Here the browser alone gathers and spreads them, around events of the
server that have one hidden value. Gradio checks nothing of what comes back; the handlers do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr

from engines import UserError
from explorer.page.parts import LIGHT

GATHER = "(...values) => JSON.stringify(values)"
SPREAD = "(told) => told ? JSON.parse(told) : []"  # what is not named stays as it is
LARGEST = 2_000_000  # characters of a bundle


def gather(triggers: Sequence[Callable[..., Any]], inputs: Sequence[Any]) -> tuple[Any, gr.Textbox]:
    """(event, hidden box): when a trigger fires, the box holds the values of `inputs` for what follows the event by `then`; read them with `unpack`."""
    box = gr.Textbox(visible=False)
    return gr.on(triggers, None, list(inputs), box, js=GATHER, **LIGHT), box


def spread(trigger: Callable[..., Any], handler: Callable[..., str], inputs: Sequence[Any] | None, outputs: Sequence[Any]) -> None:
    """When the trigger fires, what the handler makes of the inputs with `pack` reaches the outputs; "" changes nothing."""
    box = gr.Textbox(visible=False)
    trigger(handler, inputs, box, preprocess=False, **LIGHT).then(None, box, list(outputs), js=SPREAD, **LIGHT)


def pack(updates: Sequence[Any]) -> str:
    """Values and `gr.update`s as the browser takes them: choices are pairs of label and value; `gr.skip()` becomes an update of nothing."""
    return json.dumps([_front(one) for one in updates], ensure_ascii=False)


def _front(value: Any) -> Any:
    if isinstance(value, Mapping) and "choices" in value:
        return {**value, "choices": [one if isinstance(one, (tuple, list)) else (one, one) for one in value["choices"]]}
    return value


def unpack(text: Any) -> list[Any]:
    """The values that `gather` put together. Raises UserError for anything else."""
    try:
        if not isinstance(text, str) or len(text) > LARGEST or not isinstance(values := json.loads(text), list):
            raise ValueError
    except (ValueError, RecursionError):
        raise UserError("the settings on this page could not be read; reload it and try again.") from None
    return values
