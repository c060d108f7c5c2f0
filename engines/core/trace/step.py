"""One turn of a decoding loop."""

from __future__ import annotations

from engines.core.trace.base import Count, Index, Record, Seconds
from engines.core.trace.groups import (
    Branch,
    Candidates,
    Commits,
    Completions,
    Decision,
    Interval,
    Lane,
    Media,
    Memory,
    Operators,
    Opinions,
    Routing,
    Scene,
    Sight,
    Span,
    Tree,
    Truncation,
    Vision,
    Vote,
)


class Step(Record):
    """One turn of the loop: its cost, then the groups that the method filled."""

    index: Index
    forwards: dict[str, Count]  # by model role: target, draft, small, large, reward ...
    tokens_fed: Count  # rows x positions computed in those forwards
    model_seconds: Seconds
    method_seconds: Seconds
    work: dict[str, Count] = {}  # by role: rows x transformer layers that were really computed
    commits: Commits | None = None
    scores: list[Lane] = []
    candidates: Candidates | None = None
    tree: Tree | None = None
    branches: list[Branch] = []
    spans: list[Span] = []
    lanes: list[Interval] = []
    routing: list[Routing] = []
    memory: list[Memory] = []
    choice: Decision | None = None
    media: Media | None = None
    truncation: Truncation | None = None
    completions: Completions | None = None
    vote: Vote | None = None
    sight: Sight | None = None
    operators: list[Operators] = []
    opinions: Opinions | None = None
    scene: Scene | None = None
    vision: Vision | None = None
    facts: dict[str, float] = {}
    note: str = ""


def step_tokens(step: Step) -> list[int]:
    """Every token id that a step mentions (the -1 that ends a board excepted)."""
    found: list[int] = []
    if step.commits:
        found += [t for t in step.commits.tokens if t >= 0]
    if step.candidates:
        step.candidates.probabilities.array()
        found += [int(t) for t in step.candidates.tokens.array().ravel()]
    if step.tree:
        found += step.tree.tokens + step.tree.emitted
    if step.truncation:
        found += step.truncation.tokens
    if step.completions:
        found += step.completions.refused
    for entry in step.memory:
        found += entry.key + entry.tokens
    for branch in step.branches:
        found += branch.tokens
    for one in step.operators:
        found += one.tokens
    if step.opinions:
        found += [int(t) for t in step.opinions.tokens.array().ravel() if t >= 0]
    return found
