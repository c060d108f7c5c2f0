"""What plain `pytest`, `--rest`, `--all` and the single tiers run, and that who measures time runs alone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.alone import Turns
from tests.conftest import pytest_ignore_collect
from tests.tiers import TIERS, chosen, lacking, says, tier_of_file


def config(*options: str, args: tuple[str, ...] = ("tests",), markexpr: str = ""):
    return SimpleNamespace(
        getoption=lambda name: name in options, args=list(args), option=SimpleNamespace(markexpr=markexpr)
    )


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        (config(), [set()]),
        (config("rest"), [{"browser"}, {"slow", "smollm2"}]),
        (config("all"), [set(), {"browser"}, {"slow", "smollm2"}]),
        (config("browser"), [{"browser"}]),
        (config("slow", "training"), [{"slow", "smollm2"}]),
        (config(args=("tests/page/test_layout.py",)), [set(), {"browser"}, {"slow", "smollm2"}]),
        (config(args=("tests/page/test_layout.py", "tests/player")), [set()]),
        (config("smollm2", args=("tests/x.py::test_one",)), [{"slow", "smollm2"}]),
        (config(markexpr="browser"), [set(), {"browser"}, {"slow", "smollm2"}]),
    ],
)
def test_what_runs(given, runs):
    wanted = chosen(given)
    assert [tiers for tiers in ({*()}, {"browser"}, {"slow", "smollm2"}) if wanted(tiers)] == runs


@pytest.mark.parametrize(
    ("path", "tier"),
    [
        ("tests/engines/training/test_train.py", "training"),
        ("tests/player/test_word_browser.py", "browser"),
        ("tests/player/test_player_js.py", None),
    ],
)
def test_a_file_of_one_tier_is_not_even_imported_where_that_does_not_run(path, tier):
    assert tier_of_file(Path(path)) == tier
    assert pytest_ignore_collect(Path(path), config()) is (True if tier else None)
    for asked in (config("rest"), config("all"), config("slow"), config(args=(path,))):
        assert pytest_ignore_collect(Path(path), asked) is None


def test_what_is_left_out_is_said_with_the_way_to_run_it():
    assert all(tier in says(config()) for tier in TIERS) and "`pytest --rest`" in says(config())
    assert "browser" not in says(config("browser")) and "training" in says(config("browser"))
    assert says(config("rest")) == says(config("all")) == ""


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
        env={k: v for k, v in os.environ.items() if k != "CI"} | {"CHROMIUM": "/nowhere/chromium"},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    assert told.count("/nowhere/chromium") == 1 and "deselected" in told and "skipped" not in told


def test_who_measures_time_waits_for_the_others_and_is_not_overtaken(tmp_path):
    turns, order = Turns(tmp_path), []
    inside, leave = threading.Event(), threading.Event()

    def other():
        with turns.together():
            inside.set()
            leave.wait(10)
            order.append("other ends")

    def alone():
        with turns.alone():
            order.append("alone")
            time.sleep(0.05)
            order.append("alone ends")

    def late():
        with turns.together():
            order.append("late")

    threads = [threading.Thread(target=one) for one in (other, alone, late)]
    threads[0].start()
    assert inside.wait(10)
    threads[1].start()
    time.sleep(0.1)  # it stands at the gate now
    threads[2].start()
    time.sleep(0.1)
    assert order == []
    leave.set()
    for thread in threads:
        thread.join(10)
    assert order == ["other ends", "alone", "alone ends", "late"]
