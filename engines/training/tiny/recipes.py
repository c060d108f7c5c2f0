"""What is trained and with which settings: one declared recipe per shipped model. `train.py` runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["causal", "masked", "block"]

# Share of each task among the training examples; "tell" are the stories that SmolLM2 wrote. The loss is a mean over
# tokens, so tasks with short answers need more examples than those with long ones: FIRST_MIXTURE brought sums and
# sudoku to 99-100 % while list edits stood at 53-71 %.
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
# What masked training had not learnt after its first 900 and 1,950 steps.
LONGER = MIXTURE | {"sort": 6.0, "add": 4.5, "subtract": 4.5, "problem": 4.5, "python": 1.5}
REASONING = LONGER | {
    **{"copy": 0.7, "reverse": 3.0, "insert": 2.5, "remove": 2.5, "replace": 3.0, "sentence": 2.5, "read": 4.0},
    **{"add": 5.0, "subtract": 5.0, "problem": 6.0, "latin": 3.0, "sudoku": 3.0, "python": 2.5, "story": 2.5},
}
# On-policy (`on_policy.py`): first what parallel commits lost most, sums whose columns shift by one place with every
# carry; then what lost by that, and at last most of all tasks with many right answers.
CARRIES = {task: share for task, share in REASONING.items() if task != "tell"} | {
    **{"add": 10.0, "subtract": 10.0, "problem": 8.0, "latin": 4.0, "sudoku": 5.0, "insert any": 2.0}
}
REST = {
    **{"copy": 1.0, "reverse": 3.0, "sort": 4.5, "shuffle": 5.0, "insert": 3.0, "remove": 2.5, "replace": 3.5},
    **{"insert any": 4.5, "remove any": 2.0, "replace any": 6.0},
    **{"add": 5.0, "subtract": 5.0, "problem": 6.0, "latin": 4.0, "sudoku": 3.5},
    **{"sentence": 2.5, "spell": 3.5, "grammar": 1.5, "read": 4.0, "python": 2.5, "story": 2.5},
}
MANY = {
    **{"copy": 2.0, "reverse": 2.5, "sort": 4.0, "shuffle": 6.0, "insert": 2.5, "remove": 3.0, "replace": 3.5},
    **{"insert any": 6.0, "remove any": 2.0, "replace any": 8.0},
    **{"add": 4.0, "subtract": 4.5, "problem": 4.0, "latin": 5.0, "sudoku": 3.0},
    **{"sentence": 3.5, "spell": 4.0, "grammar": 1.5, "read": 3.0, "python": 2.0, "story": 2.5},
}
# What the four on-policy stages had lost or not brought back: stories, on canvases that are one block above all, sums
# and Latin squares.
WHOLE = MANY | {
    "add": 5.0,
    "subtract": 5.0,
    "problem": 5.0,
    "latin": 6.0,
    "story": 6.0,
    "tell": 2.5,
    "copy": 1.0,
    "read": 3.5,
    "sentence": 4.0,
}
# What the large causal model still got wrong after 2,005 steps: questions about passages (58 %) and tasks with many
# right answers.
LOOKING_UP = MIXTURE | {
    "read": 12.0,
    "shuffle": 3.0,
    "replace any": 4.0,
    "latin": 4.0,
    "spell": 4.0,
    "story": 3.0,
    "problem": 1.5,
    "python": 0.7,
}


@dataclass(frozen=True)
class Recipe:
    """One model: its size and its optimisation. `init_from` names the recipe whose weights it starts from; one that
    does not ship is only such a start.

    learning_rate is that of AdamW; Muon's is scaled to the same update size. batch: tokens per step, padding included.
    order: the name under which examples are drawn, so that a stage which was trained before it was renamed sees its
    examples in the same order again.
    block: positions per block of a block-diffusion model, or of a distillation's active block.
    Of a masked model, causal: share of the batches that are plain next-token rows under a causal mask. Every answer
    token has its whole prefix there, so carries and chains of reasoning, which masked rows rarely show in full, are
    kept or relearnt. near: how many masked positions behind the clean prefix of a semi-autoregressive row take the loss
    (0: all); those far behind cannot be known yet and drown the gradient of those that can.
    on_policy: share of the steps that learn states which its own decoding leaves behind (`on_policy.py`), of a masked
    model.
    start_share: of the start in the mean of start and result; calibrated: whether that gets a temperature
    (`finish.py`).
    distilled: whether it is made from `init_from` by `dparallel.py`.
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
    ships: bool = True
    order: str = ""
    causal: float = 0.0
    near: int = 0
    on_policy: float = 0.0
    start_share: float = 0.0
    calibrated: bool = False
    distilled: bool = False
    mixture: dict[str, float] = field(default_factory=lambda: dict(MIXTURE))

    @property
    def drawn(self) -> str:
        """What its examples are drawn under: two recipes of one mixture and one such name see the same ones in the same
        order."""
        return f"{self.order or self.name}/{self.seed}"


