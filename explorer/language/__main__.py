"""`python -m explorer.language`."""

import sys

from explorer import language
from explorer.arguments import Parser, of_module
from explorer.language import LANGUAGES, faults, prose, read, write


def _options(parser: Parser) -> None:
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a word is missing")
    parser.add_argument(
        "--prose", action="store_true", help="list the prose that has no translation yet, by what it is of"
    )


if __name__ == "__main__":
    asked = of_module("explorer.language", language.__doc__, options=_options)
    if not asked.check:
        write()
        prose.write()
    wrong = faults() + prose.faults()
    print("\n".join(wrong) or f"{len(read('en'))} messages in {', '.join(LANGUAGES)}")
    if asked.prose:
        for name in LANGUAGES[1:]:
            print("\n".join(f"{name}: {text}  ({place})" for text, place in prose.missing(name).items()))
    sys.exit(bool(wrong))
