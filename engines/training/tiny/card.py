"""The card of a trained tiny model: the facts of its training and its marks on the held-out split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engines.core.machine import trained_on
from engines.tasks import TASKS, Example
from engines.training.core.card import write_card
from engines.training.core.loop import Progress
from engines.training.tiny.marks import held_out, loss_and_agreement, mark
from engines.training.tiny.networks import Network, load_network
from engines.training.tiny.recipes import RECIPES, Recipe
from engines.training.tiny.stories import prompt_of, read_stories
from engines.training.tiny.tokenizer import load_tokenizer

PROMPTS = {
    "causal": 100,
    "masked": 50,
    "block": 50,
}  # held-out prompts per task; masked models are marked at five thresholds too
PER_SIZE = 40  # held-out prompts of each size, for the tasks that are asked at some of their sizes only
THRESHOLDS = (0.99, 0.9, 0.7, 0.5, 0.0)  # 0: everything in one forward
LARGEST = "tiny-ar-l"  # the model that the smaller ones are compared with
DECODING = {
    "causal": "greedy",
    "masked": "one most-confident token per forward on a canvas of the task's longest answer, rounded up to 16",
    "block": "one most-confident token per forward inside the open block",
}


def training_facts(
    recipe: Recipe, progress: Progress, device: str, command: str, stages: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """What is known when the training ends; `stages`: what led to a start that does not ship."""
    stories = (
        f" and {len(read_stories('train'))} stories written by SmolLM2-135M-Instruct"
        if "tell" in recipe.mixture
        else ""
    )
    learnt = "; its earlier stages also learnt stories written by SmolLM2-135M-Instruct"
    return {
        "name": recipe.name,
        "kind": recipe.kind,
        "data": "train split of engines/tasks (mixture in engines/training/tiny/recipes.py)"
        + (stories or (learnt if stages else "")),
        "seed": recipe.seed,
        "steps": progress.step,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 1),
        "machine": trained_on(device),
        "init_from": recipe.init_from,
        "stages": list(stages),
        "licence": "Apache-2.0 (trained here, on synthetic data and on stories written by SmolLM2-135M-Instruct, "
        "which is Apache-2.0)",
        "command": command,
    }


def write_marks(folder: Path, facts: dict[str, Any]) -> None:
    """Mark the weights in `folder` on the held-out split and write the card: the facts given and the marks."""
    recipe, tokenizer = RECIPES[facts["name"]], load_tokenizer()
    network = load_network(folder)
    card = facts | {
        "parameters": sum(p.numel() for p in network.parameters()),
        "decoding": DECODING[recipe.kind],
        "held_out_prompts": PROMPTS[recipe.kind],
        "held_out_exact_match": {
            task: mark(network, tokenizer, recipe, task, PROMPTS[recipe.kind]).exact for task in TASKS
        },
        "exact_match_by_size": {task: by_size(network, tokenizer, recipe, task) for task in TASKS if TASKS[task].asked},
    }
    if recipe.kind in ("masked", "block"):
        card |= _parallel(network, tokenizer, recipe)
    if recipe.kind == "causal":
        card |= _causal(network, tokenizer, recipe, folder.parent)
    write_card(folder, card)


def by_size(network: Network, tokenizer: Any, recipe: Recipe, task: str) -> dict[str, float]:
    """Exact match at every size of a task, also at those that held-out prompts leave out. Sizes with too few different
    prompts repeat some."""
    low, high = TASKS[task].sizes
    return {
        str(size): mark(network, tokenizer, recipe, task, PER_SIZE, size=size).exact for size in range(low, high + 1)
    }


def _parallel(network: Network, tokenizer: Any, recipe: Recipe) -> dict[str, Any]:
    """Exact match and forwards at every threshold, and how often a token committed at p > 0.9 was right (tasks with one
    right answer)."""
    marks = {
        task: {
            threshold: mark(network, tokenizer, recipe, task, PROMPTS[recipe.kind], threshold=threshold)
            for threshold in THRESHOLDS
        }
        for task in TASKS
    }
    unique = [task for task in TASKS if not TASKS[task].many]
    sure, right = (sum(getattr(marks[task][0.9], key) for task in unique) for key in ("sure", "sure_right"))
    return {
        "thresholds": {
            task: {str(t): {"exact": m.exact, "forwards": round(m.forwards, 2)} for t, m in row.items()}
            for task, row in marks.items()
        },
        "calibration": {"tokens_at_p_over_0.9": sure, "of_them_right": right, "share": round(right / max(1, sure), 4)},
    }


def _causal(network: Network, tokenizer: Any, recipe: Recipe, models: Path) -> dict[str, Any]:
    """Loss on held-out tasks and stories, and how often the largest causal model ranks the same token first."""
    other = load_network(models / LARGEST) if (models / LARGEST / "model.safetensors").is_file() else None
    texts = {"tasks": [e for task in TASKS for e in held_out(task, PROMPTS[recipe.kind] // 2)]}
    if "tell" in recipe.mixture:
        texts["stories"] = [Example("tell", prompt_of(story), story["text"]) for story in read_stories("held-out")]
    found = {name: loss_and_agreement(network, other, tokenizer, examples) for name, examples in texts.items()}
    return {
        "loss": {name: loss for name, (loss, _) in found.items()},
        f"top1_agreement_with_{LARGEST}": {name: same for name, (_, same) in found.items()},
    }
