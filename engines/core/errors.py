"""Errors meant for the person who reads them: each says what was given, what is allowed and what to do."""


class UserError(ValueError):
    """Bad input. The message is one or two plain sentences; the page and the command line show it as it is."""


OTHER_ENDS = (GeneratorExit, SystemExit)  # what code of a person's own may raise beside an Exception


def described(error: BaseException) -> str:
    """ "Kind: text" of an error, also of one that cannot say its text."""
    try:
        return f"{type(error).__name__}: {error}"
    except (Exception, *OTHER_ENDS):  # whatever its author wrote
        return f"{type(error).__name__}, whose text cannot be made"
