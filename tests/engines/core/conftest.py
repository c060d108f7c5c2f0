"""Shared by the tests of the registry: a family of methods of its own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import engines.methods
from engines.core import registry
from engines.core.extra import VARIABLE


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A family folder of its own, walked as if it stood in the package."""
    folder = tmp_path / "strange"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.delenv(VARIABLE, raising=False)  # a person's own methods are not among these
    monkeypatch.setattr(registry, "METHODS", tmp_path)
    monkeypatch.setattr(engines.methods, "__path__", [*engines.methods.__path__, str(tmp_path)])
    yield folder
    for name in [name for name in sys.modules if name.startswith("engines.methods.strange")]:
        del sys.modules[name]
    if hasattr(engines.methods, "strange"):
        del engines.methods.strange
