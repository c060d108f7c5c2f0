"""Lecture mode (`?lecture`): a hidden component that sends the scenes of a lecture, shows the runs of one, and fills
the controls with what they were made with. The view itself is the browser's."""

from collections.abc import Sequence
from typing import Any

import gradio as gr
import msgspec

from engines import TraceError, UserError
from explorer.lecture import LONGEST, Lecture, read
from explorer.page.catalogue import updates
from explorer.page.handlers import Handlers
from explorer.page.parts import LAST, asked, capital, fresh, hidden
from explorer.runs.store import ID

MAX_ASK = 3 * LONGEST  # characters of a request, which may hold a list of one's own as a JSON string
MAX_NAME = 60  # characters of a file's name that are repeated
TOLD = "() => { document.dispatchEvent(new Event('dx-lecture-told')); }"


def section(handlers: Handlers, lecture: Lecture, outputs: list[Any], controls: Sequence[Any]) -> None:
    """outputs: bus, status, results; controls: prompt, seed, number of slots, and the forms of the slots."""
    box = hidden("lecture", "mountLecture(props, watch, () => trigger('submit'))")

    def answer(value: Any, request: gr.Request) -> list[Any]:
        shown, filled = [gr.skip()] * len(outputs), [gr.skip()] * len(controls)
        wish = asked(value, MAX_ASK)
        if wish.get("act") == "show":
            return [gr.skip(), *handlers.follow(wish.get("query"), request), *filled]
        if wish.get("act") == "save":
            return [saved(handlers, lecture, wish), *shown, *filled]
        if wish.get("act") == "ready":
            reply, filled = ready(handlers, wish.get("query"))
            return [reply, *shown, *(gr.skip() if update is None else update for update in filled)]
        return [listing(handlers, lecture, wish), *shown, *filled]

    event = box.submit(answer, box, [box, *outputs, *controls], **LAST)
    event.then(None, js=TOLD, api_visibility="private")


def listing(handlers: Handlers, lecture: Lecture, wish: dict[str, Any]) -> str:
    """The scenes as the component's value: of the list that was sent, `text`, else of this page's own. A list that
    cannot be read is refused in a sentence, and the page's own is there instead."""
    message, own = "", wish.get("text") is not None
    if own:
        try:
            lecture = read(wish["text"], str(wish.get("name", ""))[:MAX_NAME])
        except UserError as error:
            message, own = capital(error), False
    scenes = lecture.scenes(handlers.gallery, lambda name: _kept(handlers, name))
    return fresh(scenes=msgspec.to_builtins(scenes), text=lecture.text, said=message, own=own)


def saved(handlers: Handlers, lecture: Lecture, wish: dict[str, Any]) -> str:
    """The component's value with the lecture as one page that needs no server, `page`; or why there is none."""
    from explorer.export.html import export_lecture

    try:
        if wish.get("text") is not None:
            lecture = read(wish["text"], str(wish.get("name", ""))[:MAX_NAME])
        return fresh(page=export_lecture(lecture.scenes(handlers.gallery), handlers.gallery))
    except (UserError, TraceError) as error:
        return fresh(saying=capital(error))


def ready(handlers: Handlers, query: Any) -> tuple[str, list[Any]]:
    """The component's value, and what the controls take so that Run repeats the runs of a link."""
    try:
        linked, _, gone = handlers.my_runs.linked(query)
        if gone:
            raise UserError(gone[0])
        if not linked:
            raise UserError("the link names no run.")
        traces = {slot: trace for slot, (_, trace) in linked.items()}
        for slot, trace in traces.items():
            if handlers.catalogue.repeat(trace) is None:
                name = trace.header.models[0].name if trace.header.models else "no model"
                raise UserError(f"the run of player {slot + 1} cannot be made here: '{name[:60]}' is not offered.")
        filled = updates(handlers.catalogue, traces, len(traces), {})
    except (UserError, TraceError) as error:
        nothing = updates(handlers.catalogue, {}, 0, {})
        return fresh(ready=False, said=capital(error)), nothing
    return fresh(ready=True), filled


def _kept(handlers: Handlers, name: str) -> None:
    if not ID.fullmatch(name):
        raise TraceError(f"there is no recorded trace '{name[:60]}'.")
    if handlers.my_runs.keep is None:
        raise TraceError(f"there is no run {name} here: this server keeps none.")
    handlers.my_runs.keep.card(name)
