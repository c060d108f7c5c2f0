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


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("Here:\n```python\nx = 1\n```\nDone.", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```python\nx = 1", "x = 1"),
        ("x = 1", "x = 1"),
        ("```python\na\n```\n```python\nb\n```", "a\n"),
    ],
)
def test_the_program_of_an_answer(answer, code):
    assert program_of(answer) == code


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


def test_there_are_forty_tasks_and_each_has_a_program_that_passes():
    tasks = json.loads(TASKS.read_text())["tasks"]
    assert len(tasks) == 40 and len({task["signature"] for task in tasks}) == 40
    assert all(len(task["asserts"]) == 3 and f"`{task['signature']}`" in task["prompt"] for task in tasks)
    known = {
        "largest(numbers)": "return max(numbers)",
        "is_leap(year)": "return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",
        "unique(items)": "return list(dict.fromkeys(items))",
        "fibonacci(n)": "return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)",
    }
    for task in tasks:
        if task["signature"] in known:
            code = f"def {task['signature']}:\n    {known[task['signature']]}"
            assert run_program(code, task["asserts"]) == "passed"
