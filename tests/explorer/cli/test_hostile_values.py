"""Names, files and texts that a command cannot use cost one line, and what a file says reaches a terminal as text."""

import importlib
import json
import os
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import engines
import explorer
from engines import Trace, UserError
from engines.core.errors import Readable
from engines.driver import show as core_show
from explorer import own_files
from explorer.cli import io, main
from explorer.cli import run as cli_run
from tests.explorer.attach.servers import Scripted, stream
from tests.explorer.commands import refused
from tests.page.conftest import PROMPT, first_model, methods_of


@pytest.fixture
def trace(tmp_path) -> Path:
    path = tmp_path / "t.json"
    made = engines.run(methods_of("causal")[0], first_model("causal"), PROMPT, params={"max_new_tokens": 4})
    path.write_text(made.to_json(), "utf-8")
    return path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes by name there")
def test_an_empty_name_is_named_and_a_pipe_that_nobody_writes_is_not_waited_for(capsys, trace, tmp_path, monkeypatch):
    assert "is empty" in refused(capsys, "export", str(trace), "--html", "")
    monkeypatch.setattr(io, "PIPE_SECONDS", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "nothing came through" in refused(capsys, "replay", str(pipe))
    assert "is a pipe" in refused(capsys, "export", str(trace), "--html", str(pipe))


@pytest.mark.parametrize("text", [None, "{", "[" * 100_000, "\udcff"])
def test_a_file_of_the_program_that_is_damaged_is_named(monkeypatch, tmp_path, text):
    monkeypatch.setattr(own_files, "ASSETS", tmp_path)
    if text is not None:
        (tmp_path / "theme.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=r"theme\.json .*git checkout"):
        own_files.own_json("theme.json")


TITLE, CLEAR, OSC, TURN = "\x1b]0;owned\x07", "\x1b[2J", "\x9d8;;http://x\x9c", "\u202e"
HOSTILE = f"a{TITLE}b{CLEAR}c{OSC}d{TURN}e\rf"
HARMLESS = "zwei\n\tZeilen, 한국어, 👩\u200d💻, नमस्ते\u200d, 10\u00a0%"


def commands(text: str) -> set[str]:
    """The characters of a text that a terminal would obey, but tab and line end."""
    return {c for c in text if (c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" or c in TURN}


@pytest.fixture
def hostile(trace) -> Path:
    """A trace in which every text that a model or a file may choose holds commands."""
    body = msgspec.json.decode(trace.read_bytes())
    for piece in body["pieces"]:
        piece["text"] = HOSTILE
    for step in body["steps"]:
        step.update(note=HOSTILE, facts={HOSTILE: 1.0})
    body["header"].update(title=HOSTILE, prompt=HOSTILE)
    body["header"]["models"][0]["name"] = HOSTILE
    body["end"].update(reason="budget", message=HOSTILE, text=HOSTILE + HARMLESS)
    trace.write_bytes(msgspec.json.encode(body))
    return trace


def printed(capsys, *argv: str, status: int = 0) -> str:
    assert main(argv) == status
    out, err = capsys.readouterr()
    assert not commands(out + err), sorted(commands(out + err))
    return out


def test_a_trace_from_elsewhere_is_shown(capsys, hostile):
    for options in ([], ["--step", "0"], ["--json"]):
        assert "owned" in printed(capsys, "replay", str(hostile), *options)
    for kind in ("html", "json", "csv", "events-csv", "python"):
        assert "owned" in printed(capsys, "export", str(hostile), f"--{kind}", "-")


class Replayed(list):
    def __init__(self, trace: Trace) -> None:
        super().__init__(trace.steps)
        self.trace, self.pieces = lambda: trace, lambda: trace.pieces


def test_the_answer_of_a_run_is_shown_on_its_lines(capsys, hostile, monkeypatch):
    trace = Trace.from_json(hostile.read_bytes())
    monkeypatch.setattr(cli_run, "decode", lambda *_: (trace, 0))
    run = ("run", "--method", methods_of("causal")[0], "--model", first_model("causal"), "--prompt", "x")
    out = printed(capsys, *run, "--stats")
    assert "\\x1b]0;owned\\x07b\\x1b[2Jc\\x9d8;;http://x\\x9cd\\u202ee\\rf" in out and HARMLESS in out
    monkeypatch.setattr(engines, "stream_fork", lambda *_, **__: Replayed(trace))
    fork = ("fork", str(hostile), "--step", "0", "--model", first_model("causal"), "--forbid", "0=#1")
    assert HARMLESS in printed(capsys, *fork)
    assert Trace.from_json(printed(capsys, "export", str(hostile), "--json", "-")).text == HOSTILE + HARMLESS


def test_what_a_server_says_is_shown(capsys, tmp_path):
    piece = {"choices": [{"delta": {"content": HOSTILE + HARMLESS}}], "model": HOSTILE}
    end = {"choices": [{"delta": {}, "finish_reason": HOSTILE}]}
    with Scripted(stream(piece, end), models=(HOSTILE,), owner=HOSTILE) as server:
        out = printed(capsys, "attach", server.url, "--prompt", HOSTILE, "--stats", "--traces", str(tmp_path))
        assert HARMLESS in out and "\\x1b]0;owned" in out
        printed(capsys, "attach", server.url, server.url, "--prompt", "x")
        whole = json.loads(printed(capsys, "attach", server.url, "--prompt", "x", "--json", "-"))
        assert whole["end"]["text"] == (HOSTILE + HARMLESS).strip()
    with Scripted(stream(piece, {"error": HOSTILE}), models=(HOSTILE, "b")) as server:
        printed(capsys, "attach", server.url, "--prompt", "x", status=2)  # the names of its models
        printed(capsys, "attach", server.url, "--prompt", "x", "--model", HOSTILE)


def test_the_main_block_of_a_method_file_shows_it_too(capsys, hostile, monkeypatch):
    monkeypatch.setattr(core_show, "stream", lambda *_, **__: Replayed(Trace.from_json(hostile.read_bytes())))
    core_show.show("greedy", None, "x")
    out = capsys.readouterr().out
    assert HARMLESS in out and "owned" in out and not commands(out)


def test_names_that_no_file_has(capsys, trace):
    assert "255 bytes" in refused(capsys, "export", str(trace), "--html", "n" * 300)
    assert "255 bytes" in refused(capsys, "replay", "n" * 300)
    for name in ("~nobody-of-that-name/x", "n" * 300):
        refused(capsys, "run", "--method", "greedy", "--model", name, "--prompt", "a")


def _below(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def test_no_error_that_a_person_reads_reaches_a_terminal_with_an_escape_of_a_file() -> None:
    for package in (engines, explorer):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".training" not in module.name and not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    found = [one for one in _below(ValueError) if one.__module__.startswith(("engines.", "explorer."))]
    shown = [one for one in found if issubclass(one, Readable)]
    assert {"UserError", "TraceError", "NoRoom", "ServerError"} <= {one.__name__ for one in shown}
    for one in shown:
        said = str(one("a tensor \x1b[31mA\x07 of a stranger"))
        assert "\x1b" not in said and "\x07" not in said and "\\x1b[31mA\\x07" in said, one.__name__
