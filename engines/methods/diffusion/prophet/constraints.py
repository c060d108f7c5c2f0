"""Words that stand in the answer from the beginning, and the region in which the answer is then expected: the
constraints of Prophet (arXiv 2508.19982, section 4)."""

import re

from engines.kit import MaskedLM, Params, Tensor, UserError

FORM = "offset:word|offset:word, as 27:answer, or a token id as 27:#7"


def parse(text: str, length: int) -> list[tuple[int | None, str]]:
    """Constraints as (offset in the answer, word); one without an offset follows the one before, the first stands at 0.
    Raises UserError."""
    parts: list[tuple[int | None, str]] = []
    for part in text.split("|") if text.strip() else ():
        number, colon, word = part.partition(":")
        offset = int(number) if colon and re.fullmatch(r"\s*-?[0-9]+\s*", number) else None
        word = (part if offset is None else word).strip()
        if offset is not None and not 0 <= offset < length:
            raise UserError(
                f"the constraint {part.strip()[:40]} lies outside of the answer; offsets go from 0 to {length - 1}."
            )
        if not word:
            raise UserError(f"constraints={text[:60]} has a part without a word; give {FORM}.")
        parts.append((offset, word))
    return parts


def placed(p: Params, model: MaskedLM) -> dict[int, int]:
    """What the constraints write: offset in the answer -> token. Raises UserError where they do not fit, with each
    other or with the watched region."""
    placed_at: dict[int, int] = {}
    end = 0
    for offset, word in parse(p.constraints, p.max_new_tokens):
        for at, token in enumerate(tokens_of(word, model), end if offset is None else offset):
            if at >= p.max_new_tokens:
                raise UserError(
                    f"the constraint '{word[:40]}' lies outside of the answer at {at}; offsets go from 0 to "
                    f"{p.max_new_tokens - 1}."
                )
            if at in placed_at:
                raise UserError(
                    f"the constraint '{word[:40]}' would begin at offset {at}, where another one is; move one of them."
                )
            placed_at[at], end = token, at + 1
    require_region(p, list(placed_at))
    return placed_at


def tokens_of(word: str, model: MaskedLM) -> list[int]:
    """The ids of a constraint's word: "#7" is the id 7; else those of " word" (the official code puts a space before),
    or of "word" where they are fewer."""
    if re.fullmatch("#[0-9]+", word):
        if int(word[1:]) >= model.vocab_size or int(word[1:]) == model.mask_id:
            raise UserError(
                f"the constraint {word[:20]} is not a token to write; ids go from 0 to {model.vocab_size - 1}, without "
                f"the mask {model.mask_id}."
            )
        return [int(word[1:])]
    tokens = min((model.tokenizer.encode(text) for text in (" " + word, word)), key=len)
    if not tokens or model.mask_id in tokens:
        raise UserError(
            f"the constraint '{word[:40]}' is {'the mask' if tokens else 'no token'} of {model.record.name}; give "
            f"{FORM}."
        )
    return tokens


def region(start: int, length: int, answer: int, constraints: list[int]) -> tuple[int, int]:
    """The watched stretch [a, e) of an answer of so many tokens; a start of -1 is two behind the last constraint, or
    the middle without any."""
    if start < 0:
        start = max(constraints) + 2 if constraints else answer // 2
    return start, min(start + length, answer)


def require_region(p: Params, places: list[int]) -> None:
    """Raise UserError where the region begins behind the answer, with constraints at these offsets."""
    start, _ = region(p.answer_start, p.answer_length, p.max_new_tokens, places)
    if start >= p.max_new_tokens and p.answer_length:
        given = (
            f"answer_start={start} lies"
            if p.answer_start >= 0
            else f"constraints={p.constraints[:40]} put the watched region at {start},"
        )
        raise UserError(
            f"{given} outside of the answer; it has positions 0 to {p.max_new_tokens - 1}: set answer_start to one of "
            "them."
        )


def behind(
    pinned: dict[int, int], positions: Tensor, tokens: Tensor, how: str, conf: Tensor
) -> tuple[list[int], list[int], list[str], list[float | None]]:
    """A step's commits, with the constraints (position -> token) before them where they are new. `how`: all-in,
    low_confidence or random."""
    return (
        [*pinned, *positions.tolist()],
        [*pinned.values(), *tokens.tolist()],
        ["constraint"] * len(pinned) + ["quota" if how == "low_confidence" else how] * len(positions),
        [None] * len(pinned) + conf.tolist(),
    )
