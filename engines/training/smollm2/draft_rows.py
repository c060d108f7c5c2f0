"""What the draft learns from, as rows, and its losses.

Shapes: B rows, n tokens, v draft vocabulary, d hidden size.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


@dataclass
class Example:
    """An answer as the network sees it. top [n, 16]: indices into the draft vocabulary, -1 where it has none; p [n,
    16]: the target's probabilities."""

    ids: list[int]
    prompt: int
    answer: Tensor
    top: Tensor
    p: Tensor


def is_held_out(prompt: str) -> bool:
    """One prompt of twenty-four is never trained on; its answers are probed."""
    return hashlib.sha256(prompt.encode()).digest()[0] % 24 == 0


def usable(answers: list[dict[str, Any]], evaluation: list[str]) -> list[dict[str, Any]]:
    """The answers without those to, or quoting, an evaluation prompt (the model writes some of the training prompts
    itself)."""
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
    return network.lm_head(
        torch.cat([hidden[i, row.prompt - 1 : len(row.ids) - 1] for i, row in enumerate(batch)])
    ).float()


def answer_loss(logits: Tensor, batch: list[Example], soft: float) -> Tensor:
    """(1 - soft) times the cross-entropy of the answers plus soft times that of the target's distribution, both where
    the draft vocabulary has the tokens.

    The distribution is known for its sixteen most probable tokens, which carry most of it; it is not scaled up to 1.
    """
    logq = logits.log_softmax(-1)
    answer, top, p = (torch.cat([getattr(row, key) for row in batch]) for key in ("answer", "top", "p"))
    hard = nn.functional.nll_loss(logq, answer, ignore_index=-1)
    return (1 - soft) * hard - soft * (p * (top >= 0) * logq.gather(1, top.clamp(min=0))).sum(1).mean()
