"""`publish` against a local stand-in of the Hub's HTTP API, which keeps what arrives."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from engines import UserError
from explorer.cli import main, publish
from explorer.runs.gallery import Gallery
from tests.player.handmade import masked

WEIGHTS = bytes(range(256)) * 64
TREE = {
    "README.md": b"---\ntitle: T\nsdk: gradio\n---\n",
    "LICENSE": b"l", "requirements.txt": b"r", "app.py": b"a", "engines/e.py": b"e", "explorer/x.py": b"x",
    "assets/model.safetensors": WEIGHTS,
}  # fmt: skip
LEFT = {
    "tests/t.py": b"t",
    "engines/__pycache__/e.pyc": b"c",
    "assets/secret.env": b"s",
    ".gitignore": b"*.pyc\n*.env\n",
}
CALL = (
    "import sys; from pathlib import Path; from explorer.cli import main, publish; publish.ROOT = Path(sys.argv[1]); "
    "sys.exit(main(['publish', *sys.argv[2:]]))"
)


class Hub(ThreadingHTTPServer):
    """Keeps calls, the large files and the commit; `status` is what making a repository answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.status, self.calls, self.stored, self.commit, self.tokens = 200, [], {}, [], set()
        self.words = ""


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_) -> None:
        pass

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _send(self, answer: dict, status: int = 200) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(data)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_PUT(self) -> None:
        self.server.stored[self.path.rsplit("/", 1)[1]] = self._body()
        self._send({})

    def do_POST(self) -> None:
        body, hub = self._body(), self.server
        hub.calls.append(self.path)
        hub.tokens.add(self.headers.get("Authorization"))
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            hub.made = asked
            return self._send({"url": f"{hub.address}/spaces/ada/decoding", "error": hub.words}, hub.status)
        if "/preupload/" in self.path:
            files = json.loads(body)["files"]
            mode = {True: "lfs", False: "regular"}
            told = [{"path": f["path"], "uploadMode": mode[f["path"].endswith(".safetensors")], "shouldIgnore": False}
                    for f in files]  # fmt: skip
            return self._send({"files": told})
        if self.path.endswith("/info/lfs/objects/batch"):
            objects = [
                {**{k: one[k] for k in ("oid", "size")},
                 "actions": {"upload": {"href": f"{hub.address}/store/{one['oid']}", "header": {}}}}
                for one in json.loads(body)["objects"]
            ]  # fmt: skip
            return self._send({"transfer": "basic", "objects": objects})
        if "/commit/" in self.path:
            hub.commit = [json.loads(line) for line in body.splitlines() if line]
            url = f"{hub.address}/spaces/ada/decoding/commit/1"
            return self._send({"success": True, "commitOid": "1" * 40, "commitUrl": url, "hookMsg": ""})
        return self._send({})


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    for name, data in (TREE | LEFT).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def call(root: Path, endpoint: str, *options: str, said: str = "", token: str = "hf_secret"):
    env = {name: value for name, value in os.environ.items() if name not in ("HF_TOKEN", "HF_HUB_OFFLINE")}
    env |= {"HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(root.parent / "hf"), "NO_PROXY": "*"}
    if token:
        env["HF_TOKEN"] = token
    return subprocess.run([sys.executable, "-c", CALL, str(root), *options], input=said, env=env, capture_output=True,
                          text=True, timeout=120)  # fmt: skip


def test_a_space_gets_exactly_what_it_needs(hub, checkout):
    done = call(checkout, hub.address, "--space", "ada/decoding", said="yes\n")
    assert done.returncode == 0, done.stderr
    assert f"{len(TREE)} files" in done.stdout and "assets/model.safetensors" in done.stdout
    assert f"{hub.address}/spaces/ada/decoding" in done.stdout
    assert "hf_secret" not in done.stdout + done.stderr and hub.tokens == {"Bearer hf_secret"}
    assert (hub.made["type"], hub.made["sdk"]) == ("space", "gradio")
    small = {o["value"]["path"]: base64.b64decode(o["value"]["content"]) for o in hub.commit if o["key"] == "file"}
    large = {o["value"]["path"]: hub.stored[o["value"]["oid"]] for o in hub.commit if o["key"] == "lfsFile"}
    assert small | large == TREE and large == {"assets/model.safetensors": WEIGHTS}


def test_nothing_is_sent_by_a_dry_run_or_without_a_yes(hub, checkout):
    done = call(checkout, hub.address, "--space", "ada/decoding", "--dry-run", token="")
    assert done.returncode == 0 and f"{len(TREE)} files" in done.stdout
    done = call(checkout, hub.address, "--space", "ada/decoding", said="no\n")
    assert done.returncode == 2 and "nothing was uploaded" in done.stderr
    done = call(checkout, hub.address, "--space", "ada/decoding", "--yes", token="")
    assert done.returncode == 2 and "there is no token" in done.stderr
    assert hub.calls == []


@pytest.mark.parametrize(("status", "words"), [(401, "does not accept the token"), (403, "no right to write")])
def test_a_refusal_is_one_sentence(hub, checkout, status, words):
    hub.status = status
    done = call(checkout, hub.address, "--space", "ada/decoding", "--yes")
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1


def test_an_answer_that_repeats_the_token_is_printed_without_it(hub, checkout):
    hub.status, hub.words = 418, "no tea for hf_secret, Bearer hf_secret"
    done = call(checkout, hub.address, "--space", "ada/decoding", "--yes")
    assert done.returncode == 2 and "no tea for (the token)" in done.stderr and len(done.stderr.splitlines()) == 1
    assert "hf_secret" not in done.stdout + done.stderr


@pytest.mark.parametrize("token", ["hf_gehe\u00efm", "hf_\u200bsecret", "hf_a b"])
def test_a_token_that_no_header_carries_is_a_sentence(hub, checkout, token):
    done = call(checkout, hub.address, "--space", "ada/decoding", "--yes", token=token)
    assert done.returncode == 2 and "characters that no token has" in done.stderr and token not in done.stderr
    assert len(done.stderr.splitlines()) == 1 and hub.calls == []


def test_every_file_that_is_not_in_git_is_named_before_anything_is_sent(hub, checkout):
    names = [f"assets/note{i}\x1b[2J.txt" for i in range(9)]
    subprocess.run(["git", "-C", str(checkout), "add", "-A"], check=True)
    for name in names:
        (checkout / name).write_text("a secret?")
    done = call(checkout, hub.address, "--space", "ada/decoding", said="no\n")
    assert done.returncode == 2 and "9 of them are not in git" in done.stdout and "\x1b" not in done.stdout
    assert all(name.replace("\x1b", "\\x1b") in done.stdout for name in names) and hub.calls == []
    assert "secret.env" not in done.stdout  # what git ignores is not sent


def test_no_network_is_one_sentence(hub, checkout):
    hub.shutdown()
    hub.server_close()
    done = call(checkout, hub.address, "--space", "ada/decoding", "--yes")
    assert done.returncode == 2 and "could not be reached" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["ada", "ada/", "a/b/c", "https://huggingface.co/a/b", "a b/c"])
def test_a_name_is_owner_and_name(name, capsys):
    assert main(["publish", "--space", name, "--dry-run"]) == 2
    assert "OWNER/NAME" in capsys.readouterr().err


def test_outside_a_checkout_it_says_so(tmp_path):
    with pytest.raises(UserError, match="git checkout"):
        publish.space_files(tmp_path / "none")


def test_a_static_space_is_the_site_with_its_card(tmp_path, monkeypatch):
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "one.json").write_text(masked().to_json())
    monkeypatch.setattr("explorer.site.gallery", lambda: Gallery(tmp_path / "traces"))
    files = publish.site_files(tmp_path / "site")
    assert {"index.html", "runs/one.html"} <= files.keys() and "sdk: static" in files["README.md"].read_text("utf-8")
