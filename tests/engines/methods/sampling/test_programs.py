"""Programs that a model wrote: what passes, and what is stopped."""

import json
import re
import time

import pytest

import engines
from tests.engines.methods.sampling import programs
from tests.engines.methods.sampling.programs import TASKS, program_of, run_program


@pytest.fixture(autouse=True)
def shorter(monkeypatch):
    monkeypatch.setattr(programs, "SECONDS", 1)
    for name in ("SPACE_ID", "EXPLORER_PUBLIC"):
        monkeypatch.delenv(name, raising=False)


def test_the_program_of_an_answer():
    assert program_of("Here:\n```python\nx = 1\n```\nDone.") == program_of("```\nx = 1\n```") == "x = 1\n"
    assert program_of("```python\nx = 1") == program_of("x = 1") == "x = 1"
    assert program_of("```python\na\n```\n```python\nb\n```") == "a\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def f(n): return n + 1", "^passed$"),
        ("def f(n): return n", "AssertionError"),
        ("def f(n) return", "SyntaxError"),
        ("", "NameError"),
        ("raise SystemExit(0)", "stopped by a limit"),
        ("print('passed')\nraise SystemExit(0)", "failed: passed"),
        ("while True: pass", "stopped"),
        ("x = [0] * 10**10", "MemoryError"),
        ("while True: print('x' * 1000)", "x|limit"),
        ("import socket; socket.socket()", "PermissionError|not allowed"),
        ("import os; os.fork()", "PermissionError|not allowed"),
        ("import os; os.system('id')", "PermissionError|not allowed"),
        ("open('a', 'w')", "PermissionError|not allowed"),
        ("import os; os.remove('program.py')", "PermissionError|not allowed"),
        ("import os; assert not os.environ.get('HOME')\ndef f(n): return 2", "^passed$"),
    ],
)
def test_what_passes_and_what_is_stopped(code, said):
    began = time.perf_counter()
    found = run_program(code, ["f(1) == 2"])
    assert re.search(said, found), found
    assert (found == "passed") == (said == "^passed$")
    assert time.perf_counter() - began < 5


def test_a_public_host_runs_none(monkeypatch):
    for name, value in (("SPACE_ID", "someone/space"), ("EXPLORER_PUBLIC", "1")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            with pytest.raises(engines.UserError, match="not run on a public host; run this on a machine of your own"):
                run_program("x = 1", [])


def test_there_are_forty_tasks_and_a_right_program_passes():
    tasks = json.loads(TASKS.read_text())["tasks"]
    assert len(tasks) == len({task["signature"] for task in tasks}) == 40
    assert all(len(task["asserts"]) == 3 and f"`{task['signature']}`" in task["prompt"] for task in tasks)
    (task,) = [task for task in tasks if task["signature"] == "largest(numbers)"]
    assert run_program("def largest(numbers): return max(numbers)", task["asserts"]) == "passed"
