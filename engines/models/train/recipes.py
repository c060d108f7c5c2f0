"""What is trained and with which settings: one declared recipe per shipped model. The loop that runs them is `loop.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["causal", "masked", "block", "encdec"]

# Share of each task among the training examples; "tell" are the stories that SmolLM2 wrote. The loss is a mean over tokens, so tasks with short
# answers need more examples than those with long ones: with FIRST_MIXTURE sums and puzzles were at 100 % while edits of lists stood at 60 %.
FIRST_MIXTURE = {
    **{"copy": 1.0, "reverse": 1.5, "sort": 3.0, "shuffle": 1.0, "insert": 1.5, "remove": 1.5, "replace": 1.0},
    **{"insert any": 0.7, "remove any": 0.7, "replace any": 0.7},
    **{"add": 3.0, "subtract": 3.0, "problem": 4.0, "latin": 1.5, "sudoku": 3.5},
    **{"sentence": 1.0, "spell": 1.5, "grammar": 1.0, "read": 2.0, "python": 1.5, "story": 0.8, "tell": 1.0},
}
MIXTURE = {
    **{"copy": 1.5, "reverse": 4.0, "sort": 4.0, "shuffle": 2.0, "insert": 4.0, "remove": 3.5, "replace": 4.0},
    **{"insert any": 1.5, "remove any": 1.5, "replace any": 2.0},
    **{"add": 2.0, "subtract": 2.0, "problem": 2.0, "latin": 2.0, "sudoku": 2.0},
    **{"sentence": 4.0, "spell": 3.0, "grammar": 1.0, "read": 5.0, "python": 1.0, "story": 1.5, "tell": 1.0},
}
LONGER = MIXTURE | {"sort": 6.0, "add": 4.5, "subtract": 4.5, "problem": 4.5, "python": 1.5}  # what masked training is slowest to learn


@dataclass(frozen=True)
class Recipe:
    """One model: its size and its optimisation. `init_from` names the recipe whose weights it starts from; one that does not ship is only such a start.

    learning_rate is that of AdamW; Muon's is scaled to the same update size. batch: tokens per step, padding included.
    block: positions per block of a block-diffusion model. decoder: layers of the decoder of an encoder-decoder.
    """

    name: str
    kind: Kind
    hidden: int
    layers: int
    heads: int
    mlp: int
    steps: int
    learning_rate: float = 2e-3
    batch: int = 4096
    warmup: int = 100
    seed: int = 0
    init_from: str | None = None
    block: int = 16
    decoder: int = 0
    ships: bool = True
    mixture: dict[str, float] = field(default_factory=lambda: dict(MIXTURE))


_L = {"hidden": 256, "layers": 6, "heads": 4, "mlp": 768}
RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("tiny-ar-s", "causal", hidden=64, layers=3, heads=2, mlp=192, steps=2600, learning_rate=4e-3),
        Recipe("tiny-ar-m", "causal", hidden=128, layers=6, heads=4, mlp=384, steps=900, learning_rate=3e-3),
        Recipe("tiny-ar-l-first", "causal", **_L, steps=1700, batch=6144, learning_rate=2.5e-3, mixture=FIRST_MIXTURE, ships=False),
        Recipe("tiny-ar-l", "causal", **_L, steps=560, batch=6144, learning_rate=2e-3, init_from="tiny-ar-l-first"),
        Recipe("tiny-dlm-first", "masked", **_L, steps=900, learning_rate=1.5e-3, init_from="tiny-ar-l", ships=False),
        Recipe("tiny-dlm", "masked", **_L, steps=1050, learning_rate=1.2e-3, init_from="tiny-dlm-first", mixture=LONGER),
        Recipe("tiny-blockdlm", "block", **_L, steps=600, batch=8192, learning_rate=1.5e-3, init_from="tiny-ar-l"),
        Recipe("tiny-encdec", "encdec", hidden=256, layers=5, heads=4, mlp=640, decoder=3, steps=800, learning_rate=2.5e-3),
    )
}
