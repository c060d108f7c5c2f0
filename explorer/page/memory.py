"""What Gradio remembers of each page, without what the page showed.

Gradio copies the configuration of all components for every page and keeps in it each value that a handler was given or
answered, until long after the page was closed. It makes deep links of that, of which this page has none; a trace of two
million characters that was opened stayed there as four megabytes."""

from __future__ import annotations

from typing import Any

import gradio as gr
from gradio.state_holder import SessionState, StateHolder


class Remembered(SessionState):
    """The components of one page and their state, but no values."""

    def __init__(self, blocks: gr.Blocks) -> None:
        super().__init__(blocks)
        self.config_values: dict[int, Any] = {}

    def __setitem__(self, key: int, value: Any) -> None:
        super().__setitem__(key, value)
        self.config_values.clear()

    def _update_config(self, key: int) -> None:
        """Nothing is kept."""

    def _update_value_in_config(self, key: int, value: Any) -> None:
        """Nothing is kept."""


class Holder(StateHolder):
    """Makes these for the pages of one server."""

    def __getitem__(self, session_id: str) -> SessionState:
        if session_id not in self:
            self.session_data.setdefault(session_id, Remembered(self.blocks))
        return super().__getitem__(session_id)


def keep_no_values(demo: gr.Blocks) -> None:
    """Of a page that has been launched."""
    demo.app.state_holder = Holder()
    demo.app.state_holder.set_blocks(demo)
