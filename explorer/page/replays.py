"""Rows that open traces: a chosen row of a list is run again with everything recorded, and shown on the Explore tab at
the step that failed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import gradio as gr

from engines import Trace, UserError
from explorer.figures.verdict import judge
from explorer.page.handlers import Handlers
from explorer.page.parts import ONE_AT_A_TIME


class Replay(NamedTuple):
    """What a row runs again: `decode(max_steps=, max_seconds=)`, and the words for it."""

    decode: Callable[..., Trace]
    words: str


def listing(heads: list[str], name: str, label: str) -> gr.Dataframe:
    """A list with these columns, of which a row can be chosen."""
    return gr.Dataframe(headers=heads, interactive=False, elem_id=name, label=label, max_height=420, wrap=True)


def opens(
    frame: gr.Dataframe,
    find: Callable[[Any, Any, gr.Request], Replay],
    beside: Any,
    handlers: Handlers,
    tabs: gr.Tabs,
    outputs: Sequence[Any],
) -> None:
    """Connect a list. find(row, value of `beside`, request): what to run; UserError for no row: anyone can send one."""

    def play(value: Any, event: gr.SelectData, request: gr.Request) -> Iterator[tuple[Any, ...]]:
        try:
            replay = find(event.row_value, value, request)
        except UserError as error:
            raise gr.Error(str(error), print_exception=False) from None
        for shown in handlers.run_again(replay.decode, replay.words, request, failed_at):
            yield (*shown, gr.Tabs(selected="explore"))

    played = frame.select(play, beside, [*outputs, tabs], show_progress_on=[outputs[1]], **ONE_AT_A_TIME)
    played.then(None, js="() => window.scrollTo({ top: 0 })")  # the players are at the top of their tab


def failed_at(trace: Trace) -> int | None:
    """The finished steps that show the first wrong word just written; None where nothing is wrong or known."""
    mark = judge(trace)
    return None if mark is None or mark.step is None else mark.step + 1


def row_number(row: Any, below: int, what: str) -> int:
    """The number that is first in a row. Raises UserError for what is no row."""
    number = str(row[0]) if isinstance(row, (list, tuple)) and row else ""
    if not number.isascii() or not number.isdigit() or len(number) > 9 or int(number) >= below:
        raise UserError(f"'{number[:20]}' is no {what}; choose a row of the list.")
    return int(number)
