"""A page whose server was killed in the middle of a run and began again: it says so and goes on, and no run is lost."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from explorer.runs.store import RunStore

pytestmark = [pytest.mark.slow, pytest.mark.server]

ROOT = Path(__file__).resolve().parents[2]
SERVE = """
import sys
from pathlib import Path
import engines
from explorer.page.server import launch
from explorer.runs.gallery import Gallery
from tests.page.conftest import Slow

real = engines.stream
engines.stream = lambda *a, **k: Slow(real(*a, **k), float(sys.argv[3]))
launch(block=True, warm=False, traces=Gallery(Path(sys.argv[1])), quiet=True, server_port=int(sys.argv[2]))
"""


def start(recorded: Path, port: int, pause: float, store: Path) -> subprocess.Popen[bytes]:
    """A server on that port that answers; each forward takes `pause` seconds more."""
    command = [sys.executable, "-c", SERVE, str(recorded), str(port), str(pause)]
    one = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "EXPLORER_STORE": str(store)})
    for _ in range(600):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/config", timeout=5).status_code == 200:
                return one
        except httpx.HTTPError:
            pass
        assert one.poll() is None, "the server ended"
        time.sleep(0.1)
    raise AssertionError("the server does not answer")


def test_a_page_goes_on_after_its_server_was_killed_and_began_again(recorded, browser, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = start(recorded, port, 0.4, tmp_path)
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    try:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/?still")
        page.locator("#panel-0 .dx-panel[data-state=ready]").wait_for(timeout=60_000)
        page.get_by_role("button", name="Run", exact=True).click()
        page.locator("#panel-0 .dx-panel[data-state=live]").wait_for(timeout=60_000)
        page.wait_for_function("() => Number(document.querySelector('#panel-0 .dx-panel').dataset.step) > 1")
        server.send_signal(signal.SIGKILL)
        server.wait(10)
        page.get_by_text("Connection to the server was lost").first.wait_for(timeout=30_000)
        server = start(recorded, port, 0, tmp_path)
        page.locator("#panel-0 .dx-panel[data-state=ready]").wait_for(timeout=60_000)  # the page loads itself again
        page.get_by_role("button", name="Run", exact=True).click(timeout=60_000)
        page.locator("#status .status").filter(has_text="Done:").wait_for(timeout=60_000)
        store = RunStore(tmp_path)
        ends = [store.get(card.id).end for card in store.cards()]
        assert any(end.reason == "stopped" and "ended without a word" in end.message for end in ends), ends
        assert any(end.reason != "stopped" for end in ends), "the later run was kept as well"
    finally:
        context.close()
        server.kill()
        server.wait(10)
