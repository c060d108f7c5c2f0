"""Names, files and traces that a command cannot use cost one line and no time."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

import engines
from engines import UserError
from explorer import own_files
from explorer.cli import io, main
from tests.explorer.commands import refused
from tests.page.conftest import PROMPT, first_model, methods_of


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "t.json"
    made = engines.run(methods_of("causal")[0], first_model("causal"), PROMPT, params={"max_new_tokens": 4})
    path.write_text(made.to_json(), "utf-8")
    return path


def changed(trace: Path, change) -> str:
    body = msgspec.json.decode(trace.read_bytes())
    change(body)
    path = trace.with_name("changed.json")
    path.write_bytes(msgspec.json.encode(body))
    return str(path)


@pytest.mark.parametrize("kind", ["html", "json", "csv", "events-csv", "python", "svg", "gif"])
def test_an_empty_name_is_named(capsys, trace, kind):
    assert "is empty" in refused(capsys, "export", str(trace), f"--{kind}", "")


def test_names_that_no_file_has(capsys, trace):
    assert "255 bytes" in refused(capsys, "export", str(trace), "--html", "n" * 300)
    assert "255 bytes" in refused(capsys, "replay", "n" * 300)
    for name in ("~nobody-of-that-name/x", "n" * 300):
        refused(capsys, "run", "--method", methods_of("causal")[0], "--model", name, "--prompt", "a")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes by name there")
def test_a_pipe_that_nobody_writes_is_not_waited_for(capsys, trace, tmp_path, monkeypatch):
    monkeypatch.setattr(io, "PIPE_SECONDS", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "nothing came through" in refused(capsys, "replay", str(pipe))
    assert "is a pipe" in refused(capsys, "export", str(trace), "--html", str(pipe))


@pytest.mark.parametrize("seconds", [1e-300, 5e-324])
def test_times_of_nothing_are_drawn(trace, seconds, tmp_path):
    def short(body):
        for step in body["steps"]:
            step.update(model_seconds=seconds, method_seconds=0.0)

    target = str(tmp_path / "o.svg")
    assert main(["export", changed(trace, short), "--svg", target, "--clock", "seconds"]) == 0


@pytest.mark.parametrize("text", [None, "{", "[" * 100_000, "\udcff"])
def test_a_file_of_the_program_that_is_damaged_is_named(monkeypatch, tmp_path, text):
    monkeypatch.setattr(own_files, "ASSETS", tmp_path)
    if text is not None:
        (tmp_path / "theme.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=r"theme\.json .*git checkout"):
        own_files.own_json("theme.json")
