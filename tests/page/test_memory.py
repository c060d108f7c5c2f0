"""What opened traces leave behind; `python -m tests.page.memory 500` opens five hundred. Freed memory goes back to the
system: in a process of its own, whose memory is all its own."""

import subprocess
import sys
from types import SimpleNamespace

import gradio as gr
import pytest
from gradio.blocks import BlocksConfig

from explorer.page import memory
from explorer.page.memory import Owners, keep_no_values
from tests.page.memory import measure

MEGABYTES = 128
PROGRAM = f"""
import sys, threading, time
from explorer.page import memory
memory.EVERY, memory.WORKED = 0.05, 0.0  # a busy machine gives little of a processor

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

def fill():  # a large upload, of which one small piece in a thousand stays
    held = [bytes(2000) for _ in range({MEGABYTES} * 500)]
    kept.append(held[::1000])

kept = []
if "watch" in sys.argv:
    memory.give_back()
before = resident()
for _ in range(4):
    thread = threading.Thread(target=fill)
    thread.start()
    thread.join()
least = resident()
for _ in range(1000 if "watch" in sys.argv else 20):
    if least - before < {MEGABYTES} / 4:
        break
    time.sleep(0.05)
    least = min(least, resident())
print(int(least - before), sum(t.name == "memory" for t in threading.enumerate()))
"""


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
    keep_no_values(demo, Owners(1000) if owners is None else owners, *is_open)
    return demo.app.state_holder


def test_who_comes_with_many_names_puts_out_nobody_elses_page():
    """The state of a page holds its last study and what its lists offer."""
    with gr.Blocks() as demo:
        kept = gr.State(3)
    owners = Owners(1000)
    holder = held(demo, 5, owners)
    for session, client in (("first", "a"), ("second", "b")):
        owners.setdefault(session, client)
        holder[session][kept._id] = session
    for number in range(40):
        owners.setdefault(f"many {number}", "c")
        owners.setdefault("first", "c")  # claimed later
        holder[f"many {number}"]
    assert list(holder.session_data) == ["first", "second", "many 37", "many 38", "many 39"]
    assert holder["first"][kept._id] == "first" and set(holder.time_last_used) == set(holder.session_data)


def test_pages_that_are_open_go_last():
    with gr.Blocks() as demo:
        gr.State(3)
    opened = {"first"}
    holder = held(demo, 2, Owners(1000), opened.__contains__)
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


def test_no_more_addresses_are_remembered_than_so_many():
    owners = Owners(3)
    for number in range(10):
        owners.setdefault(str(number), "a")
    assert list(owners) == ["7", "8", "9"]


def grown(*options: str) -> list[int]:
    """MB beyond the beginning, the least of some time after four uploads, and threads that give back."""
    run = subprocess.run([sys.executable, "-c", PROGRAM, *options], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return [int(word) for word in run.stdout.split()]


@pytest.mark.server
@pytest.mark.skipif(memory._glibc() is None, reason="another C library")
def test_freed_memory_goes_back():
    left, watching = grown("watch")
    assert watching == 1 and left < MEGABYTES / 4
    left, watching = grown()
    assert watching == 0 and left > MEGABYTES / 4, "the C library gives it back by itself; then this can go"


def test_a_page_gives_back_and_another_c_library_is_left_alone(monkeypatch, address):
    assert memory._giving_back.is_set() or memory._glibc() is None
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    assert memory._glibc() is None
    memory.give_back()
