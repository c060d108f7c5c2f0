"""Command line: python -m engines.training NAME [options]; python -m engines.training --list tells the names."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from engines.core.errors import UserError
from engines.training.core.commands import PROGRAM, Command, commands


def listing(found: dict[str, Command]) -> str:
    """One line per name."""
    width = max(map(len, found))
    return "\n".join(f"{name:{width}}  {command.about}" for name, command in found.items())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Raises UserError for what a user can mend."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    found = commands()
    if not given or given[0] in ("--list", "-h", "--help"):
        print(f"{__doc__}\n\n{listing(found)}")
        return
    if given[0] not in found:
        raise UserError(f"there is no training '{given[0]}'; choose one of {', '.join(found)} ({PROGRAM} --list).")
    command = found[given[0]]
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} {given[0]}",
        description=command.text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.options(parser)
    command.run(parser.parse_args(given[1:]))


if __name__ == "__main__":
    try:
        main()
    except (UserError, FileNotFoundError) as error:
        sys.exit(str(error))
