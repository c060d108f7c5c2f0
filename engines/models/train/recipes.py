"""What is trained and with which settings: one declared recipe per shipped model. The loop that runs them is `loop.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Recipe:
    """One model: its size, its data mixture and its optimisation. `init_from` names the recipe whose weights it starts from."""

    name: str
    kind: Literal["causal", "masked"]
    hidden: int
    layers: int
    heads: int
    mlp: int
    steps: int
    learning_rate: float
    batch: int = 96
    warmup: int = 100
    seed: int = 0
    init_from: str | None = None
    canvas: tuple[int, int] = (36, 64)  # masked: EOS-padded answer length, drawn per batch, short ones more often
    mixture: dict[str, float] = field(default_factory=lambda: {"copy": 1.0, "reverse": 1.5, "sort": 3.0, "shuffle": 0.7, "add": 4.0})


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("tiny-ar-xs", "causal", hidden=32, layers=2, heads=2, mlp=96, steps=2500, learning_rate=4e-3),
        Recipe("tiny-ar-s", "causal", hidden=64, layers=3, heads=2, mlp=192, steps=4000, learning_rate=3e-3),
        Recipe("tiny-ar-m", "causal", hidden=128, layers=4, heads=4, mlp=512, steps=3800, learning_rate=2e-3),
        Recipe("tiny-dlm", "masked", hidden=128, layers=4, heads=4, mlp=512, steps=3500, learning_rate=1e-3, batch=64, init_from="tiny-ar-m"),
    )
}
