"""A plugin that writes down what each test took, and the table of it.

TESTS_LEDGER=FOLDER python -m pytest -p tests.ledger     a line of JSON for each test, into the folder
python -m tests.ledger FOLDER > tests/times.tsv          seconds by file and tier, then the dearest tests
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tiers import tiers_of

OUTCOME = pytest.StashKey[str]()


def _processor() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    began, used = time.perf_counter(), _processor()
    result = yield
    row = {
        "id": item.nodeid,
        "wall": round(time.perf_counter() - began, 3),
        "cpu": round(_processor() - used, 3),
        "marks": sorted(tiers_of(item)),
        "out": item.stash.get(OUTCOME, "passed"),
    }
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    with (Path(os.environ["TESTS_LEDGER"]) / f"{worker}.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    report = yield
    if report.when == "call" or report.outcome != "passed":
        item.stash[OUTCOME] = report.outcome
    return report


def table(folder: Path, dearest: int = 40) -> str:
    """Tab-separated: seconds by the clock and of the processor (of the worker and its ended children) of each file in
    plain `pytest` and in `--rest`, and of the tests that took longest."""
    rows = [
        json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()
    ]
    files: dict[tuple[str, str], list[dict[str, object]]] = defaultdict(list)
    for row in rows:
        files[row["id"].partition("::")[0], "--rest" if row["marks"] else "pytest"].append(row)
    sums = sorted(
        ((sum(r["wall"] for r in some), sum(r["cpu"] for r in some), len(some), *key) for key, some in files.items()),
        reverse=True,
    )
    slowest = sorted(((r["wall"], r["cpu"], r["id"], " ".join(r["marks"])) for r in rows), reverse=True)[:dearest]
    return "\n".join(
        [
            "seconds\tprocessor\ttests\tfile\ttier",
            *(f"{wall:.1f}\t{cpu:.1f}\t{n}\t{file}\t{tier}" for wall, cpu, n, file, tier in sums),
            "",
            "seconds\tprocessor\ttest\tmarks",
            *(f"{wall:.1f}\t{cpu:.1f}\t{name}\t{marks}" for wall, cpu, name, marks in slowest),
        ]
    )


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
