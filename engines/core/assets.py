"""Where the program's own data lies."""

from __future__ import annotations

import os
from pathlib import Path

ASSETS = Path(__file__).resolve().parents[2] / "assets"
VARIABLE = "DECODING_EXPLORER_ASSETS"  # names another folder of models, parts, stores and tasks


def assets() -> Path:
    """The folder of models, parts, stores and tasks."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else ASSETS
