"""`publish` against a local stand-in of the Hub's HTTP API, which keeps what arrives."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import close_session, constants

from engines import UserError
from explorer.cli import publish
from explorer.runs.gallery import Gallery
from tests.explorer.commands import call, refused
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
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    if server.status is not None:
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


@pytest.fixture(autouse=True)
def there(hub: Hub, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The checkout is published to the stand-in, by somebody with a token; whose it otherwise is, is not looked up."""
    close_session()
    known = {"ENDPOINT": hub.address, "HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True}
    for name, value in (known | {"HF_TOKEN_PATH": str(tmp_path / "no-token")}).items():
        monkeypatch.setattr(constants, name, value)
    for name, word in {"HF_ENDPOINT": hub.address, "HF_TOKEN": "hf_secret", "NO_PROXY": "*"}.items():
        monkeypatch.setenv(name, word)
    monkeypatch.setattr(publish, "ROOT", checkout)
    yield
    close_session()


SPACE = ("publish", "--space", "ada/decoding")


@pytest.fixture
def answered(monkeypatch):
    """Answers the question whether to upload."""
    return lambda word: monkeypatch.setattr("sys.stdin", io.StringIO(f"{word}\n"))


def test_a_space_gets_exactly_what_it_needs(hub, capsys, answered):
    answered("yes")
    code, out, err = call(capsys, *SPACE)
    assert code == 0, err
    assert f"{len(TREE)} files" in out and "assets/model.safetensors" in out
    assert f"{hub.address}/spaces/ada/decoding" in out
    assert "hf_secret" not in out + err and hub.tokens == {"Bearer hf_secret"}
    assert (hub.made["type"], hub.made["sdk"]) == ("space", "gradio")
    small = {o["value"]["path"]: base64.b64decode(o["value"]["content"]) for o in hub.commit if o["key"] == "file"}
    large = {o["value"]["path"]: hub.stored[o["value"]["oid"]] for o in hub.commit if o["key"] == "lfsFile"}
    assert small | large == TREE and large == {"assets/model.safetensors": WEIGHTS}


def test_nothing_is_sent_by_a_dry_run_or_without_a_yes(hub, capsys, answered, monkeypatch):
    answered("no")
    code, _, err = call(capsys, *SPACE)
    assert code == 2 and "nothing was uploaded" in err
    monkeypatch.delenv("HF_TOKEN")
    code, out, _ = call(capsys, *SPACE, "--dry-run")
    assert code == 0 and f"{len(TREE)} files" in out
    code, _, err = call(capsys, *SPACE, "--yes")
    assert code == 2 and "there is no token" in err
    assert hub.calls == []


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "does not accept the token"),
        (403, "no right to write"),
        (418, "no tea for (the token), Bearer (the token)"),  # an answer that repeats the token
        (None, "could not be reached"),
    ],
)
def test_a_refusal_is_one_sentence_without_the_token(hub, capsys, status, said):
    hub.status, hub.words = status, "no tea for hf_secret, Bearer hf_secret"
    if status is None:
        hub.shutdown()
        hub.server_close()
    code, out, err = call(capsys, *SPACE, "--yes")
    assert code == 2 and said in err and err.count("\n") == 1 and "hf_secret" not in out + err


@pytest.mark.parametrize("token", ["hf_gehe\u00efm", "hf_\u200bsecret", "hf_a b"])
def test_a_token_that_no_header_carries_is_a_sentence(hub, capsys, monkeypatch, token):
    monkeypatch.setenv("HF_TOKEN", token)
    code, _, err = call(capsys, *SPACE, "--yes")
    assert code == 2 and "characters that no token has" in err and token not in err
    assert err.count("\n") == 1 and hub.calls == []


def test_every_file_that_is_not_in_git_is_named_before_anything_is_sent(hub, checkout, capsys, answered):
    names = [f"assets/note{i}\x1b[2J.txt" for i in range(9)]
    subprocess.run(["git", "-C", str(checkout), "add", "-A"], check=True)
    for name in names:
        (checkout / name).write_text("a secret?")
    answered("no")
    code, out, _ = call(capsys, *SPACE)
    assert code == 2 and "9 of them are not in git" in out and "\x1b" not in out
    assert all(name.replace("\x1b", "\\x1b") in out for name in names) and hub.calls == []
    assert "secret.env" not in out  # what git ignores is not sent


@pytest.mark.parametrize("name", ["ada", "a/b/c", "a b/c"])
def test_a_name_is_owner_and_name(name, capsys):
    assert "OWNER/NAME" in refused(capsys, "publish", "--space", name, "--dry-run")


def test_outside_a_checkout_it_says_so(tmp_path):
    with pytest.raises(UserError, match="git checkout"):
        publish.space_files(tmp_path / "none")


def test_a_static_space_is_the_site_with_its_card(tmp_path, monkeypatch):
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "one.json").write_text(masked().to_json())
    monkeypatch.setattr("explorer.site.gallery", lambda: Gallery(tmp_path / "traces"))
    files = publish.site_files(tmp_path / "site")
    assert {"index.html", "runs/one.html"} <= files.keys() and "sdk: static" in files["README.md"].read_text("utf-8")
