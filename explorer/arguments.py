"""Command lines: a parser whose complaints are one sentence, and the options of modules run with `python -m`."""

import argparse
import sys
from collections.abc import Callable, Sequence
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
