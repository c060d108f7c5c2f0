"""For all tests: which of them run (`tiers.py`), no network, no telemetry, few threads, and the browser."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

# Before anything imports gradio, huggingface_hub or torch, here and in the processes that tests start.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
STORE = os.environ["EXPLORER_STORE"] = tempfile.mkdtemp(prefix="explorer-store-")  # nobody's own runs are touched
os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # the models are tiny; threads that wait for a busy core cost far more than they help

import pytest

from tests.alone import Turns
from tests.tiers import TIERS, browser_binary, chosen, lacking, named, no_browser, says, tier_of_file, tiers_of

LACKING = pytest.StashKey[dict[str, str]]()
TURNS = pytest.StashKey[Turns]()
FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers", "which tests run; without any of these, those that need the package alone")
    group.addoption("--all", action="store_true", help="every test")
    group.addoption("--rest", action="store_true", help="every test that plain `pytest` leaves out")
    for tier, what in TIERS.items():
        group.addoption(f"--{tier}", action="store_true", help=f"those marked {tier}: {what}")


def pytest_configure(config: pytest.Config) -> None:
    for tier, what in TIERS.items():
        config.addinivalue_line("markers", f"{tier}: {what}")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """A named file or test is not worth the start of further processes."""
    return 0 if named(config) else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Each worker is told the folder in which they take turns; the process that starts them made it."""
    config = node.config
    if FOLDER not in config.stash:
        config.stash[FOLDER] = tempfile.TemporaryDirectory(prefix="turns-")
    node.workerinput["turns"] = config.stash[FOLDER].name


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(STORE, ignore_errors=True)
    if folder := config.stash.get(FOLDER, None):
        folder.cleanup()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of one tier are not even imported where it does not run."""
    tier = tier_of_file(collection_path)
    return True if tier and not chosen(config)({tier}) and not any(map(config.getoption, TIERS)) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
        if "js" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.node)
        if tier := tier_of_file(item.path):
            item.add_marker(tier)
    wanted = chosen(config)
    config.stash[LACKING] = lacking({tier for item in items for tier in tiers_of(item) if wanted(tiers_of(item))})
    kept, left = [], []
    for item in items:
        tiers = tiers_of(item)
        (kept if wanted(tiers) and not tiers & config.stash[LACKING].keys() else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept
    worker = getattr(config, "workerinput", None)
    if worker and any(item.get_closest_marker("timing") for item in items):
        config.stash[TURNS] = Turns(Path(worker["turns"]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    turns = item.config.stash.get(TURNS, None)
    turn = (turns.alone if item.get_closest_marker("timing") else turns.together)() if turns else nullcontext()
    with turn:
        return (yield)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if text := says(config):
        terminalreporter.write_line(text)
    run = chosen(config)  # where workers run the tests, this process has collected none
    for tier, how in config.stash.get(LACKING, lacking(tier for tier in TIERS if run({tier}))).items():
        terminalreporter.write_line(f"left out: {tier}, {how}")


FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)


@pytest.fixture(scope="session", autouse=True)
def finished_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Sweeps keep their finished runs in a folder of the tests, not of the person who runs them."""
    before = os.environ.get("EXPLORER_SWEEPS")
    os.environ["EXPLORER_SWEEPS"] = str(tmp_path_factory.mktemp("sweeps"))
    yield
    os.environ.pop("EXPLORER_SWEEPS")
    if before is not None:
        os.environ["EXPLORER_SWEEPS"] = before


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all tests; CHROMIUM names another binary."""
    from playwright.sync_api import sync_playwright

    if missing := no_browser():  # under CI; elsewhere these tests are left out
        pytest.fail(missing)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser_binary(), args=FLAGS.split())
        yield chromium
        chromium.close()


@pytest.fixture
def registry_unchanged() -> Iterator[None]:
    """Methods that a test loads from files of its own are forgotten afterwards."""
    from engines.core.registry import registry

    before = dict(registry().methods)
    yield
    registry().methods.clear()
    registry().methods.update(before)
