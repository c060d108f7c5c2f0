"""Structure priors: words that stand in the answer before the first forward, as in a form (Dimple, 2505.16990)."""

import re

from engines.kit import (
    MaskedLM,
    Params,
    Span,
    UserError,
)

FORM = "position:words|position:words, as 0:Name:|12: Age:<eos>; spaces count, \\n is the line end, #7 the token id 7"


def segments(p: Params) -> list[tuple[int | None, str]]:
    """The prior's parts as (answer position, words); one without a position follows the part before. '2:Name:|9: Age:'
    has two. Raises UserError."""
    parts: list[tuple[int | None, str]] = []
    for part in p.structure_prior.replace("\\n", "\n").split("|") if p.structure_prior.strip() else ():
        place = re.match(r"\s*(-?[0-9]+):", part)
        at, words = (int(place[1]), part[place.end() :]) if place else (None, part)
        if not words:
            raise UserError(f"structure_prior={p.structure_prior[:60]} has a part without words; give {FORM}.")
        if at is not None and not 0 <= at < p.max_new_tokens:
            raise UserError(
                f"structure_prior pins '{words[:40]}' at {at}, outside of the answer; it has positions 0 to "
                f"{p.max_new_tokens - 1}: give one of them."
            )
        if at is not None and at in (other for other, _ in parts):
            raise UserError(f"structure_prior names position {at} twice; give each position once.")
        parts.append((at, words))
    return parts


def placed(p: Params, model: MaskedLM, start: int) -> tuple[dict[int, int], list[Span]]:
    """What the prior pins: board position -> token, and a span per part. `start`: the prompt's length. Raises UserError
    where it does not fit."""
    pins: dict[int, int] = {}
    spans, end = [], 0
    for place, words in segments(p):
        tokens = [token_id(words.strip(), model)] if re.fullmatch("#[0-9]+", words.strip()) else spell(words, model)
        at = end if place is None else place
        end = at + len(tokens)
        given = f"structure_prior: '{words[:40]}' would take the positions {at} to {end - 1}"
        if end > p.max_new_tokens:
            raise UserError(
                f"{given}, and the answer ends at {p.max_new_tokens - 1}; shorten it, pin it earlier, or raise "
                "max_new_tokens."
            )
        if taken := [q for q in range(at, end) if start + q in pins]:
            raise UserError(
                f"{given}, and position {taken[0]} is pinned already; move one of the two parts, each position is "
                "given once."
            )
        pins |= {start + at + j: token for j, token in enumerate(tokens)}
        spans.append(Span("pinned", start + at, start + end, words.strip()[:40]))
    if len(pins) == p.max_new_tokens:
        raise UserError(
            f"structure_prior pins all {len(pins)} positions, so nothing is left to decode; shorten it or raise "
            "max_new_tokens."
        )
    return pins, spans


def token_id(words: str, model: MaskedLM) -> int:
    """The id written as #7. Raises UserError where it is not a token to pin."""
    token = int(words[1:])
    if token >= model.vocab_size or token == model.mask_id:
        raise UserError(
            f"structure_prior: {words[:40]} is not a token to pin; ids go from 0 to {model.vocab_size - 1}, without "
            f"the mask {model.mask_id}."
        )
    return token


def spell(words: str, model: MaskedLM) -> list[int]:
    """The ids of a text, by the model's own tokenizer; marks such as <eos> are read as what they are. Raises UserError
    where it has none."""
    tokens = model.tokenizer.encode(words)
    if not tokens or model.mask_id in tokens:
        raise UserError(
            f"structure_prior: '{words[:40]}' {'holds the mask' if tokens else 'is not a token'} of this model; use "
            "other words."
        )
    return tokens
