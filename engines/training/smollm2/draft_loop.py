"""The training of the draft model: its settings, its start, and the three stages.

Shapes: B rows, n tokens, v draft vocabulary, d hidden size.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.models.adapters.draft import build, own_weights
from engines.training.core import loop
from engines.training.core.commands import PROGRAM
from engines.training.core.loop import Loss, Until
from engines.training.core.optimizer import straight
from engines.training.core.weights import read_weights
from engines.training.smollm2.draft_probe import make_probe
from engines.training.smollm2.draft_rows import (
    Example,
    answer_batches,
    answer_logits,
    answer_loss,
    draft_vocabulary,
    examples,
    is_held_out,
    text_loss,
)
from engines.training.smollm2.draft_text import text_batches

COMMAND = f"{PROGRAM} smollm2-draft"
CLOSE = 1e-9  # of shares that are sums


@dataclass(frozen=True)
class Settings:
    """layers: which of the target's layers the draft starts as. gain: start of its final norm, as a share of the
    target's.

    Measured on 10 answers before any step, soft cross-entropy at gain 1 and 0.25: layers 0, 29: 39.6 and 12.9; 0, 28:
    13.0 and 7.7; 0, 10: 12.7 and 6.6; 0, 1: 14.5 and 6.3. stages: their shares of the minutes. soft: weight of the soft
    cross-entropy in FT."""

    layers: tuple[int, ...] = (0, 1)
    gain: float = 0.25
    vocabulary: int = 8192
    learning_rate: float = 8e-4
    warmup: int = 8
    rows: int = 8
    soft: float = 0.8
    stages: tuple[tuple[str, float], ...] = (("PT", 0.06), ("CP", 0.04), ("FT", 0.90))
    probe_every: int = 25
    probe_tokens: int = 1500
    seed: int = 0


def checkpoint_file() -> Path:
    """Where a training that is not finished keeps its state."""
    return loop.checkpoint_file("smollm2-draft")


def start_from(target: Any, settings: Settings, draft_ids: Tensor) -> Any:
    """The untrained draft: copies of some of the target's layers and its final norm."""
    config = target.config.to_dict() | {"num_hidden_layers": len(settings.layers)}
    config.pop("layer_types", None)
    network = build(config, target.get_input_embeddings().weight.detach(), draft_ids, torch.float32)
    for mine, theirs in enumerate(settings.layers):
        network.model.layers[mine].load_state_dict(target.model.layers[theirs].state_dict())
    network.model.norm.weight.data = settings.gain * target.model.norm.weight.float()
    return network


