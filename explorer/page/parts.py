"""The page's own components: factories of `gr.HTML` with a constant template. Data travels as a JSON string in `value`
and is set with `textContent`; nothing from a model or a person ever passes through a template."""

import itertools
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from pathlib import PurePosixPath
from typing import Any

import gradio as gr
import msgspec

from engines import TraceError, UserError
from explorer.export.bundle import own_views

LIGHT: dict[str, Any] = {
    "queue": False,
    "show_progress": "hidden",
    "api_visibility": "private",
}  # of events that touch no model
LAST: dict[str, Any] = {**LIGHT, "trigger_mode": "always_last"}  # of what was asked meanwhile the last is answered too


def queued(what: str, most: int = 1) -> dict[str, Any]:
    """Of events that take long and share one queue, which goes by that name: so many at a time."""
    queue = {"concurrency_limit": most, "concurrency_id": what, "trigger_mode": "once"}
    return {**queue, "api_visibility": "private", "show_progress": "minimal"}


ONE_AT_A_TIME = queued("model")  # of events that run a model

log = logging.getLogger("decoding-explorer")
PLAYER = "player/gradio.js"
ASKED = 4000  # characters of what a component sends
_numbers = itertools.count(1)


def fresh(**data: Any) -> str:
    """JSON with a running number, so that sending the same thing twice is a change. `<` is escaped: the text is inert
    anywhere."""
    text = json.dumps({**data, "n": next(_numbers)}, ensure_ascii=False).replace("<", "\\u003c")
    return text.encode("utf-8", "replace").decode()  # half of a character, which a visitor may send, cannot be answered


def asked(value: Any, most: int = ASKED) -> dict[str, Any]:
    """The object of the JSON text that a component sent; an empty one for anything else: it may come from anyone."""
    try:
        parsed = json.loads(value) if isinstance(value, str) and len(value) <= most else None
    except (ValueError, RecursionError):
        parsed = None
    return parsed if isinstance(parsed, dict) else {}


def capital(words: object) -> str:
    """Words, or an error's, as a sentence begins."""
    text = str(words)
    return text[:1].upper() + text[1:]


def say(text: str, kind: str = "info", go: str = "") -> str:
    """A value of the status line. go: the id of what the page scrolls to where it is not in sight, such as the
    players when a run begins."""
    return fresh(kind=kind, text=capital(text), **({"go": go} if go else {}))


def refusals(place: int, of: int, failure: str = "") -> Callable[[Callable[..., Any]], Any]:
    """Of a handler with so many outputs, what it refuses is a sentence in that place, and the others stay. failure: the
    sentence for an error of ours, whose details go to the server's log; without one it is raised."""

    def decorate(handler: Callable[..., Any]) -> Callable[..., Any]:
        def row(error: Exception) -> tuple[Any, ...]:
            refused = isinstance(error, (TraceError, UserError))
            if not (refused or failure):
                raise error
            if not refused:
                log.error("%s failed", handler.__qualname__, exc_info=error)
            text = say(str(error) if refused else failure, "error")
            return tuple(text if output == place else gr.skip() for output in range(of))

        @wraps(handler)
        def at_once(*given: Any, **named: Any) -> Any:
            try:
                return handler(*given, **named)
            except Exception as error:
                return row(error)

        @wraps(handler)
        def stepwise(*given: Any, **named: Any) -> Any:
            try:
                yield from handler(*given, **named)
            except Exception as error:
                yield row(error)

        return stepwise if isgeneratorfunction(handler) else at_once

    return decorate


@contextmanager
def alerts() -> Iterator[None]:
    """Inside, or within a function that it decorates, what is refused becomes an alert of the page."""
    try:
        yield
    except UserError as error:
        raise gr.Error(str(error), print_exception=False) from None


def bus(value: str) -> gr.HTML:
    """The hidden, always mounted inbox of the players."""
    own = [msgspec.to_builtins(view) | {"record": PurePosixPath(view.file).stem} for view in own_views()]
    views = json.dumps(own) if own else ""
    return module(PLAYER, "page.bus(element, props, watch)", value=value, views=views, visible="hidden", elem_id="bus")


def table(value: str, **options: Any) -> gr.HTML:
    """A table from `tables.*`."""
    template = '<div class="facts"></div>'
    return module("page/table.js", "page.mountTable(element, props, watch)", value=value, template=template, **options)


def status(value: str, elem_id: str = "status") -> gr.HTML:
    """A line that says what goes on."""
    template = '<p class="status" aria-live="polite"></p>'
    call = "page.mountStatus(element, props, watch)"
    return module("page/status.js", call, value=value, template=template, elem_id=elem_id, min_height=24)


def running_state(over: list[Any], stop: gr.Button) -> None:
    """Run turns into Stop from the click to the end of the run, on the page alone. over: events after which nothing is
    asked for any more. stop: see `until`."""
    hidden("running", "mountRunning()")
    for event in over:
        event.then(None, js='() => document.dispatchEvent(new Event("dx-over"))', api_visibility="private")
    stop.click(None, js='() => document.dispatchEvent(new Event("dx-ended"))', api_visibility="private")


def either(name: str, begin: tuple[str, str], end: tuple[str, str]) -> tuple[gr.Button, gr.Button]:
    """Two buttons in one place, each (words, id); the second is there while what the first began goes on. See
    `until`."""
    with gr.Row(elem_id=name, elem_classes=["either"]):
        start = gr.Button(begin[0], variant="primary", elem_id=begin[1], min_width=120)
        stop = gr.Button(end[0], variant="stop", elem_id=end[1], min_width=120)
    start.click(None, js=_turn(name, "running", "true"), api_visibility="private")
    stop.click(None, js=_turn(name, "ending", "true"), api_visibility="private")
    return start, stop


def until(name: str, over: list[Any], stop: gr.Button) -> None:
    """The first of two buttons is back after any of these events, and not before all that the click on the second one
    set off: Gradio cancels after the handler has answered, and what was begun in between would be cancelled in place of
    what was meant. To be called when that click has all of its events."""
    for event in over:
        event.then(None, js=_turn(name, "running", "false"), api_visibility="private")
    stop.click(None, js=_turn(name, "ending", "false"), api_visibility="private")


def _turn(name: str, what: str, on: str) -> str:
    return f'() => document.getElementById("{name}").toggleAttribute("data-{what}", {on})'


def module(
    name: str, call: str, *, value: str = "", template: str = '<div class="mount"></div>', **options: Any
) -> gr.HTML:
    """A component drawn by a module of the client: `call` is an expression over `page`, the module, and `element`,
    `props`, `watch`, `trigger`."""
    script = f"dxReady.then(() => dxModules.load({json.dumps(name)})).then((page) => {{ {call}; }});"
    return gr.HTML(value, html_template=template, js_on_load=script, apply_default_css=False, **options)


def hidden(name: str, call: str) -> gr.HTML:
    """What the module page/NAME.js does or draws, with nothing to see in its own place."""
    return module(f"page/{name}.js", f"page.{call}", visible="hidden", elem_id=name)


def dots(within: str) -> gr.HTML:
    """Hidden; raises `submit` with {"dot": n} when a dot of a figure inside the element `within` is clicked, n being
    its `customdata`."""
    call = "page.mountDots(props, trigger)"
    return module("page/dots.js", call, within=within, visible="hidden", elem_id=f"{within}-dots")
