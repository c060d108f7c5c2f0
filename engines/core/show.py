"""A run in the terminal, one line per step: what each method file's main block uses."""

from __future__ import annotations

from typing import Any

from engines.core.run import stream
from engines.core.trace import Step


def show(slug: str, model: Any, prompt: str, **params: Any) -> None:
    """Decode and print each step's cost, commits and note, then the text and the totals."""
    one = stream(slug, model, prompt, params=params)
    for step in one:
        print(line(step, {p.id: p.text for p in one.pieces()}))
    trace = one.trace()
    print(f"\n{trace.text}\n{trace.totals.tokens} tokens in {trace.totals.forwards} forwards")


def line(step: Step, text: dict[int, str]) -> str:
    """One step as a line of text."""
    written = step.commits
    tokens = (
        " ".join(
            f"{at}:{text.get(token, token)!r}" for at, token in zip(written.positions, written.tokens, strict=True)
        )
        if written
        else "-"
    )
    cost = " ".join(f"{role} {n}" for role, n in step.forwards.items())
    return f"{step.index:3d} | {cost} | {tokens} | {step.note}"
