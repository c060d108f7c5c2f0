"""Golden cases of lexical units: how many tokens of a window are written, and how a text is marked."""

from __future__ import annotations

from typing import Any

from engines.methods.heads.lud import accepted, marked

from .cases import Given, Values, computes

TOLERANCE = 1e-6


@computes("lud", tolerance=TOLERANCE)
def lud(given: Given) -> Values:
    """The leading tokens above the line, or the units of a text."""
    if "beta" in given:
        got: dict[str, Any] = {"accepted": accepted(given["confidence"], given["beta"])}
    else:
        got = {"units": [list(unit) for unit in marked(given["prob"], given["alpha"])]}
    return got
