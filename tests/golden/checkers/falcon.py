"""Golden cases of Falcon's relaxed causal mask."""

from __future__ import annotations

from .cases import Given, Values, computes


@computes("falcon_mask", tolerance=0.0)
def falcon_mask(given: Given) -> Values:
    """How many leading positions each row sees."""
    from engines.models.networks.falcon_layer import visible  # it needs torch

    return {"visible": visible(given["n"], given["k"], given["past"])}
