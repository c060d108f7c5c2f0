"""Which tests run. Plain `pytest` runs what needs the package alone; each other test belongs to one or more tiers, told
by its marks, and runs where one of them is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

TIERS = {
    "browser": "drives Chromium (set by the fixture `browser`)",
    "node": "runs the player's JavaScript under node (set by the fixture `js`)",
    "smollm2": "needs the weights of SmolLM2: decoding-explorer models --fetch smollm2",
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


def says(config: pytest.Config) -> str:
    """What was left out and how to get it, or nothing."""
    run = chosen(config)
    left = [tier for tier in TIERS if not run({tier})]
    return f"left out: {', '.join(left)} (`pytest --rest` runs them; tests/README.md)" if left else ""
