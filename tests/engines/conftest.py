"""Shared by the engine tests: the shipped tiny models, loaded once, and the golden data."""

from pathlib import Path

import pytest

import engines

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture(scope="session")
def dlm():
    return engines.load_model("tiny-dlm", dtype="float32")


@pytest.fixture(scope="session")
def ar():
    return engines.load_model("tiny-ar-m", dtype="float32")
