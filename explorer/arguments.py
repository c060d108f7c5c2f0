"""Command lines: a parser whose complaints are one sentence, and the options of modules run with `python -m`."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from engines import UserError

BAD_INPUT = 2  # exit status


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one `UserError` instead of a usage text and an exit."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        """Raises UserError."""
        raise UserError(f"{message}; see `{self.prog} --help`.")


def of_module(
    module: str,
    text: str | None,
    argv: Sequence[str] | None = None,
    options: Callable[[Parser], object] = lambda parser: None,
) -> argparse.Namespace:
    """What `python -m module` was given. Ends the process for --help, which prints `text`, and with one sentence for an
    argument that it does not know."""
    parser = Parser(prog=f"python -m {module}", description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    options(parser)
    try:
        return parser.parse_args(argv)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(BAD_INPUT)


def made_anew(files: Mapping[Path, str], check: bool) -> int:
    """Write these files where they hold something else; with `check` only say which do. Returns the exit status."""
    stale = [file for file, text in files.items() if not file.is_file() or file.read_text("utf-8") != text]
    for file in stale:
        if check:
            print(f"{file} is not what the data say; run this command without --check")
        else:
            file.write_text(files[file], "utf-8")
            print(f"{file} is written")
    if not stale:
        print(f"each of {len(files)} is up to date")
    return int(bool(check and stale))
