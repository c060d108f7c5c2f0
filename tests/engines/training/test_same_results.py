"""Every recipe gives the losses that it gave before all of them ran through one loop (commit d4bf00e: seeded, one
thread, a few steps), and goes on from a checkpoint as if it had not stopped.

On the machine of the recording they are equal to the last bit; here other processors' bfloat16 has some room."""

from pathlib import Path
from typing import Any

import pytest
import torch

from engines.training.core.loop import Until
from engines.training.heads import accept_head
from engines.training.heads.accept_marks import Records as Drafted
from engines.training.smollm2 import draft_data, draft_loop
from engines.training.tiny.networks import build
from engines.training.tiny.recipes import Recipe
from engines.training.tiny.train import RecipeTraining
from tests.engines import micro
from tests.engines.training.running import goes_on, losses_of, tiny

ON_POLICY: dict[str, Any] = {"kind": "masked", "on_policy": 0.75, "causal": 0.34, "near": 8, "steps": 12}
RECORDED = {
    "causal": [7.6432, 7.6519, 7.6068, 7.6117, 7.573, 7.5655],
    "masked": [7.5204, 7.4561, 7.4841, 7.2692, 7.2274, 7.2516],
    "block": [7.6069, 7.5791, 7.4606, 7.4269, 7.3946, 7.3602],
    "on policy": [7.5182, 7.6092, 7.543, 7.3947, 7.5433, 7.3426, 7.2779, 7.2353, 7.2639, 7.1524, 7.2525, 7.1437],
}


def recipe_of(case: str) -> Recipe:
    """The recipe of a recorded case."""
    more = ON_POLICY if case == "on policy" else {"kind": case, "steps": 6}
    return tiny("tiny-ar-s", mixture={"copy": 1.0, "add": 1.0}, **more)


@pytest.mark.parametrize("case", RECORDED)
def test_recipes_of_the_tiny_models(case: str, tokenizer: Any, tmp_path: Path) -> None:
    """Boards under way, their random state and their place in the pools are kept too."""
    recipe = recipe_of(case)

    def begun() -> RecipeTraining:
        return RecipeTraining(recipe, build(recipe, tokenizer), tokenizer, "cpu", "again")

    assert losses_of(begun(), Until(recipe.steps)) == pytest.approx(RECORDED[case], abs=0.01)
    goes_on(begun, recipe.steps, 5, tmp_path / "a.pt")


def test_the_acceptance_head_and_its_going_on(tmp_path: Path) -> None:
    g = torch.Generator().manual_seed(1)
    train, validation = (
        Drafted(torch.randn(n, 12, generator=g), torch.rand(n, generator=g), torch.rand(n, generator=g))
        for n in (600, 80)
    )
    settings: dict[str, Any] = {"layers": 2, "shared": False, "weight": 6.0, "seed": 3}
    _, facts = accept_head.fit(train, validation, epochs=3, **settings)
    assert (facts["epoch"], facts["train_loss"], facts["validation_loss"]) == pytest.approx((3, 0.76324, 0.72646))

    def begun() -> Any:
        training = accept_head.HeadTraining(train, validation, *settings.values(), "head")  # type: ignore[arg-type]
        training.settings = training.command = "same"
        return training

    straight, later = goes_on(begun, 9, 5, tmp_path / "head.pt")  # stopped in the middle of an epoch
    assert later.facts == straight.facts and all(torch.equal(later.best[k], straight.best[k]) for k in straight.best)


DRAFT = draft_loop.Settings(
    layers=(0, 2), vocabulary=48, learning_rate=0.02, warmup=1, rows=4, probe_every=2, probe_tokens=20,
    stages=(("PT", 0.3), ("CP", 0.3), ("FT", 0.4)),
)  # fmt: skip


@pytest.mark.training
def test_the_draft_of_smollm2_and_its_going_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: Any) -> None:
    """Ten steps over all three stages; stopped in the second one, it goes on with the texts of that stage."""
    target = micro.llama(3, seed=3, initializer_range=0.4).eval().requires_grad_(False)
    target.set_attn_implementation("grouped")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(draft_data, "load_target", lambda: (target, tokenizer))
    monkeypatch.setattr(draft_loop, "is_held_out", lambda prompt: sum(map(ord, prompt)) % 3 == 0)
    for name, value in {"NEW_TOKENS": 6, "PROMPTS_PER_BATCH": 12, "POOL": 1, "LONGEST_PROMPT": 400}.items():
        monkeypatch.setattr(draft_data, name, value)
    draft_data.generate(0.0, 0)
    answers = draft_data.read_answers()

    def begun() -> draft_loop.Training:
        training = draft_loop.Training(target, tokenizer, answers, DRAFT)
        training._note("start", 0.0)
        return training

    recorded = [4.3337, 3.8075, 3.6301, 3.1241, 3.2308, 2.7285, 1.1137, 0.9002, 1.1645, 1.0385]
    assert losses_of(begun(), Until(10)) == pytest.approx(recorded, abs=0.02)
    whole, later = goes_on(begun, 10, 5, tmp_path / "draft.pt")
    assert later.curve == whole.curve
