"""Everything about traces: figures, stores, exports, the page and the command line. Knows no method.

`import explorer` is cheap: it loads neither Gradio nor torch. `explorer.launch()` starts the page. In a notebook a
trace plays itself once this package is imported; `explorer.show` puts several side by side, `explorer.lines` writes the
Python that repeats a run."""

from collections.abc import Sequence
from typing import Any

from engines import ASSETS
from explorer.show import register, show

__all__ = ["ASSETS", "launch", "lines", "main", "show"]

register()


def lines(traces: Any, ids: bool = False) -> str:
    """The Python lines that repeat one run or several; see `explorer.export.python.lines`."""
    from explorer.export.python import lines as write

    return write(traces, ids)


def launch(**options: Any) -> Any:
    """Build the page and start its server; see `explorer.page.server.launch`."""
    from explorer.page.server import launch as start

    return start(**options)


def main(arguments: Sequence[str] = ()) -> int:
    """Start the page and stay until interrupted: the command `serve` with its options. Returns the exit status."""
    from explorer.cli import main as command

    return command(["serve", *arguments])
