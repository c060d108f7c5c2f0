"""`publish` against a stand-in of the Hub, which keeps what arrives."""

import io
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import HfApi, constants, get_token
from huggingface_hub.errors import HfHubHTTPError

from explorer.cli import publish
from explorer.runs.gallery import Gallery
from tests.explorer.commands import call, refused
from tests.player.handmade import masked

SPACE = ("publish", "--space", "ada/decoding")
TREE = {"README.md": b"---\ntitle: T\nsdk: gradio\n---\n", "assets/model.safetensors": bytes(range(256)) * 64}
TREE |= dict.fromkeys(("LICENSE", "requirements.txt", "app.py", "engines/e.py", "explorer/x.py"), b"x")
LEFT = {"tests/t.py": b"t", "engines/__pycache__/e.pyc": b"c", "assets/secret.env": b"s", ".gitignore": b"*.pyc\n*.env"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    for name, data in (TREE | LEFT).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@pytest.fixture(autouse=True)
def hub(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A stand-in of the Hub's client: what it was asked to make, by whom, and the files of a commit."""
    hub = SimpleNamespace(status=200, made={}, tokens=set(), kept={})

    def make(api: HfApi, name: str, **wish: object) -> None:
        hub.made = {"name": name, **wish}
        hub.tokens.add(get_token())
        if hub.status != 200:
            answer = SimpleNamespace(status_code=hub.status, headers={}, request=None)
            raise HfHubHTTPError("no", response=answer, server_message="no tea for hf_secret, Bearer hf_secret")

    def commit(api: HfApi, name: str, adds: list, **_: object) -> None:
        hub.kept = {one.path_in_repo: Path(one.path_or_fileobj).read_bytes() for one in adds}

    monkeypatch.setattr(HfApi, "create_repo", make)
    monkeypatch.setattr(HfApi, "create_commit", commit)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.test")
    monkeypatch.setattr(publish, "ROOT", checkout)
    return hub


def answer(monkeypatch, word: str) -> None:
    """To the question whether to upload."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{word}\n"))


def test_a_space_gets_exactly_what_it_needs(hub, capsys, monkeypatch):
    answer(monkeypatch, "yes")
    code, out, err = call(capsys, *SPACE)
    assert code == 0, err
    assert f"{len(TREE)} files" in out and "assets/model.safetensors" in out
    assert "https://hub.test/spaces/ada/decoding" in out
    assert "hf_secret" not in out + err and hub.tokens == {"hf_secret"}
    assert (hub.made["repo_type"], hub.made["space_sdk"]) == ("space", "gradio") and hub.kept == TREE


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
