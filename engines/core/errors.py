"""Errors meant for the person who reads them: each says what was given, what is allowed and what to do."""

import re

# C0 and C1 without tab and line ends; line and paragraph separators; what turns the direction of writing; surrogates
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)")


def visible(text: str) -> str:
    """A text of several lines with its control characters shown as Python escapes: a terminal that prints it obeys
    none of them. Letters, spaces and joiners of all scripts stay."""
    return _CONTROL.sub(lambda control: control[0].encode("unicode_escape").decode("ascii"), text)


class Readable(ValueError):
    """An error whose message a person reads: names and words from outside stand in it with their escapes."""

    def __init__(self, message: object = "") -> None:
        super().__init__(visible(str(message)))


class UserError(Readable):
    """Bad input. The message is one or two plain sentences; the page and the command line show it as it is."""


OTHER_ENDS = (GeneratorExit, SystemExit)  # what code of a person's own may raise beside an Exception


def described(error: BaseException) -> str:
    """ "Kind: text" of an error, also of one that cannot say its text."""
    try:
        return f"{type(error).__name__}: {error}"
    except (Exception, *OTHER_ENDS):  # whatever its author wrote
        return f"{type(error).__name__}, whose text cannot be made"
