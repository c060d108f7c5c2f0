"""A browser or server test that fails is run once more, alone, when all others have ended. So is a test under which its
worker ended: what ended it may be an earlier one's doing. One that passes then is listed at the end with its first
error, and the ledger has it; one that fails again fails, and so do all where more than two tests failed. Of a worker
that ended, the status is said and the stack that `faulthandler` wrote."""

import faulthandler
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests import ledger
from tests.tiers import named

MOST = 2  # tests that may be run again
MARKS = {"browser", "server"}
REPEATED = "repeated"  # the outcome of a report that was a failure
ENDED = "???"  # what xdist says for the phase of a test under which its worker ended
STACKS = "TESTS_STACKS"  # the folder of the stacks of workers that ended, for those workers


@pytest.hookimpl(trylast=True)  # behind pytest's own use of faulthandler, whose stream a run's last lines do not show
def pytest_configure(config: pytest.Config) -> None:
    """Not in a worker, which reports to another process, nor where single files are asked for: there a failure is told
    at once."""
    if hasattr(config, "workerinput"):
        if folder := os.environ.get(STACKS):  # none where single files are asked for
            path = Path(folder, config.workerinput["workerid"])
            faulthandler.enable(path.open("w"))  # open to the end
    elif not named(config):
        config.pluginmanager.register(Repeats(config), "repeats of failures")
        os.environ[STACKS] = tempfile.mkdtemp(prefix="tests-stacks-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(STACKS, ""), ignore_errors=True)


class Repeats:
    """Of the process that reports."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.reports: dict[str, list[pytest.TestReport]] = defaultdict(list)
        self.passed: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == ENDED:
            report.longrepr = f"{report.longrepr}: {how_it_ended(report.node)}"  # type: ignore[attr-defined]
        if report.outcome == "failed" and (report.when == ENDED or MARKS.intersection(report.keywords)):
            report.outcome = REPEATED  # type: ignore[assignment]  # so that nothing counts it as a failure yet
            self.reports[report.nodeid].append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        few = len(self.reports) <= MOST
        self.passed = [name for name in self.reports if few and alone(name, Path(self.config.rootpath))]
        failed = [name for name in self.reports if name not in self.passed]
        for name in self.passed:
            ledger.write("repeats", {"repeated": name, "error": error_of(self.reports[name][0])})
        if not failed:
            return
        stats = self.config.pluginmanager.get_plugin("terminalreporter").stats
        kept = [one for one in stats.pop(REPEATED, []) if one.nodeid in self.passed]
        if kept:
            stats[REPEATED] = kept
        for report in (one for name in failed for one in self.reports[name]):
            report.outcome = "failed"
            stats.setdefault("error" if report.when in ("setup", "teardown") else "failed", []).append(report)
        session.testsfailed += len(failed)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.passed:
            terminalreporter.section("failed once, passed when repeated alone")
        for name in self.passed:
            terminalreporter.write_line(f"REPEATED {name}")
            first = self.reports[name][0]
            terminalreporter.write_line(f"    {first.longreprtext if first.when == ENDED else error_of(first)}")


def how_it_ended(worker: Any) -> str:
    """Of a worker of xdist: its status and its stack."""
    status = worker.gateway._io.popen.wait(10)
    stack = Path(os.environ[STACKS], worker.gateway.id).read_text()
    return f"status {status}, {stack or 'no stack'}"


def error_of(report: pytest.TestReport) -> str:
    """The first line of what went wrong."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else report.longreprtext).strip().splitlines()
    return lines[0][:300] if lines else "no message"


def alone(name: str, root: Path) -> bool:
    """Whether a test passes in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", name]
    ours = ("PYTEST_CURRENT_TEST", "PYTEST_XDIST", "EXPLORER_STORE", "TESTS_LEDGER")
    env = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"\n{name} failed again:\n{done.stdout[-4000:]}")
    return done.returncode == 0
