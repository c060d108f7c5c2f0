"""Golden cases of the routing family."""

from __future__ import annotations

from pathlib import Path

from engines.core.verify import Case, checks, differ
from engines.methods.routing.ead import next_model

from .cases import Given


@checks("ead")
def ead(case: Case, data: Given, folder: Path) -> str | None:
    """The switching rule on given entropies."""
    names = {"S": "small", "L": "large"}
    active, c, read, writers, rolling, switches = names[case["start"]], 0, [], [], [], []
    for t in range(len(case["H_small"])):
        H = case["H_small" if active == "small" else "H_large"][t]
        writers.append(active)
        read.append(H)
        c += 1
        window = read[-case["window"] :]
        mean = sum(window) / len(window)
        rolling.append(mean)
        before, (active, c) = active, next_model(active, mean, c, case["tau"], case["d_min"])
        if active != before and t + 1 < len(case["H_small"]):
            switches.append([t + 1, before[0].upper(), active[0].upper()])
    got = {
        "model": [w[0].upper() for w in writers],
        "rolling": rolling,
        "switches": switches,
        "large_fraction": writers.count("large") / len(writers),
    }
    return differ("", got, case["expected"], 1e-6)
