"""Golden cases of best-first search over partial solutions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engines.core.verify import Case, checks, differ
from engines.methods.search.a_star_decoding.frontier import COSTS, Frontier, State

from .cases import Given, Values


@checks("a_star")
def a_star(case: Case, data: Given, folder: Path) -> str | None:
    """Order of the pops with g, h and f, calls of the reward model, result and path of every cost rule."""
    for rule in COSTS:
        if fault := differ(rule, searched(case, rule), case["expected"][rule], 1e-9):
            return fault
    return None


def searched(case: Case, rule: str) -> Values:
    """The search over a given tree."""
    nodes, frontier, expansions = case["nodes"], Frontier(rule), 0
    root = frontier.push(nodes[case["root"]]["r"], item=case["root"])
    pops, seen, result = list[list[Any]](), {root.item: root}, None
    while len(frontier):
        state = frontier.pop()
        pops.append([state.item, state.g, state.h, state.f])
        if state.terminal:
            result = state
            break
        if expansions == case["budget"]:
            pops.pop()
            waiting = [state, *frontier.states()]
            result = next((one for one in waiting if one.terminal), state)
            break
        expansions += 1
        below = sorted((id for id, node in nodes.items() if node["parent"] == state.item), key=int)
        for id in below[: case["k"]]:
            seen[id] = frontier.push(nodes[id]["r"], state, nodes[id]["terminal"], id)
    return {
        "pops": pops,
        "expansions": expansions,
        "prm_calls": frontier.pushed,
        "result": None if result is None else result.item,
        "path": way(result),
        "g": {id: state.g for id, state in seen.items()},
        "h": {id: state.h for id, state in seen.items()},
    }


def way(state: State | None) -> list[object]:
    """The items from the root to a state."""
    found = list[object]()
    while state is not None:
        found.append(state.item)
        state = state.parent
    return found[::-1]
