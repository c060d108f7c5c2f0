"""What plain `pytest`, `--gate`, a part of the nightly tests and a named file run; and a failure that is repeated."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import ledger, nightly
from tests.conftest import pytest_ignore_collect
from tests.tiers import GATE, NIGHTLY, chosen, expression, lacking, mark_of_file, says, tier

KINDS = [set(), {"browser"}, {"browser", "pages"}, {"slow", "smollm2"}, {"training"}]


def config(*options: str, args: tuple[str, ...] = ("tests",), markexpr: str = ""):
    return SimpleNamespace(
        getoption=lambda name: name in options, args=list(args), option=SimpleNamespace(markexpr=markexpr)
    )


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        (config(), [set()]),
        (config("gate"), [{"browser"}]),
        (config(args=("tests/page/test_layout.py",)), KINDS),
        (config(args=("tests/page/test_layout.py", "tests/player")), [set()]),
        (config("gate", args=("tests/x.py::test_one",)), [{"browser"}]),
        (config(markexpr="browser"), KINDS),
        (config(markexpr="slow and not wheels and not training"), KINDS[:-1]),
        (config(markexpr="slow or not training"), KINDS),
    ],
)
def test_what_runs(given, runs):
    wanted = chosen(given)
    assert [marks for marks in KINDS if wanted(marks)] == runs


def test_each_test_belongs_to_one_tier_or_part():
    assert [tier(marks) for marks in KINDS] == ["plain", "gate", "pages", "slow", "training"]
    for marks in KINDS:
        names = {name: name in marks for name in [*GATE, *NIGHTLY]}
        assert sum(eval(expression(part), names) for part in NIGHTLY) == (tier(marks) in NIGHTLY)


@pytest.mark.parametrize(
    ("path", "mark"),
    [
        ("tests/engines/training/test_train.py", "training"),
        ("tests/player/test_word_browser.py", "browser"),
        ("tests/player/test_player_js.py", None),
    ],
)
def test_a_file_of_one_mark_is_not_even_imported_where_that_does_not_run(path, mark):
    assert mark_of_file(Path(path)) == mark
    assert pytest_ignore_collect(Path(path), config()) is (True if mark else None)
    assert pytest_ignore_collect(Path(path), config("gate")) is (True if mark == "training" else None)
    for asked in (config(markexpr="slow"), config(args=(path,))):
        assert pytest_ignore_collect(Path(path), asked) is None


def test_what_is_left_out_is_said_with_the_way_to_run_it():
    assert all(mark in says(config()) for mark in [*GATE, *NIGHTLY]) and "`pytest --gate`" in says(config())
    assert "browser" not in says(config("gate")) and "training" in says(config("gate"))
    assert says(config(markexpr="slow")) == ""


def test_what_cannot_run_is_said_with_the_way_to_get_it_and_under_ci_it_runs_and_fails(monkeypatch, tmp_path):
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    missing = lacking({"browser", "node", "slow"})
    assert missing.keys() == {"browser", "node"} and str(tmp_path / "none") in missing["browser"]
    assert all("install" in how for how in missing.values())
    assert lacking({"slow"}) == {}
    monkeypatch.setenv("CI", "1")
    assert lacking({"browser", "node", "slow"}) == {}


def test_tests_without_their_browser_are_left_out_with_one_line():
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "tests/page/test_language.py"],
        env={k: v for k, v in os.environ.items() if k not in ("CI", "TESTS_LEDGER")}
        | {"CHROMIUM": "/nowhere/chromium"},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    assert told.count("/nowhere/chromium") == 1 and "deselected" in told and "skipped" not in told


FLAKY = """
import pathlib, pytest

@pytest.mark.{mark}
@pytest.mark.parametrize("name", {names})
def test_it(name):
    first = pathlib.Path(__file__).with_name(name)
    if name.startswith("broken") or not first.exists():
        first.touch()
        assert name == "another", "the first error"
"""


def run_in(folder: Path, workers: int) -> subprocess.CompletedProcess[str]:
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin,tests.repeats"}
    places = {"TESTS_LEDGER": str(folder / "ledger"), "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", f"{workers}", "-q", str(folder)]
    env = os.environ | plugins | places
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("mark", "names", "passes", "listed"),
    [
        ("server", ["a", "b"], True, ["a", "b"]),
        ("browser", ["a", "broken"], False, ["a"]),
        ("server", ["a", "b", "c"], False, []),
        ("smollm2", ["a"], False, []),
    ],
)
def test_a_failure_is_repeated_once_and_listed(tmp_path, mark, names, passes, listed):
    """What passes alone is listed with its first error; one that fails again, more than two of them, and a failure that
    has to do with no browser or server, are red."""
    (tmp_path / "test_flaky.py").write_text(FLAKY.format(mark=mark, names=names))
    done = run_in(tmp_path, workers=2 if "broken" in names else 0)
    assert (done.returncode == 0) is passes, done.stdout
    told = done.stdout.partition("passed when repeated alone")[2]
    assert [name for name in names if f"REPEATED test_flaky.py::test_it[{name}]" in told] == listed
    assert told.count("AssertionError: the first error") >= len(listed)
    rows = ledger.read(tmp_path / "ledger")
    assert sorted(row["repeated"] for row in rows) == [f"test_flaky.py::test_it[{name}]" for name in listed]
    closing = done.stdout.strip().splitlines()[-1]
    assert f"{len(listed)} repeated" in closing if listed else "repeated" not in closing
    assert ("failed" in closing) is not passes


ENDING = """
import os, pytest, signal
from pathlib import Path

