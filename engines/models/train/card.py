"""The card of a trained model, and the tables made of all cards (`assets/models/README.md`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM, T5ForConditionalGeneration

from engines.core.machine import trained_on
from engines.models.train.draft_card import draft_section
from engines.models.train.marks import held_out, loss_and_agreement, mark
from engines.models.train.networks import Network
from engines.models.train.recipes import RECIPES, Recipe
from engines.models.train.stories import prompt_of, read_stories
from engines.models.train.tokenizer import load_tokenizer
from engines.tasks import TASKS, Example

PROMPTS = {"causal": 100, "seq2seq": 100, "masked": 50, "block": 50}  # held-out prompts per task; masked models are marked at five thresholds too
PER_SIZE = 40  # held-out prompts of each size, for the tasks that are asked at some of their sizes only
THRESHOLDS = (0.99, 0.9, 0.7, 0.5, 0.0)  # 0: everything in one forward
LARGEST = "tiny-ar-l"  # the model that the smaller ones are compared with
DECODING = {
    "causal": "greedy",
    "seq2seq": "greedy",
    "masked": "one most-confident token per forward on a canvas of the task's longest answer, rounded up to 16",
    "block": "one most-confident token per forward inside the open block",
}


def training_facts(
    recipe: Recipe, steps: int, tokens: int, minutes: float, device: str, limit: str = "", legs: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """What is known when the training ends; `limit` is what its command had beside the name, `legs` what led to a start that does not ship."""
    stories = f" and {len(read_stories('train'))} stories written by SmolLM2-135M-Instruct" if "tell" in recipe.mixture else ""
    earlier = "; its earlier legs also learnt stories written by SmolLM2-135M-Instruct" if legs and not stories else ""
    return {
        "name": recipe.name,
        "kind": recipe.kind,
        "data": f"train split of engines/tasks (mixture in engines/models/train/recipes.py){stories}{earlier}",
        "seed": recipe.seed,
        "steps": steps,
        "tokens": tokens,
        "minutes": round(minutes, 1),
        "machine": trained_on(device),
        "init_from": recipe.init_from,
        "legs": list(legs),
        "licence": "Apache-2.0 (trained here, on synthetic data and on stories written by SmolLM2-135M-Instruct, which is Apache-2.0)",
        "command": f"python -m engines.models.train {recipe.name}{limit}",
    }


def legs_of(start: Path) -> list[dict[str, Any]]:
    """The trainings that led to weights which do not ship, the earliest first, from the facts kept beside them."""
    facts = json.loads((start / "card.json").read_text())
    return [*facts["legs"], {key: facts[key] for key in ("name", "init_from", "steps", "tokens", "minutes", "machine", "command", "note") if key in facts}]


def load_network(folder: Path, kind: str) -> Network:
    """The weights that ship, in float32."""
    return (T5ForConditionalGeneration if kind == "seq2seq" else LlamaForCausalLM).from_pretrained(folder, dtype=torch.float32).eval()


def write_card(folder: Path, facts: dict[str, Any]) -> None:
    """Mark the weights in `folder` on the held-out split and write card.json: the facts given and the marks."""
    recipe, tokenizer = RECIPES[facts["name"]], load_tokenizer()
    network = load_network(folder, recipe.kind)
    card = facts | {
        "parameters": sum(p.numel() for p in network.parameters()),
        "sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
        "decoding": DECODING[recipe.kind],
        "held_out_prompts": PROMPTS[recipe.kind],
        "held_out_exact_match": {task: mark(network, tokenizer, recipe, task, PROMPTS[recipe.kind]).exact for task in TASKS},
        "exact_match_by_size": {task: by_size(network, tokenizer, recipe, task) for task in TASKS if TASKS[task].asked},
    }
    if recipe.kind in ("masked", "block"):
        card |= _parallel(network, tokenizer, recipe)
    if recipe.kind == "causal":
        card |= _causal(network, tokenizer, recipe, folder.parent)
    (folder / "card.json").write_text(json.dumps(card, indent=1) + "\n")


def by_size(network: Network, tokenizer: Any, recipe: Recipe, task: str) -> dict[str, float]:
    """Exact match at every size of a task, also at those that held-out prompts leave out. Sizes with too few different prompts repeat some."""
    low, high = TASKS[task].sizes
    return {str(size): mark(network, tokenizer, recipe, task, PER_SIZE, size=size).exact for size in range(low, high + 1)}


def _parallel(network: Network, tokenizer: Any, recipe: Recipe) -> dict[str, Any]:
    """Exact match and forwards at every threshold, and how often a token committed at p > 0.9 was right (tasks with one right answer)."""
    marks = {task: {threshold: mark(network, tokenizer, recipe, task, PROMPTS[recipe.kind], threshold=threshold) for threshold in THRESHOLDS} for task in TASKS}
    unique = [task for task in TASKS if not TASKS[task].many]
    sure, right = (sum(getattr(marks[task][0.9], key) for task in unique) for key in ("sure", "sure_right"))
    return {
        "thresholds": {task: {str(t): {"exact": m.exact, "forwards": round(m.forwards, 2)} for t, m in row.items()} for task, row in marks.items()},
        "calibration": {"tokens_at_p_over_0.9": sure, "of_them_right": right, "share": round(right / max(1, sure), 4)},
    }


def _causal(network: Network, tokenizer: Any, recipe: Recipe, models: Path) -> dict[str, Any]:
    """Loss on held-out tasks and stories, and how often the largest causal model ranks the same token first."""
    other = load_network(models / LARGEST, "causal") if (models / LARGEST / "model.safetensors").is_file() else None
    texts = {"tasks": [e for task in TASKS for e in held_out(task, PROMPTS[recipe.kind] // 2)]}
    if "tell" in recipe.mixture:
        texts["stories"] = [Example("tell", prompt_of(story), story["text"]) for story in read_stories("held-out")]
    found = {name: loss_and_agreement(network, other, tokenizer, examples) for name, examples in texts.items()}
    return {"loss": {name: loss for name, (loss, _) in found.items()}, f"top1_agreement_with_{LARGEST}": {name: same for name, (_, same) in found.items()}}


INTRODUCTION = """# The embedded models

