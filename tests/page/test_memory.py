"""What opened traces leave behind; `python -m tests.page.memory 500` opens five hundred."""

from __future__ import annotations

from types import SimpleNamespace

import gradio as gr
import pytest

from explorer.page.memory import keep_no_values
from tests.page.memory import measure


@pytest.mark.slow
def test_opened_traces_leave_nothing_behind_when_their_pages_close():
    """Without the mend each left twice its characters: 60 opens of two million 253 MB."""
    before, after, pages = measure(12, 1_000_000, warm=8)
    assert pages == 0
    assert after - before < 15, "12 of them would leave 25 MB"


def test_no_value_of_a_page_is_remembered_and_state_is():
    with gr.Blocks() as demo:
        box, kept = gr.Textbox(), gr.State(3)
    demo.app = SimpleNamespace()
    demo.state_session_capacity = 2
    keep_no_values(demo)
    page = demo.app.state_holder["a"]
    page._update_value_in_config(box._id, "x" * 1000)
    page[box._id] = gr.Textbox("y" * 1000, render=False)
    page._update_config(box._id)
    page[kept._id] = 4
    assert page.config_values == {} and demo.app.state_holder["a"] is page and page[kept._id] == 4
    for name in ("b", "c"):
        demo.app.state_holder[name]
    assert list(demo.app.state_holder.session_data) == ["b", "c"]
