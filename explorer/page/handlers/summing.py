"""The tables and figures below the players."""

from __future__ import annotations

from typing import Any

import gradio as gr

from explorer.page import curves, tables
from explorer.page.handlers.desk import Desk


class Summing:
    """Sums up what the players show."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def numbers(self, request: gr.Request) -> str:
        """The table of all numbers."""
        return tables.numbers(self.desk.session(request).traces)

    def curves(self, request: gr.Request) -> tuple[Any, Any]:
        """Both summary figures; the first call imports plotly."""
        traces = self.desk.session(request).traces
        return curves.tokens_figure(traces), curves.confidence_figure(traces)

    def redraw(self, drawn: Any, request: gr.Request) -> tuple[Any, Any]:
        """The figures again, if they were drawn before; a page that never asked for curves never loads plotly."""
        return self.curves(request) if drawn else (gr.skip(), gr.skip())
