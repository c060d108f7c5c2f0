"""What a person asks of a fork, in words, as an edit: shared by the command line and the page."""

from collections.abc import Iterable
from typing import Any

from engines import Edit, Origin, UserError

MAX_WORD = 400  # characters of a text that is forced
MAX_PLACES = 64  # positions that one edit may touch

Word = str | int  # text, or a token id


def make_edit(
    model: Any,
    force: Iterable[tuple[int, Word]] = (),
    forbid: Iterable[tuple[int, Word]] = (),
    remask: Iterable[int] = (),
    params: dict[str, Any] | None = None,
    method: str = "",
) -> Edit:
    """An edit whose tokens are given as text or ids. A forced text of several tokens takes as many positions; a
    forbidden one must be one token.

    Raises UserError; positions and ids are checked by `engines`, against the run.
    """
    edit = Edit(remask=sorted(set(remask)), params=dict(params or {}), method=method)
    for position, word in force:
        for offset, token in enumerate(tokens_of(model, word)):
            if position + offset in edit.force:
                raise UserError(
                    f"position {position + offset} is forced twice; a text of several tokens takes the positions "
                    "after it too."
                )
            edit.force[position + offset] = token
    for position, word in forbid:
        tokens = tokens_of(model, word)
        if len(tokens) != 1:
            raise UserError(
                f"“{str(word)[:40]}” is {len(tokens)} tokens for this model, and one token is forbidden at a time; "
                "give a shorter text or #ID."
            )
        edit.forbid.setdefault(position, []).append(tokens[0])
    if both := sorted(set(edit.remask) & set(edit.force)):
        raise UserError(f"position {both[0]} is forced and masked again at once; choose one.")
    if len(edit.force) + len(edit.forbid) + len(edit.remask) > MAX_PLACES:
        raise UserError(f"a fork may touch {MAX_PLACES} positions at once; touch fewer.")
    return edit


def tokens_of(model: Any, word: Word) -> list[int]:
    """The token ids of a text as it stands, or of an id. Raises UserError for nothing and for too much."""
    if isinstance(word, int):
        return [word]
    if len(word) > MAX_WORD:
        raise UserError(f"the text has {len(word):,} characters; at most {MAX_WORD} are taken.")
    if any("\ud800" <= c <= "\udfff" for c in word):
        raise UserError("the text holds half of a character (a lone surrogate); take it out.")
    ids = [int(t) for t in model.tokenizer.encode(word)] if word else []
    if not ids:
        raise UserError("the text is empty; give the token's text or its id.")
    return ids


def sentence(origin: Origin, pieces: dict[int, str]) -> str:
    """What a fork changed, in words."""
    edit = origin.edit
    if edit is None:
        return "nothing changed"
    changes = [f"forced “{pieces.get(token, token)}” at {position}" for position, token in sorted(edit.force.items())]
    changes += [
        f"forbade {' and '.join(f'“{pieces.get(t, t)}”' for t in tokens)} at {position}"
        for position, tokens in sorted(edit.forbid.items())
    ]
    changes += [f"masked {', '.join(map(str, edit.remask))} again"] if edit.remask else []
    changes += [f"method {edit.method}"] if edit.method else []
    changes += [f"{name}={value}" for name, value in edit.params.items()]
    return "; ".join(changes)
