"""How many of the small faults of `pick.py` the tests find. TREE is a clean clone, RESULTS a file of JSON lines.

    TESTS_LEDGER=L python -m pytest --cov=engines --cov=explorer --cov-context=test   # which test runs which line
    python -m tests.mutants TREE RESULTS --coverage FILE... --ledger L/gw*.jsonl      # fresh ones, by a seed
        --kept tests/mutants/results.tsv                                              # or the same as before
    python -m tests.mutants TREE RESULTS --scripts SEED                               # the page's JavaScript, by node

A fault is written into TREE, and the tests that run its line are run, plain `pytest`'s before the others and the most
specific first, up to 15 processor seconds of them; the first that fails has found it. A child of a process that holds
torch runs them, so that a start costs a second. After 120 s, or 60 processor seconds, it is said to be found (a loop
without end). A second call goes on where the first one stopped.
"""

import argparse
import contextlib
import itertools
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.mutants.cover import Map
from tests.mutants.pick import Fault, faults, kept, scripts
from tests.tiers import MARKS

MOST, WALL, PROCESSOR = 15.0, 120.0, 60  # seconds: of the tests chosen; before a child is ended
PLAYER = Path(__file__).resolve().parents[1] / "player"
TESTS = 300  # and no more tests than that
NODE = ["tests/player/test_node.py", *(f"tests/player/{path.name}" for path in sorted(PLAYER.glob("test_*_js.py")))]
OURS = str(Path(__file__).resolve().parents[2])


def chosen(fault: Fault, seen: Map, default: bool) -> list[str]:
    """The tests for a fault, in the order in which they run."""
    path = Path(fault.file)
    found = [] if path.suffix == ".js" else seen.of(fault.file, fault.line)
    seconds = MOST
    if path.suffix == ".js" or fault.part == "page":
        seconds *= 3  # a page takes some seconds to open
        found += [test for test in seen.naming(path.stem) if test not in found]
    plain = [test for test in found if not set(seen.tiers[test]) & MARKS.keys()]
    found = plain if default else [*plain, *(test for test in found if test not in set(plain))]
    spent = itertools.accumulate(seen.seconds[test] for test in found)
    return [test for test, sum_ in zip(found, spent, strict=True) if sum_ <= seconds][:TESTS] or found[:1]


@contextlib.contextmanager
def written(tree: Path, fault: Fault, tick: int):
    """The tree with the fault; each version of a file has another second, so that no compiled one is taken for it."""
    path = tree / fault.file
    sound = path.read_text("utf-8")
    lines = sound.split("\n")
    places = [at for at, line in enumerate(lines) if line == fault.old]
    if not places:
        yield False
        return
    lines[min(places, key=lambda at: abs(at + 1 - fault.line))] = fault.new
    try:
        path.write_text("\n".join(lines), "utf-8")
        os.utime(path, (tick, tick))
        yield True
    finally:
        path.write_text(sound, "utf-8")
        os.utime(path, (tick + 1, tick + 1))


