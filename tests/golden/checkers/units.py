"""Golden cases of lexical units: how many tokens of a window are written, and how a text is marked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.verify import Case, checks, differ
from engines.methods.heads.lud import accepted, marked

TOLERANCE = 1e-6


@checks("lud")
def lud(case: Case, _: Mapping[str, Any], __: Path) -> str | None:
    """The leading tokens above the line, or the units of a text."""
    given = case["in"]
    if "beta" in given:
        got: dict[str, Any] = {"accepted": accepted(given["confidence"], given["beta"])}
    else:
        got = {"units": [list(unit) for unit in marked(given["prob"], given["alpha"])]}
    return differ("", got, case["out"], TOLERANCE)
