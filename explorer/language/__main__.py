"""`python -m explorer.language`."""

import sys

from explorer import language
from explorer.arguments import Parser, of_module
from explorer.language import LANGUAGES, faults, read, write


def _options(parser: Parser) -> None:
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a word is missing")


if __name__ == "__main__":
    if not of_module("explorer.language", language.__doc__, options=_options).check:
        write()
    found = faults()
    print("\n".join(found) or f"{len(read('en'))} messages in {', '.join(LANGUAGES)}")
    sys.exit(bool(found))