_L: dict[str, Any] = {"hidden": 256, "layers": 6, "heads": 4, "mlp": 768}
_W: dict[str, Any] = _L | {"learning_rate": 8e-4, "warmup": 50, "causal": 0.34, "near": 8, "on_policy": 0.75}
RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("tiny-ar-s", "causal", hidden=64, layers=3, heads=2, mlp=192, steps=2600, learning_rate=4e-3),
        Recipe("tiny-ar-m", "causal", hidden=128, layers=6, heads=4, mlp=384, steps=3000, learning_rate=3e-3),
        Recipe(
            "tiny-ar-l-first",
            "causal",
            **_L,
            steps=1700,
            batch=6144,
            learning_rate=2.5e-3,
            mixture=FIRST_MIXTURE,
            ships=False,
            order="tiny-ar-l",
        ),
        Recipe(
            "tiny-ar-l-second",
            "causal",
            **_L,
            steps=560,
            batch=6144,
            learning_rate=2e-3,
            init_from="tiny-ar-l-first",
            ships=False,
            order="tiny-ar-l",
        ),
        Recipe(
            "tiny-ar-l",
            "causal",
            **_L,
            steps=600,
            batch=6144,
            learning_rate=2e-3,
            init_from="tiny-ar-l-second",
            mixture=LOOKING_UP,
        ),
        Recipe(
            "tiny-dlm-first",
            "masked",
            **_L,
            steps=900,
            learning_rate=1.5e-3,
            init_from="tiny-ar-l-second",
            ships=False,
            order="tiny-dlm",
        ),
        Recipe(
            "tiny-dlm-second",
            "masked",
            **_L,
            steps=1050,
            learning_rate=1.2e-3,
            init_from="tiny-dlm-first",
            mixture=LONGER,
            ships=False,
            order="tiny-dlm",
        ),
        Recipe(
            "tiny-dlm-third",
            "masked",
            **_L,
            steps=2600,
            learning_rate=1.5e-3,
            init_from="tiny-dlm-second",
            mixture=REASONING,
            ships=False,
            order="tiny-dlm",
        ),
        Recipe(
            "tiny-dlm-fourth",
            "masked",
            **_L,
            steps=2000,
            learning_rate=1.5e-3,
            init_from="tiny-dlm-third",
            mixture=REASONING,
            causal=0.34,
            near=8,
            ships=False,
            order="tiny-dlm",
        ),
        Recipe("tiny-dlm-fifth", "masked", **_W, steps=950, init_from="tiny-dlm-fourth", mixture=CARRIES, ships=False),
        Recipe("tiny-dlm-sixth", "masked", **_W, steps=2050, init_from="tiny-dlm-fifth", mixture=REST, ships=False),
        Recipe("tiny-dlm-seventh", "masked", **_W, steps=1150, init_from="tiny-dlm-sixth", mixture=MANY, ships=False),
        Recipe(
            "tiny-dlm-eighth",
            "masked",
            **_W,
            steps=1500,
            init_from="tiny-dlm-seventh",
            mixture=MANY,
            ships=False,
            order="tiny-dlm-walked",
        ),
        Recipe(
            "tiny-dlm",
            "masked",
            **_W,
            steps=1700,
            init_from="tiny-dlm-eighth",
            mixture=WHOLE,
            order="tiny-dlm-ninth",
            start_share=0.3,
            calibrated=True,
        ),
        Recipe(
            "tiny-dlm-dparallel",
            "masked",
            **_L,
            steps=1500,
            batch=1536,
            learning_rate=1e-4,
            warmup=50,
            init_from="tiny-dlm",
            start_share=0.75,
            distilled=True,
            mixture=REASONING,
        ),
        Recipe(
            "tiny-blockdlm", "block", **_L, steps=600, batch=8192, learning_rate=1.5e-3, init_from="tiny-ar-l-second"
        ),
    )
}
