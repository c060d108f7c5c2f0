"""For all tests: no network, no telemetry, few threads, and the mark of tests that need the real SmolLM2 weights."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before anything imports gradio, huggingface_hub or torch, here and in the processes that tests start.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["EXPLORER_STORE"] = tempfile.mkdtemp(prefix="explorer-store-")  # nobody's own runs are touched
os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # the models are tiny; threads that wait for a busy core cost far more than they help

import pytest

REQUIRED = "DECODING_EXPLORER_REQUIRE_SMOLLM2"  # set by .ci/run: there a missing model is a failure, not a skip


def smollm2_is_here() -> bool:
    """Whether the weights can be loaded without a network."""
    import engines

    return any(m.name == "smollm2" and m.where != "download" for m in engines.list_models())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        _place(item)
    marked = [item for item in items if item.get_closest_marker("smollm2")]
    if not marked or os.environ.get(REQUIRED) or smollm2_is_here():
        return
    skip = pytest.mark.skip(reason="the SmolLM2 weights are not installed: decoding-explorer models --fetch smollm2")
    for item in marked:
        item.add_marker(skip)


def _place(item: pytest.Item) -> None:
    """Marks that follow from what a test uses, and the worker that runs it (`pytest -n 2 --dist loadgroup`): the
    contract's runs are shared by the tests of one method, pages and browsers by the tests of one file."""
    if "browser" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.browser)
    if "training" in item.path.parts:
        item.add_marker(pytest.mark.training)
    called = getattr(item, "callspec", None)
    slug = called.params.get("slug") if called and "contract" in item.path.parts else None
    item.add_marker(pytest.mark.xdist_group(str(slug or item.path)))


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
    """One Chromium for all tests; CHROMIUM names another binary. Where there is none the tests skip, but fail under
    CI."""
    from playwright.sync_api import sync_playwright

    binary = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    if not Path(binary).exists():
        complain = pytest.fail if os.environ.get("CI") else pytest.skip
        complain(f"no browser at {binary}; install chromium, or name one in CHROMIUM.")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=binary, args=FLAGS.split())
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
