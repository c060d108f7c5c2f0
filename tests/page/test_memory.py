"""What opened traces leave behind; `python -m tests.page.memory 500` opens five hundred."""

from types import SimpleNamespace

import gradio as gr
import pytest
from gradio.blocks import BlocksConfig

from explorer.page.memory import Owners, keep_no_values
from tests.page.memory import measure


@pytest.mark.server
@pytest.mark.slow
def test_opened_traces_leave_nothing_behind_when_their_pages_close():
    """Without the mend each left twice its characters: 60 opens of two million 253 MB."""
    before, after, pages = measure(12, 1_000_000, warm=8)
    assert pages == 0
    assert after - before < 15, "12 of them would leave 25 MB"


def held(demo, capacity, owners=None, *is_open):
    """The state of so many pages."""
    demo.app, demo.state_session_capacity = SimpleNamespace(), capacity
    keep_no_values(demo, owners or Owners(), *is_open)
    return demo.app.state_holder


def test_who_comes_with_many_names_puts_out_nobody_elses_page():
    """The state of a page holds its last study and what its lists offer."""
    with gr.Blocks() as demo:
        kept = gr.State(3)
    owners = Owners()
    holder = held(demo, 5, owners)
    for session, client in (("first", "a"), ("second", "b")):
        owners.note(session, client)
        holder[session][kept._id] = session
    for number in range(40):
        owners.note(f"many {number}", "c")
        owners.note("first", "c")  # claimed later
        holder[f"many {number}"]
    assert list(holder.session_data) == ["first", "second", "many 37", "many 38", "many 39"]
    assert holder["first"][kept._id] == "first" and set(holder.time_last_used) == set(holder.session_data)


def test_pages_that_are_open_go_last():
    with gr.Blocks() as demo:
        gr.State(3)
    opened = {"first"}
    holder = held(demo, 2, Owners(), opened.__contains__)
    for name in ("first", "second", "third"):
        holder[name]
    assert list(holder.session_data) == ["first", "third"]
    opened.add("third")
    holder["fourth"]
    assert list(holder.session_data) == ["third", "fourth"], "where all others are open, the oldest goes"


def test_no_value_of_a_page_is_remembered_no_configuration_is_composed_and_state_is_kept(monkeypatch):
    """Gradio composes that of every component at a page's first call: a third of what a host did under newcomers."""
    with gr.Blocks() as demo:
        box, kept = gr.Textbox("here"), gr.State(3)
    holder, composed = held(demo, 2), []
    monkeypatch.setattr(BlocksConfig, "config_for_block", lambda self, number, *rest: composed.append(number))
    page = holder["a"]
    assert page[box._id] is box and composed == []
    page._update_value_in_config(box._id, "x" * 1000)
    page[box._id] = gr.Textbox("y" * 1000, render=False)
    page._update_config(box._id)
    page[kept._id] = 4
    assert page.config_values == {} and holder["a"] is page and page[kept._id] == 4
    for name in ("b", "c"):
        holder[name]
    assert list(holder.session_data) == ["b", "c"]


def test_no_more_addresses_are_remembered_than_so_many(monkeypatch):
    monkeypatch.setattr("explorer.page.memory.REMEMBERED", 3)
    owners = Owners()
    for number in range(10):
        owners.note(str(number), "a")
    assert [owners.of(str(number)) for number in range(10)] == [""] * 7 + ["a"] * 3
