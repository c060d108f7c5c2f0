"""What a trained part saves: tokens per target call on held-out prompts, beside the control of its family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from engines.core.run import run
from engines.training.core.text_cache import TextCache

PROMPTS, LENGTH = 40, 48


def prompts_of(cache: TextCache, n: int = PROMPTS) -> list[list[int]]:
    """The first n held-out prompts of a text cache, as tokens."""
    return [text.tokens[: text.prompt].tolist() for text in islice(cache.texts((), held_out=True), n)]


def tokens_per_call(
    slug: str, model: Any, prompts: Iterable[list[int]], params: Mapping[str, Any] | None = None
) -> float:
    """Tokens written per call of the target, over all prompts together, with up to LENGTH tokens each at temperature
    0; the call that reads the prompt counts."""
    tokens = calls = 0
    for prompt in prompts:
        totals = run(slug, model, prompt, params={"max_new_tokens": LENGTH, **(params or {})}, detail="light").totals
        tokens, calls = tokens + totals.tokens, calls + totals.forwards_by_role["target"]
    return round(tokens / max(calls, 1), 4)
