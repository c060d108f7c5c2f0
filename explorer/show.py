"""Traces in a notebook: the exported page in a frame that cannot reach the notebook or the network."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engines import Trace

LIMIT_MB = 8.0  # of a notebook's cell; a notebook file keeps what it shows
HEIGHT = 720  # pixels


class Show:
    """What `show` returns: displays itself in Jupyter. `page` is the whole HTML page, to be written to a file or
    served."""

    def __init__(self, traces: list[Trace], height: int, limit_mb: float) -> None:
        self.traces, self.height, self.limit_mb = traces, height, limit_mb

    @property
    def page(self) -> str:
        """The self-contained page."""
        from explorer.export.html import export_html

        return export_html(self.traces, " and ".join(dict.fromkeys(trace.header.title for trace in self.traces)))

    def _repr_html_(self) -> str:
        page = self.page
        size = len(page.encode("utf-8", "replace")) / 1e6
        if size > self.limit_mb:
            return html.escape(
                f"The page of this run has {size:.1f} MB; a cell shows at most {self.limit_mb:g} MB, because the "
                f"notebook keeps it. Use explorer.show(trace, limit_mb={size + 1:.0f}), or write "
                "explorer.show(trace).page to a file and open that."
            )
        frame = f'style="width: 100%; height: {self.height}px; border: 0" title="Decoding Explorer"'
        return f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" {frame}></iframe>'

    def __repr__(self) -> str:
        from explorer.figures.calls import many

        summary = ", ".join(
            f"{t.header.title}: {many(t.totals.tokens, 'token')} in {many(len(t.steps), 'step')}" for t in self.traces
        )
        return f"<{summary}; shown as a page in Jupyter, or write .page to a file>"


def show(traces: Trace | Iterable[Trace], *, height: int = HEIGHT, limit_mb: float = LIMIT_MB) -> Show:
    """One trace, or several side by side on one clock, as something that a notebook displays. height: pixels. Raises
    ValueError without a trace."""
    several: list[Trace] = [traces] if hasattr(traces, "to_json") else list(traces)  # type: ignore[list-item, arg-type]
    if not several:
        raise ValueError("there is nothing to show: give at least one trace")
    return Show(several, int(height), float(limit_mb))


def register() -> None:
    """Give `Trace` its look in Jupyter: a trace as the last line of a cell plays itself."""
    from engines import Trace

    Trace._repr_html_ = lambda trace: show(trace)._repr_html_()  # type: ignore[attr-defined]
