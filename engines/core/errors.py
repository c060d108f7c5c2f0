"""Errors meant for the person who reads them: each says what was given, what is allowed and what to do."""


class UserError(ValueError):
    """Bad input. The message is one or two plain sentences; the page and the command line show it as it is."""
