"""Gradio composes a server's app of eighty routes four times: when a page is begun, when it is whole, when its queue is
set, and at its launch, which replaces all that were before. Here only the last one is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gradio.blocks


@contextmanager
def at_launch() -> Iterator[None]:
    """Inside, pages are composed and given their queues without an app, which `launch`, outside, makes."""

    def none(*given: Any, **options: Any) -> None:
        return None

    app: Any = gradio.blocks.App
    real = app.__dict__["create_app"]
    app.create_app = staticmethod(none)
    try:
        yield
    finally:
        app.create_app = real
