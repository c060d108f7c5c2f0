"""The tests that are JavaScript themselves."""

import subprocess
from pathlib import Path

import pytest

from tests.player.node import node

TESTS = Path(__file__).parents[1]


@pytest.mark.node
def test_the_tests_in_javascript_pass() -> None:
    files = [str(path) for path in sorted(TESTS.rglob("*.test.mjs"))]
    assert files
    done = subprocess.run([node(), "--test", *files], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
