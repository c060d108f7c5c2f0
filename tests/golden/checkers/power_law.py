"""Golden cases of power-law graph attention: the layer with its own G, with a G that was kept and with the identity,
and the metric learner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engines.core.lazy import torch
from engines.core.verify import Case, checks, differ

from .cases import Given, Values, float64

PARTS = {"denseAs": "dense", "gluw": "w", "layernormA": "norm"}  # names of the published layer -> ours


@checks("plga")
def check(case: Case, _: Given, __: Path) -> str | None:
    """All that is expected of a layer or of a metric learner; a numeric deviation counts against the largest value."""
    given = {k: float64(v) for k, v in case["inputs"].items() if _numeric(v)}
    got = _layer(given) if case.get("kind") == "plga-layer" else _metric(given["q"], case["inputs"]["residual_units"])
    largest = max((float(torch.tensor(v).abs().max()) for v in case["expected"].values() if _numeric(v)), default=1.0)
    return differ("", got, case["expected"], 1e-6 * max(1.0, largest))


def _numeric(value: Any) -> bool:
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _layer(given: Given) -> Values:
    from engines.models.networks.pldr import attend, deduce, scores
    from engines.models.operators import identity

    q, k, v = given["q"], given["k"], given["v"]
    made = deduce(given["A"], given["W"], given["b"], given["power"], given["a"], given["ba"])
    output, kept = attend(q, made.G_LM, k, v), made.G_LM.clone()
    return {
        "A_LM": made.A_LM.tolist(),
        "G_LM": made.G_LM.tolist(),
        "scores_before_mask": scores(q, made.G_LM, k).tolist(),
        "output": output.tolist(),
        "output_with_G_cache_equals_output": bool(torch.equal(attend(q, kept, k, v), output)),
        "output_with_identity_G": attend(q, identity(made.G_LM), k, v).tolist(),
    }


def _metric(q: Any, units: list[dict[str, Any]]) -> Values:
    from engines.models.networks.pldr import Unit, density

    A = density(q)
    for published in units:
        state = {_ours(name): float64(value) for name, value in published.items()}
        dense = sum(name.endswith("w1.weight") for name in state)
        inner, d = state["dense.0.w1.weight"].shape
        unit = Unit(d, dense, inner).double()
        unit.load_state_dict(state)
        with torch.no_grad():
            A = unit(A)
    return {"density": (q.mT @ q).tolist(), "A": A.tolist()}


def _ours(name: str) -> str:
    for published, ours in PARTS.items():
        name = name.replace(published, ours)
    return name
