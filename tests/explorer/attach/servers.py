"""Servers for the tests: real ones (llama.cpp's and transformers' own, with our tiny model), and one that sends what a
test tells it to, which stands for servers that misbehave and for formats whose programs cannot run here."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import engines
from explorer import ASSETS

TINY = "tiny-ar-l"


def hub_folder(target: Path) -> Path:
    """Our tiny model as a folder like those of the hub: weights, config and tokenizer together."""
    target.mkdir(parents=True, exist_ok=True)
    engines.load_model(TINY).model.save_pretrained(target)
    for file in (ASSETS / "models" / "tokenizer").iterdir():
        shutil.copy(file, target / file.name)
    return target


def gguf_file(target: Path, name: str = TINY) -> Path:
    """A tiny model of ours as llama.cpp reads it, float32, with its own tokenizer."""
    from tests.gguf_files import write_gguf

    folder = ASSETS / "models" / "tokenizer"
    words = json.loads((folder / "tokenizer.json").read_text())
    vocabulary, special = words["model"]["vocab"], {one["id"] for one in words["added_tokens"]}
    ours = {
        "pre": "smollm",
        "tokens": sorted(vocabulary, key=vocabulary.get),
        "token_type": [3 if i in special else 1 for i in range(len(vocabulary))],  # control, normal
        "merges": [" ".join(pair) for pair in words["model"]["merges"]],
        "scores": None,
    }
    extra = {f"tokenizer.ggml.{key}": value for key, value in ours.items()}
    extra["tokenizer.chat_template"] = (folder / "chat_template.jinja").read_text()
    return write_gguf(engines.load_model(name).model, target, architecture="llama", extra=extra)


LLAMA = """
import sys, time, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.port, p.n_parallel, p.n_ctx, p.warmup = sys.argv[1], int(sys.argv[2]), 1, 512, False
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
if sys.argv[3:]:
    p.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
    p.speculative.draft.mparams.path = sys.argv[3]
server = xllamacpp.Server(p)
time.sleep(3600)
"""


@contextlib.contextmanager
def running(command: list[str], port: int, health: str = "/health", patience: float = 120):
    """A server in a process of its own, ready to answer; yields its address."""
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    said: list[bytes] = []
    threading.Thread(target=lambda: said.extend(process.stdout), daemon=True).start()
    try:
        deadline = time.monotonic() + patience
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}{health}", timeout=5).close()
                break
            assert process.poll() is None and time.monotonic() < deadline, b"".join(said[-20:]).decode()
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def llama_command(gguf: Path, port: int, *more: str) -> list[str]:
    return [sys.executable, "-c", LLAMA, str(gguf), str(port), *more]


def transformers_command(port: int) -> list[str]:
    return [
        sys.executable, "-m", "transformers.cli.transformers", "serve", "--host", "127.0.0.1", "--port", str(port),
        "--device", "cpu",
    ]  # fmt: skip


class Scripted:
    """A server that answers as it is told. models: its list; reply(handler): writes the answer to a POST. `asked`:
    (path, headers, body) of every request."""

    def __init__(self, reply, models=("m",), owner="test", get=None) -> None:
        self.asked = asked = []
        get = get or {}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                asked.append((self.path, dict(self.headers), None))
                found = get.get(self.path)
                found = found(self) if callable(found) else found
                listed = {"data": [{"id": name, "owned_by": owner} for name in models or ()]}
                if found is None and self.path == "/v1/models" and models is not None:
                    found = json.dumps(listed)
                body = (found or "").encode()
                self.send_response(200 if found else 404)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                length = int(self.headers.get("content-length", 0))
                asked.append((self.path, dict(self.headers), json.loads(self.rfile.read(length) or b"{}")))
                self.close_connection = True
                with contextlib.suppress(OSError):
                    reply(self)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def piece(text):
    return {"choices": [{"delta": {"content": text}}]}


def silent(handler):
    """A reply that says nothing more, until whoever asks hangs up."""
    handler.rfile.read(1)


def stream(*events, pause=0.0, end=True, after=None):
    """A reply: these events as a stream, texts as they are, objects as JSON; `end` with the usual last line.
    after(handler): what happens then."""

    def reply(handler):
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        for event in [*events, *(["[DONE]"] if end else [])]:
            text = event if isinstance(event, str) else json.dumps(event)
            handler.wfile.write(f"data: {text}\n\n".encode())
            handler.wfile.flush()
            time.sleep(pause)
        if after:
            after(handler)

    return reply


def status(code, body="", headers=()):
    def reply(handler):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        handler.send_response(code)
        for name, value in headers:
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return reply
