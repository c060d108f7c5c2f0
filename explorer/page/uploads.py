"""A picture of a person's own for the models that read one, at home only: the browser sends the file, and what the
model gets of it comes back as the prompt. The file is kept nowhere."""

import base64
import json
import threading
from typing import Any

import gradio as gr

from engines import UserError
from explorer.own_pictures import BYTES, SAID, prompt_of
from explorer.page.limits import short
from explorer.page.parts import LIGHT, capital, fresh, module

ONE = threading.Lock()  # a large picture takes much memory while it is decoded


def section(prompt: gr.Textbox, public: bool) -> None:
    """The field, where a chosen model reads pictures; on a public host there is none, nor an event behind it."""
    if public:
        return
    field = module("page/upload.js", "page.mountUpload(element, props, watch, trigger)", most=BYTES, elem_id="upload")
    field.submit(take, field, [prompt, field], **LIGHT)


def take(value: Any) -> tuple[Any, str]:
    """(prompt, the field's value) of what the field sent: the sentence on what became of the file."""
    try:
        kind, data = read(value)
        with ONE:
            return prompt_of(data, kind), fresh(said=SAID[kind])
    except UserError as error:
        return gr.skip(), fresh(said=capital(error), bad=True)


def read(value: Any) -> tuple[str, bytes]:
    """(kind, bytes of the file) from JSON of {kind, base64}. Raises UserError for anything else: it may come from
    anyone."""
    if not isinstance(value, str) or len(value) > 2 * BYTES:
        raise UserError(f"no file of at most {BYTES:,} bytes was sent; choose one.")
    try:
        sent = json.loads(value)
        kind, text = sent["kind"], sent["base64"]
        data = base64.b64decode(text, validate=True)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UserError("what was sent is not a file; reload the page and choose it again.") from None
    if not isinstance(kind, str) or kind not in SAID:
        raise UserError(f"'{short(kind)}' is not a kind of picture; choose scene or word.")
    return kind, data
