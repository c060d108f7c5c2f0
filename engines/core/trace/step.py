"""One turn of a decoding loop."""

from collections.abc import Mapping, Sequence
from typing import Any

from engines.core.trace.base import Count, Index, Record, Seconds
from engines.core.trace.groups import (
    Branch,
    Candidates,
    Commits,
    Decision,
    Interval,
    Lane,
    Media,
    Memory,
    Routing,
    Span,
    Tree,
)
from engines.core.trace.records import R, held, typed


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
    intervals: list[Interval] = []
    routing: list[Routing] = []
    memory: list[Memory] = []
    choice: Decision | None = None
    media: Media | None = None
    records: dict[str, dict[str, Any]] = {}  # by name: what the method declares of its own; see `trace.records`
    facts: dict[str, float] = {}
    note: str = ""

    def record(self, name: str, kind: type[R]) -> R | None:
        """The record of that name in the form that the method declared, None where the step has none. Raises
        TraceError where it has another form."""
        return typed(self.records, name, kind)


GROUPS = frozenset(Step.__struct_fields__) - {"index", "forwards", "tokens_fed", "work", "records"}
GROUPS -= {"model_seconds", "method_seconds"}
"""The groups that every method may fill."""


def step_tokens(step: Step, records: Mapping[str, Sequence[Sequence[str]]] | None = None) -> list[int]:
    """Every token id that a step mentions (the -1 that ends a board excepted). records: where each of its records holds
    tokens."""
    tokens: list[int] = []
    if step.commits:
        tokens += [t for t in step.commits.tokens if t >= 0]
    if step.candidates:
        step.candidates.probabilities.array()
        tokens += [int(t) for t in step.candidates.tokens.array().ravel()]
    if step.tree:
        tokens += step.tree.tokens + step.tree.emitted
        for source in step.tree.guessed_from:
            tokens += source.key + [token for token in source.tokens + source.after if token >= 0]
    for entry in step.memory:
        tokens += entry.key + entry.tokens
    for branch in step.branches:
        tokens += branch.tokens
    for name, record in step.records.items():
        tokens += held(record, (records or {}).get(name, ()))
    return tokens
