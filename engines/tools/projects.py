"""A project as one text: its files behind lines that name them, "# file: book.py". A few small ones ship."""

import ast
import re
from collections.abc import Mapping
from functools import cache

from engines.core.errors import UserError
from engines.core.places import ASSETS

FOLDER = ASSETS / "projects"
MARK = re.compile(r"^# file: *(.*?)[ \t]*$", re.MULTILINE)
NAME = re.compile(r"(?:[A-Za-z_]\w*/){0,3}[A-Za-z_]\w*\.py", re.ASCII)
MAIN = "main.py"  # the file that is written
MOST = 8  # files


@cache
def shipped() -> dict[str, str]:
    """The projects that ship: name -> all files as one text."""
    folders = sorted(path for path in FOLDER.iterdir() if path.is_dir()) if FOLDER.is_dir() else []
    return {
        folder.name: "\n".join(
            f"# file: {file.relative_to(folder).as_posix()}\n{file.read_text('utf-8')}"
            for file in sorted(folder.rglob("*.py"))
        )
        for folder in folders
    }


def files_of(project: str) -> dict[str, str]:
    """Path -> text of the files of a project, which is the name of one that ships or a text of its files.

    Raises UserError for a text without files, a path that leaves the project, and a file that is no Python."""
    text = shipped().get(project, project)
    marks = list(MARK.finditer(text))
    if not marks or text[: marks[0].start()].strip():
        raise UserError(
            f"the project is neither one that ships ({', '.join(shipped())}) nor files: begin each file with a line "
            "such as '# file: book.py'."
        )
    if len(marks) > MOST:
        raise UserError(f"the project has {len(marks)} files; at most {MOST} are taken.")
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    files: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=True):
        name = mark[1]
        if not NAME.fullmatch(name) or name == MAIN or name in files:
            raise UserError(
                f"'{name[:60]}' cannot be a file of the project; give each file a name of its own such as book.py or "
                f"shop/book.py ({MAIN} is the file that is written)."
            )
        files[name] = text[mark.end() : end].strip("\n") + "\n"
    _parse(files)
    return files


def _parse(files: Mapping[str, str]) -> None:
    for name, code in files.items():
        try:
            ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            place = f" at line {line}" if line else ""
            reason = getattr(error, "msg", None) or str(error) or type(error).__name__
            raise UserError(
                f"{name} of the project is not Python{place}: {reason}; correct it, or choose a project that ships."
            ) from None