Written by `python -m engines.models.train table` from the cards beside the weights. All share one tokenizer (`tokenizer/`, byte-level BPE, 2,048 entries;
ids 0-4 are `<pad>`, `<mask>`, `<eos>`, `<user>` and `<turn>`, the end of a user's turn), were trained here on the tasks of `engines/tasks` and on short
stories that SmolLM2-135M-Instruct wrote, and are Apache-2.0. Exact match is the share of held-out prompts whose whole answer passes the task's own check:
how many prompts were tried per task stands in the first line; with 100 and 50 a figure is uncertain by up to 10 and 14 points.
Where a task has sizes that the models do not master, held-out prompts have the smaller ones (the table says which) and the next table shows every size.
"(many)" marks tasks with many right answers: who guesses each place by itself gets them wrong. A folder `NAME-filter` holds the small filter of parallel
decoding that was trained for NAME (`python -m engines.models.train.filters NAME`); what it accepts and how often that is right stands in its card.
A folder `NAME-accept-head` holds the head that says whether the target NAME will keep what its drafter writes
(`python -m engines.models.train.accept_head NAME`); how well it knows stands in its card.
"""


def write_table(models: Path) -> None:
    """Write README.md beside the model folders, from what the cards say."""
    found = {path.parent.name: json.loads(path.read_text()) for path in models.glob("*/card.json")}
    cards = [found[name] for name in RECIPES if name in found]
    names = [card["name"] for card in cards]
    lines = [INTRODUCTION, "## How they were made", ""]
    head = ["model", "kind", "parameters", "started from", "steps", "tokens", "minutes", "machine", "made again by"]
    trainings = {leg["name"]: (leg, card) for card in cards for leg in (*card["legs"], card)}
    lines += _table(head, [_made(*training) for training in trainings.values()])
    notes = [f"- {name}: {leg['note']}." for name, (leg, _) in trainings.items() if "note" in leg]
    lines += ["", "A note on trainings that the command of today would not repeat exactly:", "", *notes] if notes else []
    lines += ["", "## Held-out exact match, one token per forward", ""]
    rows: list[list[Any]] = [["prompts per task", *(c["held_out_prompts"] for c in cards)]]
    rows += [[_asked(task), *(f"{c['held_out_exact_match'][task]:.0%}" for c in cards)] for task in TASKS]
    lines += _table(["task", *names], rows)
    lines += ["", f"## The same at every size, {PER_SIZE} prompts each", "", *_sizes(cards)]
    for card in (c for c in cards if "thresholds" in c):
        lines += ["", f"## {card['name']}: exact match / mean forwards by threshold", ""]
        head = ["task", "one per forward", *("all at once" if t == 0 else f"p > {t}" for t in THRESHOLDS)]
        lines += _table(head, [_sweep(card, task) for task in card["thresholds"]])
        sure = card["calibration"]
        counted = f"Of {sure['tokens_at_p_over_0.9']:,} tokens committed at p > 0.9 (threshold 0.9, tasks with one right answer)"
        lines += ["", f"{counted}, {sure['share']:.1%} were right."]
    for card in (c for c in cards if "entropy_rule" in c):
        lines += _before_and_after(card)
    causal = [c for c in cards if "loss" in c]
    if causal:
        lines += ["", f"## Causal models: loss (nats per token) and the share of positions where {LARGEST} ranks the same token first", ""]
        agreement = f"top1_agreement_with_{LARGEST}"
        rows = [[c["name"], *(f"{c['loss'][k]:.3f}" for k in ("tasks", "stories")), *(_share(c[agreement][k]) for k in ("tasks", "stories"))] for c in causal]
        rows = [[*row[:3], "itself", "itself"] if row[0] == LARGEST else row for row in rows]
        lines += _table(["model", "loss, tasks", "loss, stories", "same first token, tasks", "same first token, stories"], rows)
    lines += draft_section(models)
    (models / "README.md").write_text("\n".join(lines) + "\n")


def _asked(task: str) -> str:
    """The task's name with what a reader must know of its marks."""
    low, high = TASKS[task].asked or (0, 0)
    span = f"{low}" if low == high else f"{low} to {high}"
    return task + (" (many)" if TASKS[task].many else "") + (f", {span} of up to {TASKS[task].sizes[1]} {TASKS[task].size_meaning}" if high else "")


def _sizes(cards: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for task in (task for task in TASKS if TASKS[task].asked):
        low, high = TASKS[task].sizes
        rows += [
            [f"{task}, {size} {TASKS[task].size_meaning}", *(f"{c['exact_match_by_size'][task][str(size)]:.0%}" for c in cards)]
            for size in range(low, high + 1)
        ]
    return _table(["task and size", *(c["name"] for c in cards)], rows)


def _made(leg: dict[str, Any], card: dict[str, Any]) -> list[Any]:
    """A row of the first table: a training whose weights ship, or one on the way to it."""
    size = [card["kind"], f"{card['parameters']:,}"] if leg is card else ["", "does not ship"]
    tokens, start = f"{leg['tokens'] / 1e6:.1f} M", leg["init_from"] or "random"
    return [leg["name"], *size, start, leg["steps"], tokens, leg["minutes"], leg["machine"], f"`{leg['command']}`"]


def _before_and_after(card: dict[str, Any]) -> list[str]:
    """What a distillation changed: the entropy rule on the model that it started from and on itself, on the same prompts."""
    rule, base, block = card["entropy_rule"], card["init_from"], card["distillation"]["block_length"]
    told = f"Means over the tasks, {rule['prompts_per_task']} held-out prompts each, blocks of {block}. Every model under the same line, on the same prompts:"
    share = "forwards / one per forward"
    rows = [
        [*name.replace("base", base).replace("distilled", card["name"]).split(", "), f"{r['exact']:.1%}", r["forwards"], f"{r['of_one_per_forward']:.1%}"]
        for name, r in rule["runs"].items()
    ]
    H = {name: found["mean_entropy"] for name, found in rule["first_forwards"].items()}
    after = f"Mean entropy of the masks at the first forward of a block: {H['base']:.3f} nats before, {H['distilled']:.3f} after, on the same boards."
    table = _table(["commits H at most (nats)", "model", "exact match", "forwards", share], rows)
    return ["", f"## {card['name']}: the entropy rule before and after", "", told, "", *table, "", after]


def _share(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.1%}"


def _sweep(card: dict[str, Any], task: str) -> list[str]:
    by_threshold = card["thresholds"][task].values()
    return [task, f"{card['held_out_exact_match'][task]:.0%}", *(f"{m['exact']:.0%} / {m['forwards']:.1f}" for m in by_threshold)]


def _table(head: list[str], rows: list[list[Any]]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (head, ["---"] * len(head), *rows)]
