"""What tests cost: processor seconds and page visits, by tier and folder.

TESTS_LEDGER=FOLDER pytest                       a line of JSON for each test, into the folder
python -m tests.ledger plain=FOLDER gate=FOLDER  the table of such runs, as tests/times.tsv has it
    --against tests/times.tsv                    fails where a tier costs a quarter more than there

A processor second is worth more on one machine than on another. So each run also measures a fixed piece of work, and
tiers are compared in units of it.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import marks_of

OUTCOME = pytest.StashKey[str]()
ERROR = pytest.StashKey[str]()
YARDSTICK = pytest.StashKey[float]()
MORE = 1.25  # times the committed cost at which `.ci/run` is red
Row = dict[str, Any]


def write(name: str, row: Row) -> None:
    """Adds a line to a file of the ledger, where one is kept."""
    if folder := os.environ.get("TESTS_LEDGER"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        with (Path(folder) / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _worker() -> str:
    return os.environ.get("PYTEST_XDIST_WORKER", "main")


def _processor() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _visits() -> int:
    opened = sys.modules.get("tests.page.tabs")
    return opened.Tab.visits if opened else 0


def yardstick() -> float:
    """Processor seconds of a fixed piece of work: the least of five, of some 30 ms each."""
    import numpy as np

    found = []
    for _ in range(5):
        before = time.process_time()
        square = np.arange(90_000, dtype=np.float32).reshape(300, 300) % 7
        for _ in range(20):
            square = square @ square % 7
        json.loads(json.dumps([{str(i): [i, i / 7]} for i in range(12_000)]))
        sum(i * i % 7 for i in range(150_000))
        found.append(time.process_time() - before)
    return min(found)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    began, used, visits = time.perf_counter(), _processor(), _visits()
    result = yield
    row: Row = {
        "id": item.nodeid,
        "wall": round(time.perf_counter() - began, 3),
        "cpu": round(_processor() - used, 3),
        "marks": sorted(marks_of(item)),
        "out": item.stash.get(OUTCOME, "passed"),
    }
    more = {"visits": _visits() - visits, "error": item.stash.get(ERROR, "")}
    write(_worker(), row | {name: value for name, value in more.items() if value})
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    from tests.repeats import error_of

    report = yield
    if report.when == "call" or report.outcome != "passed":
        item.stash[OUTCOME] = report.outcome
    if report.failed and ERROR not in item.stash:
        item.stash[ERROR] = error_of(report)
    return report


def _runs_tests(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput") or not config.getoption("numprocesses", None)


def pytest_sessionstart(session: pytest.Session) -> None:
    if _runs_tests(session.config):
        session.config.stash[YARDSTICK] = yardstick()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """All that the process and its children spent, and the yardstick, of its begin and its end. A browser is not among
    the children: visits stand for it."""
    if _runs_tests(config) and YARDSTICK in config.stash:
        mean = (config.stash[YARDSTICK] + yardstick()) / 2
        write(_worker(), {"spent": round(_processor(), 1), "yardstick": round(mean, 4)})


def read(folder: Path) -> list[Row]:
    """The lines of a run's ledger."""
    paths = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]


def by_folder(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """Tests, processor seconds and page visits of each folder below tests/ that has test files."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: {"tests": 0, "processor": 0.0, "visits": 0})
    for row in (row for row in rows if "id" in row):
        sums = found[Path(row["id"].partition("::")[0]).parent.as_posix()]
        sums["tests"] += 1
        sums["processor"] += row["cpu"]
        sums["visits"] += row.get("visits", 0)
    return {name: {key: round(value, 1) for key, value in found[name].items()} for name in sorted(found)}


def whole(rows: list[Row]) -> dict[str, float]:
    """Of a run: tests, processor seconds with the starts of its workers, visits, and the yardstick."""
    folders = by_folder(rows).values()
    ends = [row for row in rows if "spent" in row]
    return {
        "tests": sum(one["tests"] for one in folders),
        "processor": round(sum(row["spent"] for row in ends), 1),
        "visits": sum(one["visits"] for one in folders),
        "yardstick": statistics.median(row["yardstick"] for row in ends),
    }


def table(runs: dict[str, list[Row]]) -> str:
    """Tab-separated: for each tier a line for the whole run, then one for each folder."""
    lines = ["tier\tfolder\ttests\tprocessor\tvisits\tyardstick"]
    for name, rows in runs.items():
        sums = whole(rows)
        lines.append(f"{name}\t(all)\t{sums['tests']}\t{sums['processor']}\t{sums['visits']}\t{sums['yardstick']}")
        lines += [
            f"{name}\t{folder}\t{one['tests']}\t{one['processor']}\t{one['visits']}\t"
            for folder, one in by_folder(rows).items()
        ]
    return "\n".join(lines) + "\n"


def dearer(runs: dict[str, list[Row]], committed: str) -> list[str]:
    """A sentence for each tier that costs a quarter more than the committed table says, in yardsticks or in visits."""
    cells = [line.split("\t") for line in committed.splitlines()[1:]]
    before = {tier: list(map(float, numbers)) for tier, folder, *numbers in cells if folder == "(all)"}
    found = []
    for name, rows in runs.items():
        if name not in before:
            continue
        _, seconds, visits, yard = before[name]
        now = whole(rows)
        ratio = (now["processor"] / now["yardstick"]) / (seconds / yard)
        if ratio > MORE:
            found.append(f"{name}: {ratio:.2f} times the processor seconds of tests/times.tsv, at most {MORE}")
        if now["visits"] > MORE * visits:
            found.append(f"{name}: {now['visits']:.0f} page visits, {visits:.0f} in tests/times.tsv")
    return found


def main() -> int:
    """Prints the table; 1 where a tier costs too much more than before."""
    p = argparse.ArgumentParser(prog="python -m tests.ledger", description=__doc__.partition("\n")[0])
    p.add_argument("runs", nargs="+", metavar="TIER=FOLDER", help="the ledger of a run")
    p.add_argument("--against", type=Path, help="a table that was committed")
    given = p.parse_args()
    runs = {name: read(Path(folder)) for name, _, folder in (one.partition("=") for one in given.runs)}
    print(table(runs), end="")
    wrong = dearer(runs, given.against.read_text("utf-8")) if given.against else []
    for sentence in wrong:
        print(f"{sentence}. Cheaper tests, or say in a commit of tests/times.tsv what they are worth.", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
