"""What is filled in before a run.

A slot's form is one component whose value is the JSON of {method, model, params}. It is drawn in the browser from the
catalogue that the page is sent once, and asks the server nothing while a person fills it in. Below the prompt: a scene
to draw, where a chosen model sees scenes; a sentence where the prompt is none of what the chosen models know, with the
offer of one that can answer it; and at home a field for a picture of one's own, which comes back as the prompt and is
kept nowhere. The prompt's text is the truth: the browser reads the cells from it and writes them into it; which scene a
number stands for, and which of our tasks a prompt asks, is said here."""

import base64
import json
import threading
from typing import Any, TypeVar

import gradio as gr
import msgspec

from engines import UserError, tasks
from explorer.own_pictures import BYTES, SAID, prompt_of
from explorer.page.catalogue import Form
from explorer.page.parts import LAST, LIGHT, asked, capital, fresh, module
from explorer.page.run_limits import short

LARGEST = 200_000  # characters of a form
T = TypeVar("T")
CALL = "page.mountForm(element, props, watch)"
SHOW = (
    '(count) => { document.getElementById("controls").dataset.slots = count; '
    'document.dispatchEvent(new Event("dx-form")); }'
)  # how many slots are in sight


def read(value: object) -> Form:
    """A slot's form; what it names is not looked at here. Raises UserError as `read_as`."""
    return read_as(
        Form,
        value,
        'method, model and params, such as {"method": NAME, "model": NAME, "params": {"max_new_tokens": 32}}',
    )


def read_as(kind: type[T], value: object, fields: str) -> T:
    """A struct from its JSON text, or from the object that the text holds. fields: those that the struct has, in words.
    Raises UserError for anything else: it may come from anyone."""
    try:
        return msgspec.convert(json.loads(value) if isinstance(value, str) and len(value) <= LARGEST else value, kind)
    except msgspec.ValidationError as error:
        reason = str(error).replace("`", "'")[:200].encode("utf-8", "replace").decode()
    except (ValueError, RecursionError):
        reason = "it is not JSON"
    raise UserError(f"the form could not be read: {reason}; reload the page, or give an object with {fields}.")


def slot(number: int, form: Form) -> gr.HTML:
    """The form of a slot, which opens with that value."""
    return module("page/form.js", CALL, value=form.text(), number=number, elem_id=f"slot-{number}")


def palette(prompt: gr.Textbox) -> None:
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
    """The component's value for what it sent, JSON of {text}. Anything else may come from anyone, and names nothing."""
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
    """What a prompt asks, as the component's value: a task's slug, "" for none of ours, None where nothing is asked."""
    given = isinstance(prompt, str) and prompt.strip() != ""
    known = tasks.recognise(prompt) if given else None
    return fresh(task=None if not given else known.task if known else tasks.picture_asked(prompt))


ONE = threading.Lock()  # a large picture takes much memory while it is decoded


def upload(prompt: gr.Textbox, public: bool) -> None:
    """The field, where a chosen model reads pictures; on a public host there is none, nor an event behind it."""
    if public:
        return
    field = module("page/upload.js", "page.mountUpload(element, props, watch, trigger)", most=BYTES, elem_id="upload")
    field.submit(take, field, [prompt, field], **LIGHT)


def take(value: Any) -> tuple[Any, str]:
    """(prompt, the field's value) of what the field sent: the sentence on what became of the file."""
    try:
        kind, data = picture_file(value)
        with ONE:
            return prompt_of(data, kind), fresh(said=SAID[kind])
    except UserError as error:
        return gr.skip(), fresh(said=capital(error), bad=True)


def picture_file(value: Any) -> tuple[str, bytes]:
    """(kind, bytes) from JSON of {kind, base64}. Raises UserError for anything else: it may come from anyone."""
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
