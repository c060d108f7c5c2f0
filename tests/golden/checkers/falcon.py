"""Golden cases of Falcon's relaxed causal mask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.verify import Case, checks, differ


@checks("falcon_mask")
def falcon_mask(case: Case, _: Mapping[str, Any], __: Path) -> str | None:
    """How many leading positions each row sees."""
    from engines.models.networks.falcon_layer import visible  # it needs torch

    given = case["in"]
    return differ("", {"visible": visible(given["n"], given["k"], given["past"])}, case["out"], 0.0)
