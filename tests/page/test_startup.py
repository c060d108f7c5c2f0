"""Starting is quick, silent and light, measured in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SERVE = """
import json, os, resource, socket, sys, threading
outside, connect, lookup = [], socket.socket.connect, socket.getaddrinfo
def watched(self, address):
    if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost", "0.0.0.0"):
        outside.append(address[0])
    return connect(self, address)
def looked(host, *rest, **options):
    if host not in (None, "127.0.0.1", "::1", "localhost", "0.0.0.0"): outside.append(str(host))
    return lookup(host, *rest, **options)
socket.socket.connect, socket.getaddrinfo = watched, looked
from pathlib import Path
import gradio
imported = resource.getrusage(resource.RUSAGE_SELF)
from explorer.page.server import launch
from explorer.runs.gallery import Gallery
demo = launch(warm=False, traces=Gallery(Path(sys.argv[1])), quiet=True)
import urllib.request
page = urllib.request.urlopen(demo.local_url).read()
used = resource.getrusage(resource.RUSAGE_SELF)
from gradio_client import Client
button = next(f for f in demo.fns.values() if getattr(f.fn, "__qualname__", "") == "plays.<locals>.play")
asked = json.dumps({"play": [Gallery(Path(sys.argv[1])).cards[0].id]})
client = Client(demo.local_url, verbose=False)
seconds = used.ru_utime + used.ru_stime
class Request: session_hash = "visitor"
value = button.fn(asked, Request())[0]
heavy = [m for m in ("torch", "transformers", "plotly", "lm_eval") if m in sys.modules]
print(json.dumps({"cpu": seconds, "gradio": imported.ru_utime + imported.ru_stime, "heavy": heavy, "outside": outside,
    "page": len(page), "trace": '"trace"' in value}))
sys.stdout.flush()
os._exit(0)
"""


def run(code: str, *arguments: str) -> str:
    without = ("GRADIO_ANALYTICS_ENABLED", "OMP_WAIT_POLICY")
    env, command = {k: v for k, v in os.environ.items() if k not in without}, [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.server
@pytest.mark.timing
def test_the_server_answers_and_a_gallery_trace_plays_without_torch_or_network(recorded):
    found = json.loads(run(SERVE, str(recorded)))
    assert found["trace"] and found["page"] > 1000
    assert found["heavy"] == []
    assert found["outside"] == []
    print(f"CPU until the first answer: {found['cpu']:.1f} s (target 4), {found['gradio']:.1f} s of it for Gradio")
    assert found["cpu"] < 2.5 * found["gradio"], "most of it is Gradio's own import, which this machine was timed by"


@pytest.mark.server
def test_imports_are_late_and_threads_that_compute_do_not_spin_beside_a_browser():
    """libgomp reads OMP_WAIT_POLICY when torch is imported, which is after the page's server. What a method declares is
    looked into where another one has a record of that name, and no sooner."""
    told = """import json, os, sys
import explorer
early = [name for name in ("torch", "transformers", "plotly", "gradio") if name in sys.modules]
import engines
engines.list_methods()
from engines.core.trace.records import described
misses = described.cache_info().misses
import explorer.page.server
print(json.dumps([early, misses, os.environ["OMP_WAIT_POLICY"], "torch" in sys.modules]))"""
    assert json.loads(run(told)) == [[], 0, "PASSIVE", False]
