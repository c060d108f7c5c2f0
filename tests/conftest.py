"""For all tests: which of them run (`tiers.py`), no network, no telemetry, few threads, and the browser."""

import os
import shutil
import tempfile
from collections.abc import Iterator
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

from tests import ledger, repeats
from tests.tiers import MARKS, browser_binary, chosen, lacking, mark_of_file, marks_of, named, no_browser, says

LACKING = pytest.StashKey[dict[str, str]]()
SERVERS = {"address", "shipped", "public_address", "llama", "drafting", "transformers"}  # fixtures


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gate", action="store_true", help="what must hold for every change beside plain `pytest`")


def pytest_configure(config: pytest.Config) -> None:
    server = {"server": "asks a server that runs beside it (set by its fixtures)"}
    for mark, what in (MARKS | server).items():
        config.addinivalue_line("markers", f"{mark}: {what}")
    if os.environ.get("TESTS_LEDGER"):
        config.pluginmanager.register(ledger, "ledger")
    repeats.pytest_configure(config)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """A named file or test is not worth the start of further processes."""
    return 0 if named(config) else None


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(STORE, ignore_errors=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of one mark are not even imported where it does not run."""
    mark = mark_of_file(collection_path)
    return True if mark and not chosen(config)({mark}) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = {*getattr(item, "fixturenames", ())}
        if "browser" in fixtures:
            item.add_marker(pytest.mark.browser)
        if "js" in fixtures:
            item.add_marker(pytest.mark.node)
        if fixtures & SERVERS:
            item.add_marker(pytest.mark.server)
        if mark := mark_of_file(item.path):
            item.add_marker(mark)
    wanted = chosen(config)
    config.stash[LACKING] = lacking({mark for item in items for mark in marks_of(item) if wanted(marks_of(item))})
    kept, left = [], []
    for item in items:
        marks = marks_of(item)
        (kept if wanted(marks) and not marks & config.stash[LACKING].keys() else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if text := says(config):
        terminalreporter.write_line(text)
    run = chosen(config)  # where workers run the tests, this process has collected none
    for mark, how in config.stash.get(LACKING, lacking(mark for mark in MARKS if run({mark}))).items():
        terminalreporter.write_line(f"left out: {mark}, {how}")


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
