"""Which tests run. Plain `pytest` runs what needs the package alone; each other test belongs to one or more tiers, told
by its marks, and runs where one of them is asked for."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

TIERS = {
    "browser": "drives Chromium (set by the fixture `browser`)",
    "node": "runs the player's JavaScript under node (set by the fixture `js`)",
    "smollm2": "needs the weights of SmolLM2: decoding-explorer models --fetch smollm2",
    "gguf": "runs GGUF files through llama.cpp: pip install -e '.[test,llama-cpp]' (set by the folder)",
    "training": "trains something, however small (set by the folder)",
    "exhaustive": "every case of what plain `pytest` tries once per kind",
    "slow": "more than five seconds alone",
    "timing": "compares seconds: nothing else runs beside it",
}


def tiers_of(item: pytest.Item) -> set[str]:
    """The tiers of a test; none for one that plain `pytest` runs."""
    return {mark.name for mark in item.iter_markers()} & TIERS.keys()


def tier_of_file(path: Path) -> str | None:
    """The tier of all tests of a file, where its name or its folder tells it."""
    if path.name.endswith("_browser.py"):
        return "browser"
    if "llama_cpp" in path.parts:
        return "gguf"
    return "training" if "training" in path.parts else None


def named(config: pytest.Config) -> bool:
    """Whether the command line names files or single tests: these run, whatever their tier."""
    return bool(config.args) and all("::" in argument or argument.endswith(".py") for argument in config.args)


def chosen(config: pytest.Config) -> Callable[[set[str]], bool]:
    """Whether a test of these tiers runs."""
    asked = {tier for tier in TIERS if config.getoption(tier)}
    if config.getoption("all") or (not asked and (config.option.markexpr or named(config))):
        return lambda tiers: True
    if config.getoption("rest"):
        return lambda tiers: bool(tiers)
    return lambda tiers: bool(tiers & asked) if asked else not tiers


def lacking(tiers: Iterable[str]) -> dict[str, str]:
    """Of these tiers those that cannot run on this machine -> how to get what they need; under CI, none: there they
    fail."""
    needs = {"browser": no_browser, "node": no_node, "smollm2": no_smollm2, "gguf": no_llama_cpp}
    asked = {} if os.environ.get("CI") else {tier: needs[tier]() for tier in sorted({*tiers} & needs.keys())}
    return {tier: how for tier, how in asked.items() if how}


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
    """How to get llama.cpp's binding, where it is not installed."""
    there = importlib.util.find_spec("llama_cpp") is not None
    return "" if there else "no llama-cpp-python: pip install -e '.[test,llama-cpp]'"


def says(config: pytest.Config) -> str:
    """What was left out and how to get it, or nothing."""
    run = chosen(config)
    left = [tier for tier in TIERS if not run({tier})]
    return f"left out: {', '.join(left)} (`pytest --rest` runs them; tests/README.md)" if left else ""
