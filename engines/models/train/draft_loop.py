"""The training of the draft model: rows and losses, the probe on held-out answers, the three stages with checkpoint and resume.

Shapes: B rows, n tokens, v draft vocabulary, d hidden size.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from engines.core.errors import UserError
from engines.models.draft import build, own_weights
from engines.models.train.draft_data import answers_file
from engines.models.train.draft_text import text_batches
from engines.models.train.loop import attention

COMMAND = "python -m engines.models.train.draft"


@dataclass(frozen=True)
class Settings:
    """layers: which of the target's layers the draft starts as. gain: start of its final norm, as a share of the target's.

    Measured on 10 answers before any step, soft cross-entropy at gain 1 and 0.25: layers 0, 29: 39.6 and 12.9; 0, 28: 13.0 and 7.7; 0, 10: 12.7 and
    6.6; 0, 1: 14.5 and 6.3. stages: their shares of the minutes. soft: weight of the soft cross-entropy in FT.
    """

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


@dataclass
class Progress:
    """How far a training is; kept in checkpoints."""

    step: int = 0
    tokens: int = 0
    answer_tokens: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass
class Example:
    """An answer as the network sees it. top [n, 16]: indices into the draft vocabulary, -1 where it has none; p [n, 16]: the target's probabilities."""

    ids: list[int]
    prompt: int
    answer: Tensor
    top: Tensor
    p: Tensor


def checkpoint_file() -> Path:
    """Where a training that is not finished keeps its state."""
    return answers_file().with_name("draft.pt")


def is_held_out(prompt: str) -> bool:
    """One prompt of twenty-four is never trained on; its answers are probed."""
    return hashlib.sha256(prompt.encode()).digest()[0] % 24 == 0


def usable(answers: list[dict[str, Any]], evaluation: list[str]) -> list[dict[str, Any]]:
    """The answers without those to, or quoting, an evaluation prompt (the model writes some of the training prompts itself)."""
    banned = [" ".join(text.lower().split()) for text in evaluation]
    return [a for a in answers if not any(text in " ".join(a["prompt"].lower().split()) for text in banned)]


def draft_vocabulary(answers: list[dict[str, Any]], size: int, vocab_size: int, end: int) -> Tensor:
    """The ids [v] most probable in the target's answers, in rising order; the end of a turn is always one of them."""
    counts = np.zeros(vocab_size)
    for answer in answers:
        np.add.at(counts, answer["top_ids"].astype(np.int64), np.exp(answer["top_logprobs"].astype(np.float64)))
        np.add.at(counts, answer["ids"], 1.0)
    counts[end] = np.inf
    return torch.from_numpy(np.sort(np.argsort(-counts, kind="stable")[:size]))


def examples(answers: list[dict[str, Any]], tokenizer: Any, draft_ids: Tensor, vocab_size: int) -> list[Example]:
    """Answers as training rows."""
    place = torch.full((vocab_size,), -1)
    place[draft_ids] = torch.arange(len(draft_ids))
    rows = []
    for answer in answers:
        turn = [{"role": "user", "content": answer["prompt"]}]
        prompt = list(tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=False))
        top = place[torch.from_numpy(answer["top_ids"].astype(np.int64))]
        p = torch.from_numpy(answer["top_logprobs"].astype(np.float32)).exp()
        rows.append(Example(prompt + answer["ids"], len(prompt), place[torch.tensor(answer["ids"])], top, p))
    return rows


