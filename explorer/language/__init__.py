"""The words of the page and the player. English stands in the code where it is used; `assets/words/en.json` lists all
of it, and one file beside it for each other language holds the translations by the English text.

What may stay English, because it is prose of the project's files, is `explorer.language.prose`.

    python -m explorer.language            writes en.json, puts every catalogue in its order, says what is missing
    python -m explorer.language --check    only compares; exit status 1 if anything is missing or left over
    python -m explorer.language --prose    also lists the prose that has no translation yet
"""

from explorer.language.catalogue import LANGUAGES, faults, read, write

__all__ = ["LANGUAGES", "faults", "read", "write"]
