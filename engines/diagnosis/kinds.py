"""What kind of token a target wrote, as far as its text tells."""

import re
from typing import Any

KINDS = (
    ("digits", re.compile(r"\s*\d+\s*")),
    ("white space", re.compile(r"\s+")),
    ("code", re.compile(r"\s*[\[\](){}<>=+*/\\|&^%$#@~`;:_]+\s*")),
    ("punctuation", re.compile(r"\s*[^\w\s]+\s*")),
    ("name", re.compile(r"\s*[A-Z]\w*")),
    ("word", re.compile(r"\s+\w+")),
    ("inside a word", re.compile(r"\w+")),
)


def kind_of(tokenizer: Any, token: int) -> str:
    """Digits, a name (it begins with a capital), a word, the inside of one, punctuation, code, white space, a special
    token, or something else."""
    piece = tokenizer.piece(token)
    if piece.kind != "text":
        return str(piece.kind)
    return next((name for name, like in KINDS if like.fullmatch(piece.text)), "other")