@pytest.mark.parametrize("number", range(6))
def test_it(number):
    once = Path("once")
    if number == 2 and ({always} or not once.exists()):
        once.touch()
        os.kill(os.getpid(), signal.{number})
"""


@pytest.mark.parametrize(
    ("number", "stack", "always"),
    [("SIGSEGV", "Segmentation fault", False), ("SIGSEGV", "Segmentation fault", True), ("SIGKILL", "no stack", False)],
)
def test_a_worker_that_ends_is_told_with_its_stack_and_its_test_is_repeated(tmp_path, number, stack, always):
    (tmp_path / "test_ends.py").write_text(ENDING.format(always=always, number=number))
    done = run_in(tmp_path, workers=2)
    assert done.returncode == always, done.stdout
    assert f"status {-getattr(signal, number)}" in done.stdout and stack in done.stdout
    assert ('test_ends.py", line 10 in test_it' in done.stdout) is (number == "SIGSEGV")
    assert ("1 failed, 5 passed" if always else "5 passed, 1 repeated") in done.stdout


RUN = [
    {"id": "tests/page/test_x.py::test_a", "cpu": 2.0, "marks": ["browser"], "out": "passed", "visits": 3},
    {"id": "tests/page/test_x.py::test_b", "cpu": 1.0, "marks": ["browser"], "out": "passed"},
    {"spent": 10.0, "yardstick": 0.02},
    {"spent": 20.0, "yardstick": 0.02},
]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"spent": 27.0}, []),  # 37 in place of 30
        ({"spent": 28.0}, ["gate: 1.27 times the processor seconds"]),
        ({"spent": 50.0, "yardstick": 0.06}, []),  # on a slower machine
        ({"visits": 4}, ["gate: 4 page visits, 3 in tests/times.tsv"]),
    ],
)
def test_a_tier_that_costs_a_quarter_more_is_named(change, said):
    committed = ledger.table({"gate": RUN})
    assert "gate\t(all)\t2\t30.0\t3\t0.02" in committed and "gate\ttests/page\t2\t3.0\t3\t" in committed
    first, second, third, last = RUN
    first = first | {name: value for name, value in change.items() if name in first}
    ends = [one | {name: value for name, value in change.items() if name == "yardstick"} for one in (third, last)]
    ends[1] |= {name: value for name, value in change.items() if name == "spent"}
    found = ledger.dearer({"gate": [first, second, *ends], "a new one": RUN}, committed)
    assert len(found) == len(said) and all(one.startswith(start) for one, start in zip(found, said, strict=True))


@pytest.fixture
def commits(tmp_path, monkeypatch):
    """A function that commits a change of a file in a repository of its own, which nightly reads; it gives the hash."""
    environment = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(nightly, "ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    nightly.git("init", "-q")

    def commit(file: str) -> str:
        path = tmp_path / file
        path.write_text((path.read_text() if path.exists() else "{}") + "\n")
        nightly.git("add", "-A")
        nightly.git("commit", "-qm", "x")
        return nightly.git("rev-parse", "HEAD")

    return commit


def test_a_result_grows_older_with_each_commit_but_that_of_the_record(commits):
    first = commits("code.py")
    assert nightly.commits_since(first) == 0
    commits("tests/nightly.json")
    assert nightly.commits_since(first) == 0
    commits("code.py")
    assert nightly.commits_since(first) == 1 and nightly.commits_since("0" * 40) is None


def test_without_a_name_the_parts_run_that_have_no_green_result_for_the_code_as_it_is(commits, monkeypatch, capsys):
    def result(commit, status=0, changed=False):
        failed = [{"test": "test_x", "error": "no"}] * bool(status)
        counts = {"passed": 4, "skipped": 0, "failed": failed, "repeated": [], "seconds": 9}
        return {"commit": commit, "status": status, "changed": changed, **counts}

    old = commits("code.py")
    now = commits("code.py")
    kept = {
        "wheels": result(now),
        "timing": result(old),
        "slow": result(now, status=1),
        "pages": result(now, changed=True),
    }
    (nightly.ROOT / nightly.RECORD).write_text(json.dumps(kept))
    ran = []
    monkeypatch.setattr(nightly, "run", lambda part: ran.append(part) or result(now, status=int(part == "training")))
    monkeypatch.setattr(sys, "argv", ["nightly"])
    assert nightly.main() == 1
    assert ran == [part for part in NIGHTLY if part != "wheels"]
    told = capsys.readouterr().out
    assert "wheels: 4 passed, 0 commits ago, 9 s" in told and "training: 1 failed (status 1), 0 commits ago" in told
    ran.clear()
    assert nightly.main() == 1 and ran == ["training"]
    monkeypatch.setattr(sys, "argv", ["nightly", "slow"])
    assert nightly.main() == 0 and ran == ["training", "slow"]
    (nightly.ROOT / nightly.RECORD).unlink()
    monkeypatch.setattr(sys, "argv", ["nightly", "--age"])
    assert nightly.main() == 0 and "pages: never run" in capsys.readouterr().out
