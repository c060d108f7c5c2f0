"""The frontier of a best-first search: states by f = g + h, the smallest first."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from engines.core.trace import Detail, Index, Record

DIGITS = 12  # of f, where two states are compared

COSTS: dict[str, Callable[[float, float], float]] = {
    "increase": lambda h, child: max(0.0, child - h),
    "consistent": lambda h, child: max(0.0, h - child),
    "zero": lambda h, child: 0.0,
}
"""Rule -> what the move from a state of estimate h to one of estimate `child` costs."""


@dataclass(eq=False)
class State:
    """A partial solution. h = 1 - r, r its reward in [0, 1]; g: what the way to it cost; depth: its steps; terminal: it
    is over; item: whatever the search keeps for it."""

    h: float
    g: float = 0.0
    depth: int = 0
    parent: State | None = None
    terminal: bool = False
    item: object = None
    number: int = field(default=0, compare=False)  # when it was pushed

    @property
    def f(self) -> float:
        """The estimate of the whole cost."""
        return self.g + self.h

    @property
    def key(self) -> tuple[float, int, int]:
        """The order of the frontier: f, then the deeper, then the earlier."""
        return round(self.f, DIGITS), -self.depth, self.number


class Standing(Record):
    """The paths that wait behind an expansion, the best first; the solution before them, where there is one."""

    KEPT_FROM: ClassVar[Detail] = "light"
    open: list[Index]
    expanded: Index
    returned: bool  # to an older path, as none behind the expanded one is best


class Frontier:
    """All states that were not taken up yet. rule: one of COSTS."""

    def __init__(self, rule: str) -> None:
        self.cost, self.pushed = COSTS[rule], 0
        self._heap: list[tuple[tuple[float, int, int], State]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, r: float, parent: State | None = None, terminal: bool = False, item: object = None) -> State:
        """A new state with reward r behind its parent (None: the root, which costs nothing)."""
        h = 1 - r
        g = 0.0 if parent is None else parent.g + self.cost(parent.h, h)
        depth = 0 if parent is None else parent.depth + 1
        state = State(h, g, depth, parent, terminal, item, self.pushed)
        self.pushed += 1
        heapq.heappush(self._heap, (state.key, state))
        return state

    def pop(self) -> State:
        """The best one, taken out. Raises IndexError where there is none."""
        return heapq.heappop(self._heap)[1]

    def states(self) -> list[State]:
        """All, the best first."""
        return [state for _, state in sorted(self._heap, key=lambda entry: entry[0])]

    def settle(self) -> State | None:
        """Where the budget is spent: the best one that is over, else the best one; None of an empty frontier."""
        states = self.states()
        return next((state for state in states if state.terminal), states[0] if states else None)

    def keep(self, states: list[State]) -> None:
        """Forget all that wait but these."""
        self._heap = [(state.key, state) for state in states]
        heapq.heapify(self._heap)

    def clear(self) -> None:
        """Forget all states that wait."""
        self._heap.clear()
