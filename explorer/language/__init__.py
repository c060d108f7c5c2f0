"""The words of the page and the player. English stands in the code where it is used; `assets/words/en.json` lists all
of it, and one file beside it for each other language holds the translations by the English text.

    python -m explorer.language            writes en.json, puts every catalogue in its order, says what is missing
    python -m explorer.language --check    only compares; exit status 1 if anything is missing or left over
"""

from explorer.language.catalogue import LANGUAGES, faults, read, write

__all__ = ["LANGUAGES", "faults", "read", "write"]
