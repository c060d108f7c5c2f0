"""What each part of the draft's training is worth (FastDraft, arXiv:2411.11055, its ablations): python -m
engines.training smollm2-draft-ablation --steps 300

Every variant trains a draft of its own for the same number of steps on the same answers (`draft data` writes them) and
is probed on the same held-out
answers, which none has seen: the share of positions where draft and target rank the same token first (greedy
acceptance), and 1 - TVD, the share that sampling accepts. Nothing is decoded, no weights are kept, and the checkpoint
of a training under way stays as it is. The table goes into the draft's card after every variant, so that one that is
interrupted keeps those that are done; --only runs or repeats single ones."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.models.files.smollm2 import DRAFT
from engines.training.core.card import read_card, write_card
from engines.training.core.commands import PROGRAM, Command, usual
from engines.training.smollm2.draft import MODELS, TASKS
from engines.training.smollm2.draft_data import load_target, read_answers
from engines.training.smollm2.draft_loop import Settings, Training
from engines.training.smollm2.draft_rows import is_held_out, usable
from engines.training.smollm2.draft_text import evaluation_prompts
from engines.training.table import write_table

NAME = "smollm2-draft-ablation"
COMMAND = f"{PROGRAM} {NAME}"
NEVER = 10**9  # steps between two probes: only where a stage ends, and no checkpoint is written
PROBED = 4000  # held-out tokens: a share of a third has a standard error of 0.7 points


@dataclass(frozen=True)
class Variant:
    """A training in which one part is other than in the first one. stages, soft, vocabulary: as in Settings; data:
    share of the answers."""

    name: str
    stages: tuple[tuple[str, float], ...] = Settings.stages
    soft: float = Settings.soft
    vocabulary: int = Settings.vocabulary
    data: float = 1.0
    random: bool = False

    def settings(self, base: Settings) -> Settings:
        """The base with this variant's part changed; a vocabulary is never larger than the base's."""
        vocabulary = min(self.vocabulary, base.vocabulary)
        return replace(base, stages=self.stages, soft=self.soft, vocabulary=vocabulary, probe_every=NEVER)


VARIANTS = (
    Variant("as shipped: PT, CP, FT"),
    Variant("without PT", stages=(("CP", 0.10), ("FT", 0.90))),
    Variant("without CP", stages=(("PT", 0.10), ("FT", 0.90))),
    Variant("FT alone", stages=(("FT", 1.0),)),
    Variant("text alone: PT, CP", stages=(("PT", 0.6), ("CP", 0.4))),
    Variant("FT on the answers alone, not on the distribution", soft=0.0),
    Variant("layers start at random", random=True),
    Variant("a quarter of the answers", data=0.25),
    Variant("2,048 tokens to propose", vocabulary=2048),
)


def fewer(answers: Sequence[dict[str, Any]], share: float) -> list[dict[str, Any]]:
    """Every held-out answer and the first part of the others, so that all variants are probed on the same."""
    kept = [a for a in answers if not is_held_out(a["prompt"])]
    last = kept[max(1, math.ceil(share * len(kept))) - 1]
    cut = next(i for i, a in enumerate(answers) if a is last)
    return [a for i, a in enumerate(answers) if i <= cut or is_held_out(a["prompt"])]


def start_at_random(network: Any, seed: int) -> None:
    """Matrices of the draft's own layers drawn anew, norms at 1; the final norm keeps its start."""
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in network.model.layers.parameters():
            if weight.ndim > 1:
                weight.normal_(0.0, network.config.initializer_range, generator=rng)
            else:
                weight.fill_(1.0)


def ablate(
    target: Any, tokenizer: Any, answers: Sequence[dict[str, Any]], variant: Variant, steps: int, base: Settings
) -> dict[str, Any]:
    """Train one variant and return its row of the table. Raises UserError where there are too few answers."""
    training = Training(target, tokenizer, fewer(answers, variant.data), variant.settings(base))
    if variant.random:
        start_at_random(training.network, base.seed)
    training.run(0.0, steps)
    end, progress = training.curve[-1], training.progress
    return {
        "name": variant.name,
        "answers": training.data["answers"],
        "covered": training.data["covered"],
        "tokens": progress.tokens,
        "answer_tokens": progress.answer_tokens,
        "cpu_minutes": round(progress.cpu_seconds / 60, 1),
        "probed": sum(len(row.answer) for row in training.probe.rows),
        **{key: end[key] for key in ("ar_greedy", "one_minus_tvd", "ppl")},
    }


def note(folder: Path, row: dict[str, Any], about: dict[str, Any]) -> None:
    """Put a row into the table of a draft's card. Rows that were made in another way (steps, seed, answers) go: they
    cannot be compared."""
    card = read_card(folder)
    old = card.get("ablations", {})
    rows = {r["name"]: r for r in old.get("rows", [])} if {key: old.get(key) for key in about} == about else {}
    order = [variant.name for variant in VARIANTS]
    rows = {**rows, row["name"]: row}
    card["ablations"] = {**about, "rows": sorted(rows.values(), key=lambda r: order.index(r["name"]))}
    write_card(folder, card)


def _options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--steps", type=int, default=300, help="of every variant (default 300; the shipped draft had about a thousand)")
    usual(parser, "seed")
    numbered = "; ".join(f"{i} {v.name}" for i, v in enumerate(VARIANTS))
    add("--only", nargs="+", metavar="N", type=int, choices=range(len(VARIANTS)), help=numbered)


def _run(a: Namespace) -> None:
    folder = MODELS / DRAFT
    if not (folder / "card.json").is_file():
        raise UserError(
            f"there is no draft at {folder} whose card could take the table; train it first: {PROGRAM} {DRAFT} train"
        )
    base = Settings(seed=a.seed, probe_tokens=PROBED)
    answers = usable(read_answers(), [prompt["prompt"] for prompt in evaluation_prompts(TASKS)])
    target, tokenizer = load_target()
    command = f"{COMMAND} --steps {a.steps}"
    about = {"steps": a.steps, "seed": a.seed, "answers": len(answers), "command": command, "machine": trained_on()}
    for number in a.only if a.only is not None else range(len(VARIANTS)):
        print(VARIANTS[number].name, flush=True)
        row = ablate(target, tokenizer, answers, VARIANTS[number], a.steps, base)
        note(folder, row, about)
        write_table(MODELS)
        print(json.dumps(row), flush=True)


def commands() -> dict[str, Command]:
    """What each part of the draft's training is worth."""
    return {NAME: Command("what each part of the draft's training is worth", str(__doc__), _options, _run)}
