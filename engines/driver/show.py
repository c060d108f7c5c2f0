"""A run in the terminal, one line per step: what each method file's main block uses. What a model wrote is printed so
that it cannot drive the terminal."""

from typing import Any

from engines.core.errors import visible
from engines.core.trace import Step
from engines.driver.run import stream


def show(slug: str, model: Any, prompt: str, **params: Any) -> None:
    """Decode and print each step's cost, commits and note, then the text and the totals."""
    running = stream(slug, model, prompt, params=params)
    for step in running:
        print(line(step, {p.id: p.text for p in running.pieces()}))
    trace = running.trace()
    print(f"\n{visible(trace.text)}\n{trace.totals.tokens} tokens in {trace.totals.forwards} forwards")


def line(step: Step, text: dict[int, str]) -> str:
    """One step as a line of text."""
    commits = step.commits
    tokens = (
        " ".join(
            f"{at}:{text.get(token, token)!r}" for at, token in zip(commits.positions, commits.tokens, strict=True)
        )
        if commits
        else "-"
    )
    cost = " ".join(f"{role} {n}" for role, n in step.forwards.items())
    return f"{step.index:3d} | {cost} | {tokens} | {visible(step.note)}"
