"""What may stand behind a dot: a static analyser (jedi) asked about unfinished Python in a project.

The project is written into a temporary folder; nothing of it is run. The analyser looks there and into the standard
library of this Python, nowhere else: no installed packages, no `sys.path` of the text, no relative import that leaves
the folder. It is a process of its own without the environment of this one, because jedi exchanges the search path of
the process that it is in, and because what takes too long can then be ended."""

from __future__ import annotations

import importlib.util
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from engines.core.child import START, Child, Late
from engines.core.errors import UserError
from engines.tools.projects import MAIN

SECONDS = 5.0  # the longest that is waited for an answer
MISSING = "the package jedi is not installed, and without it no name can be looked up; get it with: pip install jedi"
SPACE = re.compile(r"[\s\\]+")
COMMENT = re.compile(r"#[^\n]*")
OUTSIDE = re.compile(r"sys\.path|from\(*\.\.")  # in a text without spaces: ways out of the project's folder
OPENERS = ('"""', "'''", '"', "'")
PROGRAM = Path(__file__).with_name("_jedi_process.py")


@dataclass(frozen=True)
class Answer:
    """The names that may stand at the end of a text, in the analyser's order, with one line on each; none where it does
    not know, and `why` then says what is known of that. line (from 1), column (from 0): the place. began, ended: by
    `time.perf_counter`."""

    names: tuple[str, ...]
    details: tuple[str, ...]
    line: int
    column: int
    began: float
    ended: float
    why: str = ""

    @property
    def seconds(self) -> float:
        """How long it took, waiting for the worker included."""
        return self.ended - self.began


@dataclass(frozen=True)
class Parameter:
    """A parameter of a callable: its name, its kind as `inspect` names it, whether it has no default, and its line."""

    name: str
    kind: str
    required: bool
    text: str = ""


@dataclass(frozen=True)
class Signed(Answer):
    """The answer about a call: names are its parameters. signatures: the forms that it has, none where they are not
    known."""

    signatures: tuple[tuple[Parameter, ...], ...] = ()


class Analyser:
    """Answers questions about a text in a project. Close it when done: the copy of the project is then removed."""

    def __init__(self, files: Mapping[str, str]) -> None:
        """files: path -> text. Raises UserError where jedi is not installed."""
        require()
        self.outside = any(leaves(code) for code in files.values())
        self.folder = Path(tempfile.mkdtemp(prefix="decoding-explorer-project-"))
        for name, code in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code, encoding="utf-8")

    def close(self) -> None:
        """Remove the copy."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Analyser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def members(self, text: str, seconds: float | None = None, *, dunder: bool = False) -> Answer:
        """What may stand behind the dot or the import that the text ends with; names with two leading underscores only
        with `dunder`. seconds: the longest to wait."""
        began = time.perf_counter()
        why, rows, (line, column) = self._ask("members", text, seconds)
        members = {str(name): str(detail) for name, detail in rows if dunder or not name.startswith("__")}
        why = why or ("" if members else "the analyser does not know what stands before the dot")
        return Answer(tuple(members), tuple(members.values()), line, column, began, time.perf_counter(), why)

    def signatures(self, text: str, seconds: float | None = None) -> Signed:
        """The parameters of the call whose bracket the text ends with."""
        began = time.perf_counter()
        why, rows, (line, column) = self._ask("signatures", text, seconds)
        signatures = tuple(tuple(Parameter(*fields) for fields in signature) for signature in rows)
        every = {parameter.name: parameter for signature in signatures for parameter in signature}
        why = why or ("" if signatures else "the analyser does not know what is called")
        details = tuple(parameter.text for parameter in every.values())
        return Signed(tuple(every), details, line, column, began, time.perf_counter(), why, signatures)

    def _ask(self, about: str, text: str, seconds: float | None) -> tuple[str, list[Any], tuple[int, int]]:
        """(why there is none, the rows, line and column)."""
        text = plain_lines(text)
        place = text.count("\n") + 1, len(text) - text.rfind("\n") - 1
        if self.outside or leaves(text):
            return "the code looks outside of the project (sys.path, or an import from above it)", [], place
        seconds = SECONDS if seconds is None else seconds
        line, column = place
        question: dict[str, str | int] = {"folder": str(self.folder), "main": MAIN, "about": about, "text": text}
        question |= {"line": line, "column": column}
        try:
            answer = _process().ask(question, seconds)
        except Late:
            return f"the analyser took longer than {seconds:g} s", [], place
        if "error" in answer:
            return f"the analyser failed ({answer['error']})", [], place
        return "", answer["rows"], place


def require() -> None:
    """Raises UserError, with how to get it, where jedi is not installed."""
    if importlib.util.find_spec("jedi") is None:
        raise UserError(MISSING)


def leaves(code: str) -> bool:
    """Whether the code names a way out of its folder: `sys.path`, or a relative import of more than one level."""
    code = plain_lines(code)
    return any(OUTSIDE.search(SPACE.sub("", variant)) is not None for variant in (code, COMMENT.sub("", code)))


def plain_lines(text: str) -> str:
    """A text whose lines all end as the analyser ends them."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", " ")


def in_string_or_comment(text: str) -> bool:
    """Whether the end of a Python text is in a string (the braces of an f-string count as string) or a comment."""
    text = plain_lines(text)
    at, size = 0, len(text)
    while at < size:
        if text[at] == "#":
            at = text.find("\n", at)
            if at < 0:
                return True
        elif opener := next((quote for quote in OPENERS if text.startswith(quote, at)), ""):
            at = _end_of_string(text, at + len(opener), opener)
            if at < 0:
                return True
        else:
            at += 1
    return False


def _end_of_string(text: str, at: int, opener: str) -> int:
    """The place behind a string's closing quotes; -1 if the text ends in it. One that is broken off ends with its
    line."""
    while at < len(text):
        if text.startswith(opener, at):
            return at + len(opener)
        if text[at] == "\n" and len(opener) == 1:
            return at
        at += 2 if text[at] == "\\" else 1
    return -1


def version() -> str:
    """Who answers, such as "jedi 0.20.1"."""
    from importlib import metadata

    return f"jedi {metadata.version('jedi')}"


@cache
def warm_up() -> None:
    """Let the analyser read what every question needs, so that the first one of a run is as quick as the others.
    Raises UserError where it is not installed."""
    with Analyser({}) as analyser:
        analyser.members("class A:\n    b = 1\n\nA().", START)


@cache
def _process() -> Child:
    return Child(PROGRAM, "jedi", "parso")
