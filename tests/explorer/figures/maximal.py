"""For each group of a step the most that a trace of a given length can hold of it: in one step, and in many."""

import base64
import json
from collections.abc import Callable
from typing import Any

import msgspec

from engines import Trace
from tests.explorer.figures.lookback import looked

Body = dict[str, Any]
LONG = 4000  # steps of a trace that has many


def packed(count: int, *shape: int) -> Body:
    return {"dtype": "u1", "shape": [count, *shape], "data": base64.b64encode(bytes(count)).decode()}


def commits(n: int, at: Callable[[int], int] = lambda i: i, token: int = 3) -> Body:
    return {"commits": {"positions": [2 + at(i) for i in range(n)], "tokens": [token] * n, "causes": ["x"] * n}}


def tree(n: int, parent: Callable[[int], int]) -> Body:
    rows = {"parents": [-1, *(parent(i) for i in range(1, n))], "tokens": [3] * n, "accepted": [False] * n}
    return {"tree": {"start": 1, **rows, "why": ["root", *["unreached"] * (n - 1)], "emitted": [3] * n}}


def candidates(n: int) -> Body:
    chosen = {"dtype": "u2", "shape": [n, 1], "data": base64.b64encode(b"\3\0" * n).decode()}
    return {"candidates": {"positions": [2 + i for i in range(n)], "tokens": chosen, "probabilities": packed(n, 1)}}


def choice(n: int) -> Body:
    names = [f"o{i}" for i in range(min(n, 1000))]
    said = {"options": names, "chosen": names[0], "quantity": "q", "value": 0.5, "threshold": 0.5}
    return {"choice": said}


def lanes(n: int) -> Body:
    each = [{"track": f"l{i % 900}", "start": i / 1e4, "end": (i + 5) / 1e4} for i in range(min(n, 4096))]
    return {"intervals": each}


def score(name: str) -> Body:
    return {"name": name, "unit": "score", "start": 2, "values": packed(2)}


def routing() -> Body:
    chosen = {"dtype": "u2", "shape": [1, 1, 1], "data": "AAA="}
    return {"kind": "expert", "role": "r", "units": 2, "positions": [2], "layers": [0], "chosen": chosen}


GROUPS: dict[str, Callable[[int], Body]] = {
    "commits": commits,
    "commits far behind": lambda n: commits(n, lambda i: 3 * i),
    "commits taken away": lambda n: commits(min(n, 2000), lambda i: i % 700, -1),
    "masks": lambda n: commits(n, token=0),
    "ends": lambda n: commits(n, lambda i: n - i, 7),
    "many ends": lambda n: commits(n // 3),
    "flat tree": lambda n: tree(n, lambda i: 0),
    "deep tree": lambda n: tree(n, lambda i: i - 1),
    "candidates": candidates,
    "choice": choice,
    "intervals": lanes,
    "parts of calls": lambda n: {"intervals": [one | {"about": {"part_of": "l1"}} for one in lanes(n)["intervals"]]},
    "scores": lambda n: {"scores": [score(f"s{i}") for i in range(n)]},
    "spans": lambda n: {"spans": [{"kind": f"k{i}", "start": 2, "end": 6} for i in range(n)]},
    "spans of all": lambda n: {"spans": [{"kind": "fed", "start": 0, "end": 2000} for _ in range(n)]},
    "branches": lambda n: {"branches": [{"id": i, "parent": i - 1, "tokens": [3]} for i in range(n)]},
    "memory": lambda n: {"memory": [{"key": [3], "tokens": [4]} for _ in range(n)]},
    "facts": lambda n: {"facts": {f"f{i}": 1.0 for i in range(n)}},
    "forwards": lambda n: {"forwards": {f"r{i}": 1 for i in range(min(n, 1000))}, "work": {"r": 1}},
    "note": lambda n: {"note": "word " * n},
    "routing": lambda n: {"routing": [routing() for _ in range(n)]},
}  # fmt: skip


def maximal(group: str, characters: int, long: bool) -> Trace:
    """A valid trace of about so many characters with nothing but this group: in one step, or `LONG` steps (as many as
    fit)."""
    header = {"eos_ids": [7, *range(9, 9 + characters // 40)]} if group == "many ends" else {}
    whole = msgspec.to_builtins(looked([], canvas=None))
    whole["header"] |= header
    bare = {"index": 0, "forwards": {"target": 1}, "tokens_fed": 1, "model_seconds": 0.01, "method_seconds": 0.001}
    make = GROUPS[group]
    each = (len(json.dumps(make(1000))) - len(json.dumps(make(100)))) / 900
    steps = LONG if long else 1
    entries = max(1, int((characters / steps - 140) / max(each, 1)))
    body = make(entries)
    used = len(json.dumps(body)) + 140
    whole["steps"] = [{**bare, **body, "index": i} for i in range(max(1, min(steps, characters // used)))]
    tail = max([0, *(p for s in whole["steps"] for p in s.get("commits", {}).get("positions", []))])
    tail = max([tail, *(p for s in whole["steps"] for p in s.get("candidates", {}).get("positions", []))])
    if group == "commits far behind" and long:  # a board that is long from the first step on
        tail = characters // 6
        whole["steps"][0] |= {"commits": {"positions": [tail], "tokens": [3], "causes": ["x"]}}
    whole["end"]["output_ids"] = [3] * max(0, tail - 4000) if tail > 4000 else [3] * 10
    return Trace.from_json(json.dumps(whole))
