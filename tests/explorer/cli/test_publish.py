"""`publish` against a local stand-in of the Hub's HTTP API, which keeps what arrives."""

import io
import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import HfApi, close_session, constants

from explorer.cli import publish
from explorer.runs.gallery import Gallery
from tests.explorer.commands import call, refused
from tests.player.handmade import masked

SPACE = ("publish", "--space", "ada/decoding")
TREE = {"README.md": b"---\ntitle: T\nsdk: gradio\n---\n", "assets/model.safetensors": bytes(range(256)) * 64}
TREE |= dict.fromkeys(("LICENSE", "requirements.txt", "app.py", "engines/e.py", "explorer/x.py"), b"x")
LEFT = {"tests/t.py": b"t", "engines/__pycache__/e.pyc": b"c", "assets/secret.env": b"s", ".gitignore": b"*.pyc\n*.env"}


class Answer(BaseHTTPRequestHandler):
    """To whoever makes a repository: the status and the words that a test wants."""

    def log_message(self, *_) -> None:
        pass

    def do_POST(self) -> None:
        self.server.made = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.tokens.add(self.headers["Authorization"])
        answer = {
            "url": f"{self.server.address}/spaces/ada/decoding",
            "error": "no tea for hf_secret, Bearer hf_secret",
        }
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    for name, data in (TREE | LEFT).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@pytest.fixture(autouse=True)
def hub(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    """A stand-in of the Hub: what makes a repository goes over HTTP, and the files of a commit are kept."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.address, server.status, server.tokens, server.kept = f"http://127.0.0.1:{server.server_port}", 200, set(), {}
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def commit(api: HfApi, name: str, adds: list, **_: object) -> None:
        server.kept = {one.path_in_repo: Path(one.path_or_fileobj).read_bytes() for one in adds}

    monkeypatch.setattr(HfApi, "create_commit", commit)
    close_session()
    known = {"ENDPOINT": server.address, "HF_HUB_OFFLINE": False, "HF_TOKEN_PATH": str(tmp_path / "no-token")}
    for name, value in known.items():
        monkeypatch.setattr(constants, name, value)
    for name, word in {"HF_ENDPOINT": server.address, "HF_TOKEN": "hf_secret", "NO_PROXY": "*"}.items():
        monkeypatch.setenv(name, word)
    monkeypatch.setattr(publish, "ROOT", checkout)
    yield server
    close_session()
    server.shutdown()
    server.server_close()


def answer(monkeypatch, word: str) -> None:
    """To the question whether to upload."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{word}\n"))


def test_a_space_gets_exactly_what_it_needs(hub, capsys, monkeypatch):
    answer(monkeypatch, "yes")
    code, out, err = call(capsys, *SPACE)
    assert code == 0, err
    assert f"{len(TREE)} files" in out and "assets/model.safetensors" in out
    assert f"{hub.address}/spaces/ada/decoding" in out
    assert "hf_secret" not in out + err and hub.tokens == {"Bearer hf_secret"}
    assert (hub.made["type"], hub.made["sdk"]) == ("space", "gradio") and hub.kept == TREE


def test_nothing_is_sent_by_a_dry_run_without_a_yes_or_without_a_token(hub, capsys, monkeypatch):
    answer(monkeypatch, "no")
    assert "nothing was uploaded" in call(capsys, *SPACE)[2]
    for token in ("hf_gehe\u00efm", "hf_\u200bsecret", "hf_a b"):
        monkeypatch.setenv("HF_TOKEN", token)
        said = call(capsys, *SPACE, "--yes")[2]
        assert "characters that no token has" in said and token not in said and said.count("\n") == 1
    monkeypatch.delenv("HF_TOKEN")
    code, out, _ = call(capsys, *SPACE, "--dry-run")
    assert code == 0 and f"{len(TREE)} files" in out
    assert "there is no token" in call(capsys, *SPACE, "--yes")[2]
    for name in ("ada", "a/b/c", "a b/c"):
        assert "OWNER/NAME" in refused(capsys, "publish", "--space", name, "--dry-run")
    assert not hub.tokens


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "does not accept the token"),
        (403, "no right to write"),
        (418, "no tea for (the token), Bearer (the token)"),  # an answer that repeats the token
    ],
)
def test_a_refusal_is_one_sentence_without_the_token(hub, capsys, status, said):
    hub.status = status
    code, out, err = call(capsys, *SPACE, "--yes")
    assert code == 2 and said in err and err.count("\n") == 1 and "hf_secret" not in out + err


def test_every_file_that_is_not_in_git_is_named_before_anything_is_sent(hub, checkout, capsys, monkeypatch):
    names = [f"assets/note{i}\x1b[2J.txt" for i in range(9)]
    subprocess.run(["git", "-C", str(checkout), "add", "-A"], check=True)
    for name in names:
        (checkout / name).write_text("a secret?")
    answer(monkeypatch, "no")
    code, out, _ = call(capsys, *SPACE)
    assert code == 2 and "9 of them are not in git" in out and "\x1b" not in out
    assert all(name.replace("\x1b", "\\x1b") in out for name in names) and not hub.tokens
    assert "secret.env" not in out  # what git ignores is not sent


def test_a_static_space_is_the_site_with_its_card(tmp_path, monkeypatch):
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "one.json").write_text(masked().to_json())
    monkeypatch.setattr("explorer.site.gallery", lambda: Gallery(tmp_path / "traces"))
    files = publish.site_files(tmp_path / "site")
    assert {"index.html", "runs/one.html"} <= files.keys() and "sdk: static" in files["README.md"].read_text("utf-8")
