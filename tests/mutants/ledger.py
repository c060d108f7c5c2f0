"""A plugin that writes down what each test took: `-p tests.mutants.ledger`, into the folder TESTS_LEDGER."""

from __future__ import annotations

import json
import os
import time
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
