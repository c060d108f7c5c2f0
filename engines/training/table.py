"""The tables made of all cards: `assets/models/README.md`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engines.tasks import TASKS
from engines.training.architectures import attentions, encoder_decoder, ultramem
from engines.training.architectures.blockffn import compared
from engines.training.architectures.pldr import compared as operators
from engines.training.core.card import read_card
from engines.training.core.coding import HEAD, SECTION, stored_rows
from engines.training.core.commands import Command
from engines.training.smollm2.draft_card import draft_section
from engines.training.tiny.card import LARGEST, PER_SIZE, THRESHOLDS
from engines.training.tiny.recipes import RECIPES
from engines.training.tiny.tokenizer import FOLDER

INTRODUCTION = """# The embedded models

Written by `python -m engines.training table` from the cards beside the weights. All but the tiny reasoners share one
tokenizer (`tokenizer/`, byte-level BPE, 2,048 entries; ids 0-4 are `<pad>`, `<mask>`, `<eos>`, `<user>` and `<turn>`,
the end of a user's turn) and were trained here on the tasks of `engines/tasks` and on short stories that
SmolLM2-135M-Instruct wrote; the reasoners read single characters, see the last table. All are Apache-2.0. Exact match
is the share of held-out prompts whose whole answer passes the task's own check: how many prompts were tried per task is
in the first line; with 100 and 50 a figure is uncertain by up to 10 and 14 points. Where a task has sizes that the
models do not master, held-out prompts have the smaller ones (the table says which) and the next table shows every size.
"(many)" marks tasks with many right answers: who guesses each place by itself gets them wrong. A folder `NAME-filter`
holds the small filter of parallel decoding that was trained for NAME (`python -m engines.training filter NAME`); what
it accepts and how often that is right is in its card. A folder `NAME-accept-head` holds the head that says whether the
target NAME will keep what its drafter writes (`python -m engines.training accept-head NAME`); how well it knows is in
its card.
"""


def write_table(models: Path) -> None:
    """Write README.md beside the model folders, from what the cards say."""
    found = {path.parent.name: read_card(path.parent) for path in models.glob("*/card.json")}
    cards = [found[name] for name in RECIPES if name in found]
    names = [card["name"] for card in cards]
    lines = [INTRODUCTION, "## How they were made", ""]
    head = ["model", "kind", "parameters", "started from", "steps", "tokens", "minutes", "machine", "made again by"]
    trainings = {stage["name"]: (stage, card) for card in cards for stage in (*card["stages"], card)}
    lines += _table(head, [_made(*training) for training in trainings.values()])
    notes = [f"- {name}: {stage['note']}." for name, (stage, _) in trainings.items() if "note" in stage]
    lines += (
        ["", "A note on trainings that the command of today would not repeat exactly:", "", *notes] if notes else []
    )
    lines += [SECTION, "", *_table(HEAD, stored_rows(dict(sorted(found.items()))))]
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
        counted = (
            f"Of {sure['tokens_at_p_over_0.9']:,} tokens written at p > 0.9 (threshold 0.9, tasks with one "
            "right answer)"
        )
        lines += ["", f"{counted}, {sure['share']:.1%} were right."]
    for card in (c for c in cards if "entropy_rule" in c):
        lines += _before_and_after(card)
    causal = [c for c in cards if "loss" in c]
    if causal:
        lines += [
            "",
            f"## Causal models: loss (nats per token) and the share of positions where {LARGEST} ranks the same token "
            "first",
            "",
        ]
        agreement = f"top1_agreement_with_{LARGEST}"
        rows = [
            [
                c["name"],
                *(f"{c['loss'][k]:.3f}" for k in ("tasks", "stories")),
                *(_share(c[agreement][k]) for k in ("tasks", "stories")),
            ]
            for c in causal
        ]
        rows = [[*row[:3], "itself", "itself"] if row[0] == LARGEST else row for row in rows]
        lines += _table(
            ["model", "loss, tasks", "loss, stories", "same first token, tasks", "same first token, stories"], rows
        )
    lines += draft_section(models)
    lines += _architectures(found)
    lines += _reasoners([card for card in found.values() if "held_out_right" in card])
    (models / "README.md").write_text("\n".join(lines) + "\n")


def _architectures(found: dict[str, dict[str, Any]]) -> list[str]:
    """Twins of one architecture beside each other, with what is not to be read out of the figures."""
    lines: list[str] = []
    if mixtures := compared(found):
        told = (
            "Three routers on one corpus, held-out rows; a chunk is so many tokens in a row. What the losses did shows "
        )
        told += "only beside the loss, the reuse and the experts ever used: a collapsed router is sparse, too."
        lines += ["", "## Mixtures of experts", "", told, "", *_table(*mixtures)]
    if four := attentions.compared(found):
        told = "Four attentions with as many weights, to 0.2 %, on one corpus; marks of the weights as they are kept."
        lines += ["", "## Four attentions", "", told, "", *_table(*four)]
    if curve := operators(found):
        told = "tiny-pldr: how far G depends on the prompt, and what another G in its place costs, held-out prompts."
        lines += ["", "## An attention operator while it was trained", "", told, "", *_table(*curve)]
    if twins := ultramem.compared(found):
        told = (
            "One text and as many steps for both, and equal work for a token: what differs is the table. Known is the "
            "attribute that is the likeliest token where it must be given, of 500 people each; in brackets what one "
            "guess for all gets right."
        )
        lines += ["", "## A memory and its twin", "", told, "", *_table(*twins)]
    if pair := encoder_decoder.compared(found):
        told = "Equal weights, equal examples; held-out passages of 4 to 6 people, whole answers."
        lines += ["", "## An encoder-decoder and its decoder-only twin", "", told, "", *_table(*pair)]
    return lines


def _asked(task: str) -> str:
    """The task's name with what a reader must know of its marks."""
    low, high = TASKS[task].asked or (0, 0)
    span = f"{low}" if low == high else f"{low} to {high}"
    return (
        task
        + (" (many)" if TASKS[task].many else "")
        + (f", {span} of up to {TASKS[task].sizes[1]} {TASKS[task].size_meaning}" if high else "")
    )


def _sizes(cards: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for task in (task for task in TASKS if TASKS[task].asked):
        low, high = TASKS[task].sizes
        rows += [
            [
                f"{task}, {size} {TASKS[task].size_meaning}",
                *(f"{c['exact_match_by_size'][task][str(size)]:.0%}" for c in cards),
            ]
            for size in range(low, high + 1)
        ]
    return _table(["task and size", *(c["name"] for c in cards)], rows)


def _reasoners(cards: Sequence[dict[str, Any]]) -> list[str]:
    """The models that think aloud: how often they are right, and how that depends on their second looks."""
    looks = sorted({looks for card in cards for looks in card["held_out_right"]["by_second_looks"]})
    head = ["model", "parameters", "steps", "minutes", "greedy", "one sample"]
    rows = []
    for card in sorted(cards, key=lambda card: card["name"]):
        right = card["held_out_right"]
        by = [right["by_second_looks"].get(n) for n in looks]
        row = [card["name"], f"{card['parameters']:,}", card["steps"], card["minutes"], f"{right['greedy']:.0%}"]
        row += [f"{right['drawn_at_temperature_1']:.1%}", *("–" if b is None else f"{b['right']:.0%}" for b in by)]
        rows.append([*row, f"`{card['command']}`"])
    told = (
        "Synthetic overthinkers: their long traces are worse by construction. Right answers on "
        f"{cards[0]['held_out_questions']} held-out chains, greedily and drawn at temperature 1 (8 samples each), and "
        "of the samples by how often they look again:"
        if cards
        else ""
    )
    seen = [f"{n} second look{'' if n == '1' else 's'}{' or more' if n == looks[-1] else ''}" for n in looks]
    return ["", "## The tiny reasoners", "", told, "", *_table([*head, *seen, "made again by"], rows)] if cards else []


def _made(stage: dict[str, Any], card: dict[str, Any]) -> list[Any]:
    """A row of the first table: a training whose weights ship, or one on the way to it."""
    size = [card["kind"], f"{card['parameters']:,}"] if stage is card else ["", "does not ship"]
    tokens, start = f"{stage['tokens'] / 1e6:.1f} M", stage["init_from"] or "random"
    made = [stage["minutes"], stage["machine"], f"`{stage['command']}`"]
    return [stage["name"], *size, start, stage["steps"], tokens, *made]


def _before_and_after(card: dict[str, Any]) -> list[str]:
    """What a distillation changed: the entropy rule on the model that it started from and on itself, on the same
    prompts."""
    rule, base, block = card["entropy_rule"], card["init_from"], card["distillation"]["block_length"]
    told = (
        f"Means over the tasks, {rule['prompts_per_task']} held-out prompts each, blocks of {block}. Every model "
        "under the same threshold, on the same prompts:"
    )
    share = "forwards / one per forward"
    rows = [
        [
            *name.replace("base", base).replace("distilled", card["name"]).split(", "),
            f"{r['exact']:.1%}",
            r["forwards"],
            f"{r['of_one_per_forward']:.1%}",
        ]
        for name, r in rule["runs"].items()
    ]
    H = {name: found["mean_entropy"] for name, found in rule["first_forwards"].items()}
    after = (
        f"Mean entropy of the masks at the first forward of a block: {H['base']:.3f} nats before, "
        f"{H['distilled']:.3f} after, on the same boards."
    )
    table = _table(["writes H at most (nats)", "model", "exact match", "forwards", share], rows)
    return ["", f"## {card['name']}: the entropy rule before and after", "", told, "", *table, "", after]


def _share(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.1%}"


def _sweep(card: dict[str, Any], task: str) -> list[str]:
    by_threshold = card["thresholds"][task].values()
    return [
        task,
        f"{card['held_out_exact_match'][task]:.0%}",
        *(f"{m['exact']:.0%} / {m['forwards']:.1f}" for m in by_threshold),
    ]


def _table(head: list[str], rows: list[list[Any]]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (head, ["---"] * len(head), *rows)]


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--models", type=Path, default=FOLDER.parent, help="the folder with the model folders")


def _run(a: Namespace) -> None:
    write_table(a.models)
    print(a.models / "README.md")


def commands() -> dict[str, Command]:
    """Writes the tables again."""
    return {"table": Command("writes assets/models/README.md from the cards", str(__doc__), _options, _run)}
