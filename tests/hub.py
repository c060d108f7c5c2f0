"""A hub of our own for tests, on this machine: the few addresses that huggingface_hub asks for a download, with ranges.
`slow` seconds pass between two pieces of a file; while it `holds` at a number of bytes, no more than these come of the
weights."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PIECE = 64 * 1024


class Hub(ThreadingHTTPServer):
    """repo -> folder with its files; `ranges` collects (file, first byte) of every file that was asked for."""

    daemon_threads = True

    def __init__(self, repos: dict[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repos, self.slow = repos, 0.0
        self.holds: int | None = None
        self.ranges: list[tuple[str, int]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+?)(/revision/[^/]+|/tree/[^/]+)?", path):
            folder = self.server.repos.get(found[1])
            if folder is None:
                return self._send(b'{"error": "Repository not found"}', 404, **{"X-Error-Code": "RepoNotFound"})
            files = sorted(file for file in folder.iterdir() if file.is_file())
            if (found[2] or "").startswith("/tree/"):
                return self._send(json.dumps([self._entry(file) for file in files]).encode())
            about = {"id": found[1], "sha": COMMIT, "siblings": [{"rfilename": file.name} for file in files]}
            return self._send(json.dumps(about).encode())
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/([^/]+)", path):
            file = self.server.repos[found[1]] / found[2]
            if file.is_file():
                return self._file(file)
        return self._send(b'{"error": "Entry not found"}', 404, **{"X-Error-Code": "EntryNotFound"})

    def _entry(self, file: Path) -> dict[str, object]:
        size, etag = file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest()
        return {
            **{"type": "file", "path": file.name, "size": size, "oid": etag[:40]},
            "lfs": {"oid": etag, "size": size, "pointerSize": 134},
        }

    def _send(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _file(self, file: Path) -> None:
        body = file.read_bytes()
        first = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        begin = int(first[1]) if first else 0
        self.send_response(206 if first else 200)
        etag = hashlib.sha256(body).hexdigest()
        about = {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"', "X-Linked-Etag": f'"{etag}"', "Accept-Ranges": "bytes"}
        about |= {"X-Linked-Size": str(len(body)), "Content-Length": str(len(body) - begin)}
        if first:
            about["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
        for name, value in about.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "GET":
            return
        self.server.ranges.append((file.name, begin))
        try:
            for at in range(begin, len(body), PIECE):
                while file.suffix == ".safetensors" and self.server.holds is not None and at >= self.server.holds:
                    time.sleep(0.02)
                self.wfile.write(body[at : at + PIECE])
                if self.server.slow and file.suffix == ".safetensors":
                    time.sleep(self.server.slow)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


@contextmanager
def serving(repos: dict[str, Path]) -> Iterator[Hub]:
    hub = Hub(repos)
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.holds = None
        hub.shutdown()
        hub.server_close()
        thread.join()
