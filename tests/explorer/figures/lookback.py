"""Small traces for the look back: each step says what was guessed where and what was written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engines.core.trace import SCHEMA_VERSION, Candidates, Commits, End, Header, Piece, Step, Trace, pack

MASK = 0
Turn = tuple[dict[int, int], list[tuple[int, int]]]  # position -> top guess, then (position, token) as written


def looked(
    turns: Sequence[Turn], *, canvas: int | None = 6, prompt: int = 2, forwards: Sequence[int] | None = None
) -> Trace:
    """A run whose candidates are the given guesses, each with a runner-up; `canvas=None` is a board that grows and has
    no masks."""
    steps = []
    for index, (guesses, commits) in enumerate(turns):
        rows = np.array([[token, 9] for token in guesses.values()], dtype=np.int32).reshape(-1, 2)
        step = Step(index, {"target": forwards[index] if forwards else 1}, 1, 0.0, 0.0)
        if guesses:
            step.candidates = Candidates(
                list(guesses), pack(rows), pack(np.tile(np.float32([0.6, 0.3]), (len(rows), 1)), 0, 1)
            )
        if commits:
            step.commits = Commits([p for p, _ in commits], [t for _, t in commits], ["made"] * len(commits))
        steps.append(step)
    header = Header(
        schema=SCHEMA_VERSION,
        method="m",
        title="M",
        family="f",
        paper="",
        params={},
        models=[],
        prompt="p",
        prompt_ids=[8] * prompt,
        seed=0,
        detail="full",
        baseline=None,
        lossless=False,
        emits=[],
        departures="",
        versions={},
        machine="m",
        started_at="now",
        eos_ids=[7],
        mask_id=None if canvas is None else MASK,
        canvas=canvas,
    )
    return Trace(header, steps, [Piece(i, f" t{i}") for i in range(10)], End("complete", [], "", 0.0, 0.0))


def invented(seed: int) -> Trace:
    """A run in which everything happens that may: guesses that change or are missing, tokens hidden again, withdrawn or
    written twice in a step."""
    rng = np.random.default_rng(seed)
    grows, steps, size = bool(seed % 3 == 0), int(rng.integers(1, 9)), 6
    guess, turns = rng.integers(1, 4, size), []
    for _ in range(steps):
        guess = np.where(rng.random(size) < 0.25, rng.integers(1, 4, size), guess)
        seen = {2 + i: int(guess[i]) for i in rng.permutation(size).tolist() if rng.random() < 0.8}
        commits = []
        for i in rng.permutation(size)[: rng.integers(0, 4)].tolist():
            hide = -1 if grows else MASK
            chance = rng.random()
            commits.append(
                (2 + i, int(guess[i]) if chance < 0.7 else hide if chance < 0.85 else int(rng.integers(1, 4)))
            )
            if rng.random() < 0.15:
                commits.append((2 + i, int(guess[i])))
        turns.append((seen, commits))
    return looked(turns, canvas=None if grows else 2 + size, forwards=rng.integers(0, 4, steps).tolist())