class Training(loop.Training):
    """A training of one draft: network, data, optimizer, curve."""

    name = "smollm2-draft"

    def __init__(
        self,
        target: Any,
        tokenizer: Any,
        answers: list[dict[str, Any]],
        settings: Settings,
        start: Path | None = None,
        command: str = COMMAND,
    ) -> None:
        """start: the folder of a draft whose weights and vocabulary the training goes on from, instead of the target's
        layers. Raises UserError for too few answers."""
        super().__init__()
        self.how, self.tokenizer, self.command = settings, tokenizer, command
        held = [a for a in answers if is_held_out(a["prompt"])]
        kept = [a for a in answers if not is_held_out(a["prompt"])]
        if not held or not kept:
            raise UserError(
                f"{len(answers)} answers are too few to train on and to probe; write more: {COMMAND} data --minutes 22"
            )
        vocab_size = target.config.vocab_size
        weights = read_weights(start) if start else {}
        self.draft_ids = (
            weights.pop("draft_ids").long()
            if start
            else draft_vocabulary(kept, settings.vocabulary, vocab_size, tokenizer.eos_token_id)
        )
        digest = hashlib.sha256(self.draft_ids.numpy().tobytes()).hexdigest()
        self.settings = f"{settings!r} {len(kept)} answers, vocabulary {digest[:12]}"
        self.place = torch.full((vocab_size,), -1)
        self.place[self.draft_ids] = torch.arange(len(self.draft_ids))
        self.rows = examples(kept, tokenizer, self.draft_ids, vocab_size)
        self.data = told(kept, self.rows)
        few = chosen(held, settings)
        probed = examples(few, tokenizer, self.draft_ids, vocab_size)
        self.probe = make_probe(target, probed, [a["class"] for a in few], self.draft_ids)
        self.network = start_from(target, settings, self.draft_ids)
        if weights:
            self.network.load_state_dict(weights, strict=False)
        own = [p for p in self.network.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(own, lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
        self.curve: list[dict[str, Any]] = []
        self.stage, self.begun, self.shown = "", 0, 0.0

    def run(self, minutes: float, steps: int | None = None, checkpoint: Path | None = None) -> None:
        """All stages; `minutes` (or `steps`) are divided among them by their shares."""
        if not self.curve:
            self._note("start", 0.0)
        loop.run(self, Until(steps, None if steps else minutes), checkpoint=checkpoint)

    def batch(self, share: float) -> list[Example] | Tensor:
        """Rows of text, or answers in the last stage. A new stage begins with data drawn from its first step on."""
        stage = self._stage_at(share)
        if stage != self.stage:
            self.ended()
            self.shown = 0.0
            self._begin(stage, self.progress.step)
        return next(self._stream)

    def _stage_at(self, share: float) -> str:
        done = 0.0
        for name, part in self.how.stages:
            done += part
            if share < done - CLOSE:
                return name
        return self.how.stages[-1][0]

    def _begin(self, stage: str, step: int) -> None:
        """Open a stage that begins at a step, its data behind what the steps since then took."""
        self.stage, self.begun = stage, step
        seed = self.how.seed + step
        stream: Iterator[Any] = (
            answer_batches(self.rows, self.how.rows, seed)
            if stage == "FT"
            else text_batches(self.tokenizer, stage, seed)
        )
        self._stream = islice(stream, self.progress.step - step, None)

    def loss(self, batch: list[Example] | Tensor) -> Loss:
        """Of text: the next token. Of answers: both cross-entropies, on their tokens alone."""
        if isinstance(batch, Tensor):
            return Loss(text_loss(self.network, batch, self.place), batch.numel())
        value = answer_loss(answer_logits(self.network, batch), batch, self.how.soft)
        return Loss(value, sum(len(row.ids) for row in batch), sum(len(row.answer) for row in batch))

    def rate(self, share: float) -> float:
        """A short rise, then a straight fall."""
        return straight(self.how.learning_rate, self.progress.step, self.how.warmup, share)

    def after_step(self, loss: float, shown: float, facts: dict[str, float] | None) -> None:
        """A probe now and then."""
        self.shown = loss if self.shown == 0 else 0.95 * self.shown + 0.05 * loss  # of this stage
        if self.progress.step % self.how.probe_every == 0:
            self._note(self.stage, self.shown)

    def ended(self) -> None:
        """A probe where a stage ends, unless there was one."""
        if self.stage and self.curve[-1]["step"] != self.progress.step:
            self._note(self.stage, self.shown)

    def _note(self, stage: str, loss: float) -> None:
        progress = self.progress
        point = {"stage": stage, "step": progress.step, "tokens_seen": progress.tokens, "loss": round(loss, 4)}
        self.curve.append({**point, **self.probe.measure(self.network)})
        said = {key: value for key, value in self.curve[-1].items() if key != "by_class"}
        print(json.dumps(said | {"minutes": round(progress.seconds / 60, 1)}), flush=True)

    def weights(self) -> dict[str, Tensor]:
        """The draft's own; the target's embedding is not kept."""
        return own_weights(self.network)

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """Those back."""
        self.network.load_state_dict(weights, strict=False)

    def state(self) -> dict[str, Any]:
        """The curve, the stage and the step that it began at."""
        return {"curve": self.curve, "stage": self.stage, "begun": self.begun, "shown": self.shown}

    def load(self, state: dict[str, Any]) -> None:
        """Go on there."""
        self.curve, self.shown = state["curve"], state["shown"]
        if state["stage"]:
            self._begin(state["stage"], state["begun"])


def told(kept: list[dict[str, Any]], rows: list[Example]) -> dict[str, Any]:
    """What the card says of the answers that are learnt."""
    covered = (torch.cat([row.answer for row in rows]) >= 0).double().mean().item()
    return {
        "prompts": len({a["prompt"] for a in kept}),
        "answers": len(kept),
        "answer_tokens": sum(len(row.answer) for row in rows),
        "covered": round(covered, 4),
    }


def chosen(held: list[dict[str, Any]], settings: Settings) -> list[dict[str, Any]]:
    """The held-out answers that are probed: drawn until they have `probe_tokens`."""
    few, total = [], 0
    for answer in random.Random(settings.seed).sample(held, len(held)):
        if total < settings.probe_tokens:
            few.append(answer)
            total += len(answer["ids"])
    return few
