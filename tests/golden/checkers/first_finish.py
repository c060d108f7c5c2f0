"""Golden cases of First Finish Search and of votes of the shortest traces."""

from __future__ import annotations

from pathlib import Path

from engines.core.verify import Case, checks, differ
from engines.methods.reasoning.ffs.finish import Trace, chosen, cutoff, first, votes

from .cases import Given


@checks("ffs")
def ffs(case: Case, data: Given, folder: Path) -> str | None:
    """Winner, waiting and writing of FFS, and cutoff, votes, answer and writing of FFS-k for every k."""
    traces = [Trace(length, answer) for length, answer in case["traces"]]
    longest, number = case["max_len"], first(traces)
    waited = longest if number is None else traces[number].length
    got = {
        "winner": number,
        "answer": None if number is None else traces[number].answer,
        "sequential": waited,
        "total_sync": waited * len(traces) if number is not None else sum(one.length for one in traces),
        "total_if_all_run": sum(one.length for one in traces),
    }
    by_k = []
    for k in range(1, len(traces) + 1):
        line, found = cutoff(traces, k), votes(traces, k)
        total = sum(one.length for one in traces if one.length <= line)
        by_k.append({"k": k, "cutoff": line, "votes": dict(found), "answer": chosen(found), "total": total})
    return differ("", {"ffs": got, "ffs_k": by_k}, {name: case[name] for name in ("ffs", "ffs_k")}, 0)
