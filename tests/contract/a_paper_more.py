"""`python -m tests.contract.a_paper_more WORD ...`, where DECODING_EXPLORER_EXTRA names a folder with a further paper:
do the tests that go through all papers still pass? WORDS: what names the new paper, its method and its recording.

Covers the test functions of `tests/explorer/papers` and of every other file that asks for all papers, lessons,
recordings or methods when it is imported: those without parameters as they are, those with one table in the cases that
are about the new paper. Does not cover the contract and the engines' tests, each case of which is about one method,
tests that need a fixture (files of their own, a browser, what a command printed), and tests that are not plain."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.tiers import MARKS

TESTS = Path(__file__).resolve().parents[1]
ASKS = {"papers.read", "read", "gallery", "lessons", "engines.list_methods", "list_methods"}


def asks_for_all(path: Path) -> bool:
    """Whether a test file asks for all papers, lessons, recordings or methods when it is imported."""
    body = ast.parse(path.read_text("utf-8")).body
    run = [part for one in body for part in (one.decorator_list if isinstance(one, ast.FunctionDef) else [one])]
    calls = (node for part in run for node in ast.walk(part) if isinstance(node, ast.Call))
    return bool(ASKS & {ast.unparse(call.func) for call in calls})


def modules() -> Iterator[str]:
    """The test files that it covers, as modules."""
    for path in sorted(TESTS.rglob("test_*.py")):
        inside = path.relative_to(TESTS)
        of_papers = inside.is_relative_to("explorer/papers")
        if of_papers or (inside.parts[0] not in ("contract", "engines") and asks_for_all(path)):
            yield ".".join(("tests", *inside.with_suffix("").parts))


def cases(test: Callable[..., None], words: Sequence[str]) -> list[Sequence[Any]]:
    """What to call a test with: nothing where it takes nothing, or the rows of its table that name the new paper."""
    marks = getattr(test, "pytestmark", [])
    takes = list(inspect.signature(test).parameters)
    tables = [mark.args for mark in marks if mark.name == "parametrize"]
    if {mark.name for mark in marks} & MARKS.keys():
        return []
    if not takes:
        return [()]
    if len(tables) != 1:
        return []
    names, rows = tables[0][:2]
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    if names != takes:
        return []
    values = [getattr(row, "values", row if len(names) > 1 else (row,)) for row in rows]
    return [row for row in values if any(word in repr(row) for word in words)]


def main(words: Sequence[str]) -> int:
    """Prints how many calls there were; 1 where one failed, with what it raised."""
    called, wrong = 0, 0
    for name in modules():
        for test in [one for key, one in vars(importlib.import_module(name)).items() if key.startswith("test_")]:
            for given in cases(test, words):
                called += 1
                try:
                    test(*given)
                except Exception:
                    wrong += 1
                    print(f"{name}.{test.__name__}", traceback.format_exc(limit=-3), sep="\n", file=sys.stderr)
    print(f"{called} tests called")
    return int(bool(wrong) or not called)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
