"""Small traces for the look back: each step says what was guessed where and what was written."""

from collections.abc import Sequence

import numpy as np

from engines.core.trace import SCHEMA_VERSION, Candidates, Commits, End, Header, Piece, Step, Trace, pack

MASK = 0
# Position -> top guess, then (position, token) as written; where the board moves, positions removed and inserted.
Turn = tuple[dict[int, int], list[tuple[int, int]]] | tuple[dict[int, int], list[tuple[int, int]], list[int], list[int]]


def looked(
    turns: Sequence[Turn], *, canvas: int | None = 6, prompt: int = 2, forwards: Sequence[int] | None = None
) -> Trace:
    """A run whose candidates are the given guesses, each with a runner-up; `canvas=None` is a board that grows and has
    no masks."""
    steps = []
    for index, (guesses, commits, *moves) in enumerate(turns):
        rows = np.array([[token, 9] for token in guesses.values()], dtype=np.int32).reshape(-1, 2)
        step = Step(index, {"target": forwards[index] if forwards else 1}, 1, 0.0, 0.0)
        if guesses:
            step.candidates = Candidates(
                list(guesses), pack(rows), pack(np.tile(np.float32([0.6, 0.3]), (len(rows), 1)), 0, 1)
            )
        if commits or moves:
            written = [p for p, _ in commits], [t for _, t in commits], ["made"] * len(commits)
            step.commits = Commits(*written, [], [], *moves)
        steps.append(step)
    named = dict.fromkeys(("method", "title", "family", "prompt", "machine", "started_at"), "m")
    empty = {"paper": "", "departures": "", "params": {}, "models": [], "emits": [], "versions": {}, "baseline": None}
    ids = {"prompt_ids": [8] * prompt, "eos_ids": [7], "mask_id": None if canvas is None else MASK, "canvas": canvas}
    header = Header(schema=SCHEMA_VERSION, seed=0, detail="full", lossless=False, **named, **empty, **ids)
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


def moving(seed: int) -> Trace:
    """A run whose board changes its length: places that are removed and inserted, at once and between other writes, and
    boards that are cut off or grow besides."""
    rng = np.random.default_rng(1000 + seed)
    masked, start = bool(seed % 2), 2
    width, turns = (8 if masked else start), list[Turn]()
    for _ in range(int(rng.integers(2, 10))):
        guesses = {start + i: int(rng.integers(1, 5)) for i in range(width + 1 - masked - start) if rng.random() < 0.7}
        removed = [place for place in range(start, width) if rng.random() < 0.2]
        after = width - len(removed)
        inserted = set[int]()
        for _ in range(int(rng.integers(0, 3))):
            inserted.add(int(rng.integers(start, after + len(inserted) + 1)))
        width = after + len(inserted)
        writes = [(at, int(rng.choice([MASK, 3, 4])) if masked else int(rng.integers(1, 8))) for at in sorted(inserted)]
        writes += [(at, int(rng.integers(1, 8))) for at in range(start, width) if rng.random() < 0.3]
        if rng.random() < 0.2 and width > start:
            width = int(rng.integers(start, width))
            writes.append((width, -1))
        if not masked:
            writes += [(width + i, int(rng.integers(1, 8))) for i in range(2)]
            width += 2
        turns.append((guesses, writes, removed, sorted(inserted)))
    return looked(turns, canvas=8 if masked else None, forwards=rng.integers(0, 4, len(turns)).tolist())


def noisy() -> Trace:
    """A canvas of three positions behind a prompt of two: noise with an end mark (7) in it, two steps, what is kept,
    with padding behind its end."""
    drawn = (5, 7, 6), (4, 3, 7), (4, 5, 6), (4, 7, 6)
    trace = looked([({}, [*zip((2, 3, 4), tokens, strict=True)]) for tokens in drawn], canvas=None)
    causes = ["noise noise noise", "accepted accepted noise", "accepted renoised noise", "settled settled padding"]
    for step, why in zip(trace.steps, causes, strict=True):
        assert step.commits
        step.commits.causes = why.split()
    trace.end.output_ids = [4, 7, 6]
    return trace


# Of `noisy`, before the first step and after each one.
NOISY = {
    "tokens": [0, 0, 2, 1, 1],
    "boards": [[], [None] * 3, [4, 3, None], [4, None, None], [4, 7, 6]],
    "states": [
        [],
        ["noise"] * 3,
        ["accepted", "accepted", "noise"],
        ["accepted", "renoised", "noise"],
        ["settled", "settled", "eos"],
    ],
}