def tried(tree: Path, tests: list[str], log: Path) -> tuple[str, float]:
    """What became of it - found, missed, late, unclear - and the seconds."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _child(tree, tests, log)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        took = time.monotonic() - began
        if done or took > WALL:
            break
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not done:
        os.waitpid(child, 0)
        return "late", took
    if os.WIFSIGNALED(status):
        return "late", took
    # 1: a test failed; 2 to 4: with the fault they could not even be collected, which they could without it
    return {0: "missed", 5: "unclear"}.get(os.WEXITSTATUS(status), "found"), took


def _child(tree: Path, tests: list[str], log: Path) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR, PROCESSOR + 5))
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(out, number)
    os.chdir(tree)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]  # those of the tree, not ours
    sys.path[:] = [str(tree), *(path for path in sys.path if path not in ("", OURS))]
    import pytest

    code = pytest.main(["-x", "-q", "-n0", "--timeout", "60", "-p", "no:cacheprovider", *tests])
    sys.stdout.flush()
    os._exit(int(code))


class Sound:
    """Whether tests pass without a fault, tried once for the same ones."""

    def __init__(self, tree: Path, log: Path) -> None:
        self.tree, self.log = tree, log
        self.known: dict[tuple[str, ...], bool] = {}

    def __call__(self, tests: list[str]) -> bool:
        key = tuple(tests)
        if key not in self.known:
            self.known[key] = tried(self.tree, tests, self.log)[0] == "missed"
        return self.known[key]


def judged(tree: Path, fault: Fault, tests: list[str], tick: int, passes: Sound) -> tuple[str, float, str]:
    """What became of a fault, the seconds, and the test that found it. A test that fails without the fault, too, has
    found nothing: it is left out, and the others are asked again."""
    took = 0.0
    while tests:
        with written(tree, fault, tick) as there:
            if not there:
                return "gone", took, ""
            fate, seconds = tried(tree, tests, passes.log)
        took, tick = took + seconds, tick + 2
        by = failed(passes.log, tests)
        if fate != "found" or passes([by] if by else tests):
            return fate, took, by
        tests = [test for test in tests if by and test != by]
    return "not run", took, ""


def failed(log: Path, tests: list[str]) -> str:
    """The test that pytest's last lines name; none if it was a file that could not be collected."""
    told = [line for line in log.read_text(errors="replace").splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return next((test for line in told for test in tests if f"{line} ".split(" ", 1)[1].startswith(f"{test} ")), "")


def main() -> None:
    """Reads the command line, tries each fault that has no result yet, and prints the rates."""
    p = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    p.add_argument("tree", type=Path, help="a clean clone that may be changed")
    p.add_argument("results", type=Path, help="JSON lines; faults that stand there are not tried again")
    p.add_argument("--coverage", type=Path, nargs="+", default=[], help="data of coverage.py with contexts")
    p.add_argument("--ledger", type=Path, nargs="+", default=[], help="what each test took")
    p.add_argument("--kept", type=Path, help="a table of faults that are tried again")
    p.add_argument(
        "--scripts", type=int, metavar="SEED", help="forty faults of the JavaScript, by the tests under node"
    )
    p.add_argument("--measured", type=Path, help="the checkout that the coverage data name (default: the tree)")
    p.add_argument("--default", action="store_true", help="only the tests that plain `pytest` runs")
    p.add_argument("--share", default="0/1", help="I/N: every N-th fault, from the I-th on")
    given = p.parse_args()
    tree = given.tree.resolve()
    os.environ |= {
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(tree),
    }
    for cache in tree.rglob("__pycache__"):
        shutil.rmtree(cache, ignore_errors=True)
    seen = Map((given.measured or tree).resolve(), given.coverage, given.ledger)
    known = (
        {json.loads(line)["name"] for line in given.results.read_text().splitlines()}
        if given.results.exists()
        else set()
    )
    share, of = map(int, given.share.split("/"))
    import torch
    import transformers  # noqa: F401

    torch.set_num_threads(1)
    passes = Sound(tree, given.results.with_suffix(f".{share}.log"))
    if given.scripts is not None:
        found = scripts(tree, given.scripts)
    else:
        found = kept(tree, given.kept) if given.kept else faults(tree)
    for number, fault in enumerate(found):
        if fault.name in known or number % of != share:
            continue
        tests = NODE if given.scripts is not None else chosen(fault, seen, given.default)
        fate, took, by = judged(tree, fault, tests, int(time.time()) + 100 * number, passes)
        row = {"name": fault.name, "fate": fate, "seconds": round(took, 1), "tests": len(tests), "by": by}
        row |= asdict(fault)
        with given.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{fate:8} {took:6.1f} s {len(tests):4} {fault.name[:150]}", flush=True)
    report(given.results)


def report(results: Path) -> None:
    """The rates by part."""
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    for part in dict.fromkeys(row["part"] for row in rows):
        fates = Counter(row["fate"] for row in rows if row["part"] == part)
        killed = fates["found"] + fates["late"]
        print(f"{part:14} {killed:3} of {sum(fates.values()) - fates['gone']:3}  {dict(fates)}")


if __name__ == "__main__":
    main()