def answer_batches(rows: list[Example], size: int, seed: int) -> Iterator[list[Example]]:
    """Endless batches of rows of similar length, every row once per pass."""
    rng = random.Random(seed)
    while True:
        order = sorted(rng.sample(rows, len(rows)), key=lambda row: len(row.ids) // 24)
        groups = [order[i : i + size] for i in range(0, len(order), size)]
        yield from rng.sample(groups, len(groups))


def text_loss(network: nn.Module, ids: Tensor, place: Tensor) -> Tensor:
    """Cross-entropy of every next token of ids [B, n] that the draft vocabulary has."""
    hidden = network.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
    wanted = place[ids[:, 1:]].flatten()
    return nn.functional.cross_entropy(network.lm_head(hidden.flatten(0, 1)).float(), wanted, ignore_index=-1)


def answer_logits(network: nn.Module, batch: list[Example]) -> Tensor:
    """Logits [positions, v] of all answer tokens of a batch, row after row."""
    longest = max(len(row.ids) for row in batch) - 1
    ids = torch.tensor([row.ids[:-1] + [0] * (longest + 1 - len(row.ids)) for row in batch])
    hidden = network.model(input_ids=ids, use_cache=False).last_hidden_state
    return network.lm_head(torch.cat([hidden[i, row.prompt - 1 : len(row.ids) - 1] for i, row in enumerate(batch)])).float()


def answer_loss(logits: Tensor, batch: list[Example], soft: float) -> Tensor:
    """(1 - soft) times the cross-entropy of the answers plus soft times that of the target's law, both where the draft vocabulary has the tokens.

    The law is known for its sixteen most probable tokens, which carry most of it; it is not scaled up to 1.
    """
    logq = logits.log_softmax(-1)
    answer, top, p = (torch.cat([getattr(row, key) for row in batch]) for key in ("answer", "top", "p"))
    hard = nn.functional.nll_loss(logq, answer, ignore_index=-1)
    return (1 - soft) * hard - soft * (p * (top >= 0) * logq.gather(1, top.clamp(min=0))).sum(1).mean()


@dataclass
class Probe:
    """Held-out answers with the target's law over the draft vocabulary at each of their positions: p [positions, v], first choice [positions] or -1."""

    rows: list[Example]
    p: Tensor
    first: Tensor
    groups: list[str]

    def measure(self, network: nn.Module) -> dict[str, Any]:
        """Greedy acceptance, 1 - TVD and perplexity along the target's own text, all and by class. No decoding: every position sees the true past."""
        network.eval()
        with torch.inference_mode():
            logits = torch.cat([answer_logits(network, self.rows[i : i + 8]) for i in range(0, len(self.rows), 8)])
            q = logits.softmax(-1)
            same, overlap = (logits.argmax(-1) == self.first).double(), torch.minimum(q, self.p.float()).sum(-1).double()
            answer = torch.cat([row.answer for row in self.rows])
            loss = nn.functional.cross_entropy(logits, answer, ignore_index=-1).item()
        owner = [name for row, name in zip(self.rows, self.groups, strict=True) for _ in row.answer]
        by = {name: round(same[torch.tensor([o == name for o in owner])].mean().item(), 4) for name in sorted(set(owner))}
        return {"ar_greedy": round(same.mean().item(), 4), "one_minus_tvd": round(overlap.mean().item(), 4), "ppl": round(math.exp(loss), 2), "by_class": by}


@torch.inference_mode()
def make_probe(target: Any, rows: list[Example], groups: list[str], draft_ids: Tensor) -> Probe:
    """The target's law at every answer position of held-out rows. Uncovered tokens keep their share of it, so 1 - TVD counts them as lost."""
    place = torch.full((target.config.vocab_size,), -1)
    place[draft_ids] = torch.arange(len(draft_ids))
    laws, firsts = [], []
    for row in rows:
        hidden = target.model(input_ids=torch.tensor([row.ids[:-1]])).last_hidden_state[0, row.prompt - 1 :].contiguous()
        p = target.lm_head(hidden).float().softmax(-1)
        laws.append(p[:, draft_ids].half())
        firsts.append(place[p.argmax(-1)])
    return Probe(rows, torch.cat(laws), torch.cat(firsts), groups)


def start_from(target: Any, settings: Settings, draft_ids: Tensor) -> Any:
    """The untrained draft: copies of some of the target's layers and its final norm."""
    config = target.config.to_dict() | {"num_hidden_layers": len(settings.layers)}
    config.pop("layer_types", None)
    network = build(config, target.get_input_embeddings().weight.detach(), draft_ids, torch.float32)
    for mine, theirs in enumerate(settings.layers):
        network.model.layers[mine].load_state_dict(target.model.layers[theirs].state_dict())
    network.model.norm.weight.data = settings.gain * target.model.norm.weight.float()
    return network


def rate(settings: Settings, step: int, share: float) -> float:
    """The learning rate: a short rise, then a straight fall to 2 % as `share` goes from 0 to 1."""
    return settings.learning_rate * min(1.0, (step + 1) / settings.warmup) * (1 - 0.98 * min(share, 1.0))


class Training:
    """A training of one draft: network, data, optimizer, curve, and what is kept of them."""

    def __init__(self, target: Any, tokenizer: Any, answers: list[dict[str, Any]], settings: Settings, start: Path | None = None) -> None:
        """start: the folder of a draft whose weights and vocabulary the training goes on from, instead of the target's layers."""
        self.settings, self.tokenizer = settings, tokenizer
        held = [a for a in answers if is_held_out(a["prompt"])]
        kept = [a for a in answers if not is_held_out(a["prompt"])]
        if not held or not kept:
            raise UserError(f"{len(answers)} answers are too few to train on and to probe; write more: {COMMAND} data --minutes 22")
        vocab_size = target.config.vocab_size
        weights = load_file(start / "model.safetensors") if start else {}
        self.draft_ids = weights.pop("draft_ids").long() if start else draft_vocabulary(kept, settings.vocabulary, vocab_size, tokenizer.eos_token_id)
        self.place = torch.full((vocab_size,), -1)
        self.place[self.draft_ids] = torch.arange(len(self.draft_ids))
        self.rows = examples(kept, tokenizer, self.draft_ids, vocab_size)
        covered = (torch.cat([row.answer for row in self.rows]) >= 0).double().mean().item()
        tokens = sum(len(row.answer) for row in self.rows)
        self.data = {"prompts": len({a["prompt"] for a in kept}), "answers": len(kept), "answer_tokens": tokens, "covered": round(covered, 4)}
        few, total = [], 0
        for answer in random.Random(settings.seed).sample(held, len(held)):
            if total < settings.probe_tokens:
                few.append(answer)
                total += len(answer["ids"])
        self.probe = make_probe(target, examples(few, tokenizer, self.draft_ids, vocab_size), [a["class"] for a in few], self.draft_ids)
        self.network = start_from(target, settings, self.draft_ids)
        if weights:
            self.network.load_state_dict(weights, strict=False)
        own = [p for p in self.network.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(own, lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
        self.progress, self.curve = Progress(), list[dict[str, Any]]()

    def run(self, minutes: float, steps: int | None = None) -> None:
        """All stages; `minutes` (or `steps`) are divided among them by their shares. A resumed training goes on in its stage, its data drawn anew."""
        done = 0.0
        if not self.curve:
            self._note("start", 0.0)
        for stage, part in self.settings.stages:
            done += part
            self._stage(stage, done, minutes, steps)

    def _stage(self, stage: str, until: float, minutes: float, steps: int | None) -> None:
        def share() -> float:
            return self.progress.step / steps if steps else self.progress.seconds / 60 / minutes

        seed = self.settings.seed + self.progress.step
        texts = None if stage == "FT" else text_batches(self.tokenizer, stage, seed)
        answers = answer_batches(self.rows, self.settings.rows, seed)
        smooth, stepped, last = 0.0, False, (time.monotonic(), time.process_time())
        while share() < until - 1e-9:
            self.network.train()
            with attention("cpu"), torch.autocast("cpu", dtype=torch.bfloat16):
                if texts is not None:
                    ids = next(texts)
                    loss, seen, answered = text_loss(self.network, ids, self.place), ids.numel(), 0
                else:
                    batch = next(answers)
                    loss = answer_loss(answer_logits(self.network, batch), batch, self.settings.soft)
                    seen, answered = sum(len(row.ids) for row in batch), sum(len(row.answer) for row in batch)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            for group in self.optimizer.param_groups:
                group["lr"] = rate(self.settings, self.progress.step, share())
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            smooth = loss.item() if smooth == 0 else 0.95 * smooth + 0.05 * loss.item()
            self.progress.step += 1
            self.progress.tokens += seen
            self.progress.answer_tokens += answered
            now, stepped = (time.monotonic(), time.process_time()), True
            self.progress.seconds, self.progress.cpu_seconds = self.progress.seconds + now[0] - last[0], self.progress.cpu_seconds + now[1] - last[1]
            last = now
            if self.progress.step % self.settings.probe_every == 0:
                self._note(stage, smooth)
                self.save()
        if stepped and self.curve[-1]["step"] != self.progress.step:
            self._note(stage, smooth)

    def _note(self, stage: str, loss: float) -> None:
        point = {"stage": stage, "step": self.progress.step, "tokens_seen": self.progress.tokens, "loss": round(loss, 4), **self.probe.measure(self.network)}
        self.curve.append(point)
        print(json.dumps({k: v for k, v in point.items() if k != "by_class"} | {"minutes": round(self.progress.seconds / 60, 1)}), flush=True)

    def save(self) -> None:
        """Write the checkpoint; the old one stays until the new one is whole."""
        path = checkpoint_file()
        state = {"network": own_weights(self.network), "optimizer": self.optimizer.state_dict(), "progress": asdict(self.progress), "curve": self.curve}
        torch.save(state | {"settings": repr(self.settings), "draft_ids": self.draft_ids}, path.with_suffix(".partial"))
        os.replace(path.with_suffix(".partial"), path)

    def restore(self) -> None:
        """Go on from the checkpoint. Raises UserError if there is none or it was made with other settings or data."""
        path = checkpoint_file()
        if not path.is_file():
            raise UserError(f"there is no checkpoint to go on from ({path}); leave --resume out.")
        state = torch.load(path, weights_only=True)
        if state["settings"] != repr(self.settings) or not torch.equal(state["draft_ids"], self.draft_ids):
            raise UserError(f"the checkpoint {path} was made with other settings or answers; leave --resume out to start again.")
        self.network.load_state_dict(state["network"], strict=False)
        self.optimizer.load_state_dict(state["optimizer"])
        self.progress, self.curve = Progress(**state["progress"]), state["curve"]
