"""A slot's form: one component whose value is the JSON of {method, model, params}. It is drawn in the browser from the
catalogue that the page is sent once, and asks the server nothing while a person fills it in."""

import json
from typing import Any, TypeVar

import gradio as gr
import msgspec

from engines import UserError
from explorer.page.parts import module

LARGEST = 200_000  # characters of a form
T = TypeVar("T")
CALL = "page.mountForm(element, props, watch)"
SHOW = (
    '(count) => { document.getElementById("controls").dataset.slots = count; '
    'document.dispatchEvent(new Event("dx-form")); }'
)  # how many slots are in sight


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one slot holds: the slug of a method, the name of a model, values of declared parameters by name, and
    whether the model is to have row-invariant forwards."""

    method: str
    model: str
    params: dict[str, Any] = {}
    row_invariant: bool = False

    def text(self) -> str:
        """As the component's value, which names row-invariant forwards only where they are wished."""
        value = msgspec.to_builtins(self)
        if not self.row_invariant:
            del value["row_invariant"]
        return json.dumps(value, ensure_ascii=False)


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


def catalogue(offered: str) -> gr.HTML:
    """Hidden; brings the catalogue, once for all forms."""
    return module("page/form.js", "page.catalogue(props)", value=offered, visible="hidden", elem_id="catalogue")


def slot(number: int, form: Form) -> gr.HTML:
    """The form of a slot, which opens with that value."""
    return module("page/form.js", CALL, value=form.text(), number=number, elem_id=f"slot-{number}")
