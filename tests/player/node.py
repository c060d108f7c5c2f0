"""JavaScript without a browser: one node process evaluates what the tests ask for."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import no_node

HERE = Path(__file__).parent


def node() -> str:
    """The program."""
    if missing := no_node():  # under CI; elsewhere these tests are left out
        pytest.fail(missing)
    return str(shutil.which("node"))


class Node:
    """node("layout.js", "M.tidy(a)", a=[...]): evaluates with the module as M and the arguments by name. A module that
    begins with a slash is a file of assets/client/, with a dot one beside this, any other one of the player's bundle.
    What JSON lacks comes as None."""

    def __init__(self) -> None:
        from explorer.export.bundle import bundle

        self.process = subprocess.Popen(
            [node(), str(HERE / "node.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._ask(bundle())

    def _ask(self, what: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"node ended with {self.process.wait(10)}"
        told = json.loads(line)
        assert "error" not in told, told["error"]
        return told.get("value")

    def __call__(self, module: str, expression: str, **args: Any) -> Any:
        return self._ask({"module": module, "expression": expression, "args": args})

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture(scope="session")
def js() -> Iterator[Node]:
    """One process for all tests."""
    made = Node()
    yield made
    made.close()
