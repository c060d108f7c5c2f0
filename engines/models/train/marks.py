"""How good a trained network is: exact match on tasks, forwards and calibration of parallel commits, loss and agreement of causal ones.

Decoding here is written for whole batches of prompts, with nothing recorded; a test holds it against the engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from engines.models.train.data import IGNORED, Pair, encode
from engines.models.train.networks import Network
from engines.models.train.recipes import Recipe
from engines.tasks import TASKS, Example, Split, check

ROWS = 32  # prompts decoded together
SLACK = 16  # answer positions beyond the longest answer seen, in which a model may end by itself


@dataclass(frozen=True)
class Mark:
    """Of some prompts: the share answered exactly, the mean forwards, and of the tokens committed at p > 0.9 how many were the reference's."""

    exact: float
    forwards: float
    sure: int = 0
    sure_right: int = 0


def held_out(task: str, n: int, split: Split = "held-out") -> list[Example]:
    """The first n prompts of a split."""
    return list(islice(TASKS[task].generate(split, seed=1), n))


@cache
def canvas_length(task: str, tokenizer: Any) -> int:
    """Answer positions that serve a task: its longest answer among 300, up to a multiple of 16."""
    longest = max(len(answer) for _, answer in encode(tokenizer, held_out(task, 300, "train")))
    return -(-longest // 16) * 16


def exact_match(network: Network, tokenizer: Any, recipe: Recipe, task: str, n: int, split: Split = "held-out") -> float:
    """Share of n prompts answered exactly with one token per forward."""
    return mark(network, tokenizer, recipe, task, n, split).exact


@torch.inference_mode()
def mark(network: Network, tokenizer: Any, recipe: Recipe, task: str, n: int, split: Split = "held-out", threshold: float | None = None) -> Mark:
    """Decode n prompts of a task. threshold: commit every position above it in each forward (0: all at once); None: one token per forward."""
    network.eval()
    examples = held_out(task, n, split)
    pairs = encode(tokenizer, examples)
    order = sorted(range(n), key=lambda i: len(pairs[i][0]))
    right = forwards = sure = sure_right = 0
    for start in range(0, n, ROWS):
        chunk = [pairs[i] for i in order[start : start + ROWS]]
        length = canvas_length(task, tokenizer)
        if recipe.kind in ("causal", "encdec"):
            outputs = _generate(network, tokenizer, recipe, chunk, length)
            forwards += sum(len(output) for output in outputs)
        else:
            outputs, counts, confident = _fill(network, tokenizer, recipe, chunk, length, threshold)
            forwards += sum(counts)
            for (_, answer), output, row in zip(chunk, outputs, confident, strict=True):
                wanted = answer + [tokenizer.eos_token_id] * (len(output) - len(answer))
                sure += sum(row)
                sure_right += sum(c and o == w for c, o, w in zip(row, output, wanted, strict=False))
        for i, output in zip(order[start : start + ROWS], outputs, strict=True):
            text = output[: output.index(tokenizer.eos_token_id)] if tokenizer.eos_token_id in output else output
            right += check(examples[i], tokenizer.decode(text)).correct
    return Mark(right / n, forwards / n, sure, sure_right)


def _generate(network: Network, tokenizer: Any, recipe: Recipe, pairs: list[Pair], length: int) -> list[list[int]]:
    """Greedy decoding by transformers, prompts padded on the left (causal) or right (encoder)."""
    longest = max(len(prompt) for prompt, _ in pairs)
    pad, left = tokenizer.pad_token_id, recipe.kind == "causal"
    rows = [[pad] * (longest - len(p)) + p if left else p + [pad] * (longest - len(p)) for p, _ in pairs]
    ids = torch.tensor(rows, device=network.device)
    out = network.generate(ids, attention_mask=(ids != pad).long(), max_new_tokens=length, do_sample=False)
    return [row[row.index(pad) + 1 :] if not left else row for row in out[:, longest if left else 0 :].tolist()]


def _fill(
    network: Network, tokenizer: Any, recipe: Recipe, pairs: list[Pair], length: int, threshold: float | None
) -> tuple[list[list[int]], list[int], list[list[bool]]]:
    """Fill `length` masks behind every prompt. Returns per row the answer's ids, the forwards and which tokens were committed at p > 0.9.

    A masked model may fill anywhere; a block model only in the first block that is open, whose first token is always committed (Fast-dLLM v2's
    free token). Rows are as long as the longest one, so shorter prompts have a longer canvas; a block model stops behind the block with the end mark.
    """
    block = recipe.block if recipe.kind == "block" else 0
    width = max(len(prompt) for prompt, _ in pairs) + length
    width = -(-width // block) * block if block else width
    x = torch.full((len(pairs), width), tokenizer.mask_token_id)
    for i, (prompt, _) in enumerate(pairs):
        x[i, : len(prompt)] = torch.tensor(prompt)
    start = torch.tensor([len(prompt) for prompt, _ in pairs])
    confident = torch.zeros(x.shape, dtype=torch.bool)
    counts = [0] * len(pairs)
    x, start, confident = x.to(network.device), start.to(network.device), confident.to(network.device)
    while True:
        masked = x == tokenizer.mask_token_id
        open_rows = masked.any(1) & ~(_ended(x, start, block, tokenizer.eos_token_id) if block else torch.zeros_like(start, dtype=torch.bool))
        rows = open_rows.nonzero().flatten()
        if len(rows) == 0:
            break
        for i in rows.tolist():
            counts[i] += 1
        commit, tokens, p = _commits(network, x[rows], masked[rows], block, threshold, tokenizer.mask_token_id)
        x[rows] = torch.where(commit, tokens, x[rows])
        confident[rows] |= commit & (p > 0.9)
    return [x[i, s:].tolist() for i, s in enumerate(start.tolist())], counts, [confident[i, s:].tolist() for i, s in enumerate(start.tolist())]


def _ended(x: Tensor, start: Tensor, block: int, eos: int) -> Tensor:
    """Rows [R] whose last full answer block holds the end mark."""
    places = torch.arange(x.shape[1], device=x.device)
    first = ((x == eos) & (places >= start[:, None])).int()
    where = torch.where(first.any(1), first.argmax(1), x.shape[1])
    return torch.tensor(
        [w < x.shape[1] and not bool((row[: (w // block + 1) * block] == 1).any()) for w, row in zip(where.tolist(), x, strict=True)], device=x.device
    )


def _commits(network: Network, x: Tensor, masked: Tensor, block: int, threshold: float | None, mask_id: int) -> tuple[Tensor, Tensor, Tensor]:
    """One forward over boards x [R, L]: which positions are committed, the tokens proposed there and their probabilities, each [R, L]."""
    inputs: dict[str, Any] = {}
    if block:
        number = torch.arange(x.shape[1], device=x.device) // block
        inputs["attention_mask"] = (number[:, None] >= number[None])[None, None]
    logits = network(input_ids=x, use_cache=False, **inputs).logits.float()
    logits = torch.cat([logits[:, :1], logits[:, :-1]], dim=1)
    logits[..., mask_id] = -torch.inf
    p, tokens = logits.softmax(-1).max(-1)
    first = masked.int().argmax(1, keepdim=True)
    if block:
        number = torch.arange(x.shape[1], device=x.device) // block
        masked = masked & (number[None] == number[first])
    confidence = torch.where(masked, p, -1.0)
    commit = torch.zeros_like(masked).scatter(1, confidence.argmax(1, keepdim=True), True)
    if threshold is not None:
        commit = commit | (confidence > threshold)
    if block:
        at_start = first % block == 0
        alone = torch.zeros_like(masked).scatter(1, first, True)
        commit = torch.where(at_start & (threshold is None), alone, commit | (alone & at_start))
    return commit, tokens, p


@torch.inference_mode()
def loss_and_agreement(network: Network, other: Network | None, tokenizer: Any, examples: list[Example]) -> tuple[float, float | None]:
    """(mean loss in nats per answer token with the reference before it, share of those positions where both networks rank the same token first)."""
    loss = tokens = same = 0.0
    for start in range(0, len(examples), ROWS):
        pairs = encode(tokenizer, examples[start : start + ROWS])
        width = max(len(p) + len(a) for p, a in pairs)
        ids = torch.full((len(pairs), width), tokenizer.eos_token_id)
        targets = torch.full((len(pairs), width), IGNORED)
        for i, (prompt, answer) in enumerate(pairs):
            end = len(prompt) + len(answer)
            ids[i, :end] = torch.tensor(prompt + answer)
            targets[i, len(prompt) - 1 : end - 1] = torch.tensor(answer)
        wanted = targets != IGNORED
        logits = network(input_ids=ids, use_cache=False).logits[wanted].float()
        loss += torch.nn.functional.cross_entropy(logits, targets[wanted], reduction="sum").item()
        tokens += int(wanted.sum())
        if other is not None:
            same += int((logits.argmax(-1) == other(input_ids=ids, use_cache=False).logits[wanted].argmax(-1)).sum())
    return loss / tokens, same / tokens if other is not None else None
